"""The task and the transactional id of each partition: now, and over time."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.mappings.mapping import IdOrigin
from app.kit.db.columns import UUID, integer, metadata, moment, one_of, text

partition_mappings = sa.Table(
    "partition_mappings",
    metadata,
    text("kafka_cluster_id", primary_key=True),
    text("group_id", primary_key=True),
    text("topic", primary_key=True),
    integer("partition", primary_key=True),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False, index=True),
    text("transactional_id", nullable=True),
    sa.Column("owner_run_id", UUID),
    integer("owner_ordinal", nullable=True),
    integer("owner_lease", nullable=True),
    integer("owner_task", nullable=True),
    integer("owner_attempt", nullable=True),
    text("owner_host", nullable=True),
    sa.Column("producer_id", sa.BigInteger),
    integer("epoch", nullable=True),
    integer("generation", nullable=True),
    moment("since"),
    text("assigned_id", nullable=True),
    text("origin", nullable=True),
    sa.CheckConstraint("num_nulls(assigned_id, origin) IN (0, 2)", name="assigned"),
    one_of("origin", IdOrigin),
    # Deferred, since a pipeline's removal deletes the rows of both tables in an order that Postgres chooses.
    sa.ForeignKeyConstraint(
        ["kafka_cluster_id", "assigned_id", "pipeline_id"],
        [
            "transactional_ids.kafka_cluster_id",
            "transactional_ids.transactional_id",
            "transactional_ids.pipeline_id",
        ],
        name="fk_partition_mappings_assigned_id",
        deferrable=True,
        initially="DEFERRED",
    ),
    sa.CheckConstraint(
        "num_nulls(owner_run_id, owner_ordinal, owner_lease, owner_task, owner_attempt, owner_host) IN (0, 6)",
        name="owner",
    ),
    sa.Index("ix_partition_mappings_owner", "owner_run_id", "owner_ordinal", "owner_task"),
)

partition_ownerships = sa.Table(
    "partition_ownerships",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    text("kafka_cluster_id"),
    text("group_id"),
    text("topic"),
    integer("partition"),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False, index=True),
    text("transactional_id", nullable=True),
    sa.Column("owner_run_id", UUID, nullable=False),
    integer("owner_ordinal"),
    integer("owner_lease"),
    integer("owner_task"),
    integer("owner_attempt"),
    text("owner_host"),
    integer("generation", nullable=True),
    sa.Column("producer_id", sa.BigInteger),
    integer("epoch", nullable=True),
    sa.Column("during", postgresql.TSTZRANGE, nullable=False),
    moment("heard_until", nullable=True),
    sa.CheckConstraint("NOT isempty(during)", name="during"),
    # Two ownership intervals of one partition never overlap; btree_gist allows equality in a GiST index.
    postgresql.ExcludeConstraint(
        ("kafka_cluster_id", "="),
        ("group_id", "="),
        ("topic", "="),
        ("partition", "="),
        ("during", "&&"),
        name="ex_partition_ownerships_during",
        using="gist",
    ),
    # A heartbeat reads the newest interval and the open ones; a partition may have tens of thousands.
    sa.Index(
        "ix_partition_ownerships_newest", "kafka_cluster_id", "group_id", "topic", "partition", sa.text("lower(during)")
    ),
    sa.Index(
        "ix_partition_ownerships_open",
        "kafka_cluster_id",
        "group_id",
        "topic",
        "partition",
        postgresql_where=sa.text("upper_inf(during)"),
    ),
)

# The number of a cluster's transactional ids by owner; old rows are thinned.
id_counts = sa.Table(
    "id_counts",
    metadata,
    text("kafka_cluster_id", primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
    integer("ids"),
    integer("ours"),
    integer("orphaned"),
)
