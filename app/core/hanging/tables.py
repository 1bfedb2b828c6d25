"""Hanging transactions that were found, with their ends."""

from __future__ import annotations

import sqlalchemy as sa

from app.core.hanging.hanging_transaction import HangingEnding
from app.kit.db.columns import generated_uuid, integer, metadata, moment, one_of, text

hanging_transactions = sa.Table(
    "hanging_transactions",
    metadata,
    generated_uuid("id"),
    text("kafka_cluster_id"),
    text("topic"),
    integer("partition"),
    sa.Column("producer_id", sa.BigInteger, nullable=False),
    integer("producer_epoch"),
    sa.Column("start_offset", sa.BigInteger, nullable=False),
    integer("coordinator_epoch"),
    sa.Column("last_written_ms", sa.BigInteger, nullable=False),
    text("transactional_id", nullable=True),
    sa.Column("is_corroborated", sa.Boolean, nullable=False),
    text("why"),
    sa.Column("high_watermark", sa.BigInteger, nullable=False),
    moment("found_at"),
    moment("ended_at", nullable=True),
    text("ending", nullable=True),
    sa.Column("marker_offset", sa.BigInteger),
    one_of("ending", HangingEnding),
    # One row for any number of servers that find it.
    sa.UniqueConstraint(
        "kafka_cluster_id",
        "topic",
        "partition",
        "producer_id",
        "producer_epoch",
        "start_offset",
        name="uq_hanging_transactions_one",
    ),
    sa.Index("ix_hanging_transactions_found", "kafka_cluster_id", "found_at", "id"),
)
