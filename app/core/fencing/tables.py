"""Fencing events. They refer to pipelines and runs by name, so they outlive them and need none of their locks."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.fencing.fencing_event import Confidence, FencingCause, FencingKind
from app.kit.db.columns import UUID, generated_uuid, integer, json, metadata, moment, one_of, text

fencing_events = sa.Table(
    "fencing_events",
    metadata,
    generated_uuid("id"),
    text("kafka_cluster_id"),
    text("transactional_id"),
    sa.Column("producer_id", sa.BigInteger, nullable=False),
    integer("producer_epoch"),
    text("kind"),
    text("cause"),
    text("confidence"),
    sa.Column("is_fencing", sa.Boolean, nullable=False),
    moment("at"),
    json("verdict"),
    json("evidence"),
    json("corrections"),
    text("pipeline", nullable=True),
    text("group_id", nullable=True),
    sa.Column("run_id", UUID),
    integer("ordinal", nullable=True),
    integer("lease", nullable=True),
    integer("task", nullable=True),
    integer("attempt", nullable=True),
    text("host", nullable=True),
    sa.Column("partitions", postgresql.ARRAY(sa.Text), nullable=False),
    moment("told_at"),
    moment("changed_at"),
    one_of("kind", FencingKind),
    one_of("cause", FencingCause),
    one_of("confidence", Confidence),
    # The identity of a loss: reports of any number of servers make one row.
    sa.UniqueConstraint(
        "kafka_cluster_id", "transactional_id", "producer_id", "producer_epoch", "kind", name="uq_fencing_events_loss"
    ),
    sa.Index("ix_fencing_events_at", "at", "id"),
    # For the first page of the feed and its counts: restarts, which are no fencing, are far more frequent.
    sa.Index("ix_fencing_events_is_fencing", "at", "id", postgresql_where=sa.text("is_fencing")),
    sa.Index("ix_fencing_events_cluster", "kafka_cluster_id", "at", "id"),
    sa.Index("ix_fencing_events_pipeline", "pipeline", "at", "id"),
    sa.Index("ix_fencing_events_group", "kafka_cluster_id", "group_id", "at", "id"),
)

# Only grows, as a Prometheus counter must: events are corrected, and removed after their retention.
fencing_counts = sa.Table(
    "fencing_counts",
    metadata,
    text("kafka_cluster_id", primary_key=True),
    text("cause", primary_key=True),
    sa.Column("told", sa.BigInteger, nullable=False),
)
