"""Webhooks, their deliveries, and the raised alerts."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.alerts.webhook import DeliveryState
from app.kit.db.columns import UUID, integer, json, metadata, moment, one_of, text

webhooks = sa.Table(
    "webhooks",
    metadata,
    text("name", primary_key=True),
    text("url"),
    sa.Column("secrets", postgresql.ARRAY(sa.Text), nullable=False),
    sa.Column("kinds", postgresql.ARRAY(sa.Text), nullable=False),
    moment("created_at"),
    text("created_by"),
    moment("paused_at", nullable=True),
    text("pause_reason", nullable=True),
)

# Its times are Postgres' own: two servers with different clocks agree on the turn of an attempt.
webhook_deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    sa.Column("sequence", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("id", UUID, nullable=False, server_default=sa.text("gen_random_uuid()")),
    text("webhook"),
    text("subject"),
    json("alert"),
    text("state"),
    moment("written_at"),
    integer("attempts"),
    moment("next_attempt_at"),
    moment("last_attempt_at", nullable=True),
    sa.Column("is_refused", sa.Boolean, nullable=False),
    integer("answer_status", nullable=True),
    text("answer", nullable=True),
    text("error", nullable=True),
    moment("ended_at", nullable=True),
    one_of("state", DeliveryState),
    sa.UniqueConstraint("id"),
    sa.ForeignKeyConstraint(["webhook"], ["webhooks.name"], ondelete="CASCADE"),
    sa.Index("ix_webhook_deliveries_webhook_sequence", "webhook", "sequence"),
    sa.Index("ix_webhook_deliveries_subject", "subject"),
    sa.Index("ix_webhook_deliveries_ended_at", "ended_at"),
)
sa.Index(
    "ix_webhook_deliveries_pending",
    webhook_deliveries.c.webhook,
    webhook_deliveries.c.sequence,
    postgresql_where=webhook_deliveries.c.state == sa.literal_column("'pending'"),
)

raised_alerts = sa.Table(
    "raised_alerts",
    metadata,
    text("kind", primary_key=True),
    text("subject", primary_key=True),
    json("alert"),
)
