"""Clusters, pipelines, their immutable revisions, and the transactional ids that each pipeline owns."""

from __future__ import annotations

import sqlalchemy as sa

from app.core.mappings.mapping import IdKind
from app.kit.db.columns import UUID, generated_uuid, integer, json, metadata, moment, one_of, text

clusters = sa.Table(
    "clusters",
    metadata,
    text("name", primary_key=True),
    text("kafka_cluster_id"),
    text("bootstrap_servers"),
    json("client_config"),
    moment("created_at"),
    text("created_by"),
)

transform_sources = sa.Table(
    "transform_sources",
    metadata,
    text("sha256", primary_key=True),
    text("source"),
    integer("size_bytes"),
    moment("created_at"),
    text("created_by"),
    sa.CheckConstraint("sha256 = encode(sha256(convert_to(source, 'UTF8')), 'hex')", name="content"),
)

pipelines = sa.Table(
    "pipelines",
    metadata,
    generated_uuid("id"),
    text("name"),
    sa.Column("cluster", sa.Text, sa.ForeignKey("clusters.name"), nullable=False),
    text("kafka_cluster_id"),
    text("group_id"),
    integer("current_revision"),
    moment("created_at"),
    text("created_by"),
    moment("changed_at"),
    sa.UniqueConstraint("name"),
    # A consumer group belongs to one pipeline: two would take each other's partitions and overwrite each other's
    # offsets.
    sa.UniqueConstraint("kafka_cluster_id", "group_id"),
    # Deferred, since a pipeline and its first revision name each other.
    sa.ForeignKeyConstraint(
        ["id", "current_revision"],
        ["revisions.pipeline_id", "revisions.number"],
        name="fk_pipelines_current_revision",
        deferrable=True,
        initially="DEFERRED",
        use_alter=True,
    ),
)

revisions = sa.Table(
    "revisions",
    metadata,
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), primary_key=True),
    integer("number", primary_key=True),
    json("definition"),
    text("definition_sha256"),
    sa.Column("transform_source_sha256", sa.Text, sa.ForeignKey("transform_sources.sha256")),
    moment("created_at"),
    text("created_by"),
    text("note", nullable=True),
    sa.CheckConstraint("number >= 1", name="number"),
)

transactional_ids = sa.Table(
    "transactional_ids",
    metadata,
    text("kafka_cluster_id", primary_key=True),
    text("transactional_id", primary_key=True),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False, server_default=sa.text("'task'")),
    integer("ordinal", nullable=True),
    integer("task", nullable=True),
    moment("archived_at", nullable=True),
    sa.Column("archived_by", UUID, sa.ForeignKey("migrations.id", ondelete="SET NULL"), index=True),
    one_of("kind", IdKind),
    sa.CheckConstraint("archived_by IS NULL OR archived_at IS NOT NULL", name="archived"),
    sa.CheckConstraint("num_nulls(ordinal, task) = 2 * (kind <> 'task')::int", name="place"),
    # A mapping's assigned id refers to an id of its own pipeline.
    sa.UniqueConstraint("kafka_cluster_id", "transactional_id", "pipeline_id", name="uq_transactional_ids_pipeline"),
)
