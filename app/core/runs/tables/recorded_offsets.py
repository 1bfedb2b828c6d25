"""Confirmed offsets, kept for as long as the pipeline is."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import UUID, integer, metadata, moment, text

# The last offset of each partition whose commit was confirmed and reported; it outlives the group's own offset.
recorded_offsets = sa.Table(
    "recorded_offsets",
    metadata,
    text("kafka_cluster_id", primary_key=True),
    text("group_id", primary_key=True),
    text("topic", primary_key=True),
    integer("partition", primary_key=True),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("offset", sa.BigInteger, nullable=False),
    text("topic_id", nullable=True),
    sa.Column("is_final", sa.Boolean, nullable=False),
    # The begin of its run, or the time of a reset: an older report changes nothing.
    moment("began_at"),
    postgresql_with={"fillfactor": "50"},
)
