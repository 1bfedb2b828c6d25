"""Webhooks: where alerts are sent, what is on its way, and which alerts are raised and not resolved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
    op.create_table(
        "webhooks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secrets", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("kinds", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhooks")),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("alert", json, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_refused", sa.Boolean(), nullable=False),
        sa.Column("answer_status", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('delivered', 'given_up', 'pending')", name=op.f("ck_webhook_deliveries_state")),
        sa.ForeignKeyConstraint(
            ["webhook"], ["webhooks.name"], name=op.f("fk_webhook_deliveries_webhook"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("id", name=op.f("uq_webhook_deliveries_id")),
    )
    op.create_index("ix_webhook_deliveries_webhook_sequence", "webhook_deliveries", ["webhook", "sequence"])
    op.create_index("ix_webhook_deliveries_subject", "webhook_deliveries", ["subject"])
    op.create_index("ix_webhook_deliveries_ended_at", "webhook_deliveries", ["ended_at"])
    op.create_index(
        "ix_webhook_deliveries_pending",
        "webhook_deliveries",
        ["webhook", "sequence"],
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_table(
        "raised_alerts",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("alert", json, nullable=False),
        sa.PrimaryKeyConstraint("kind", "subject", name=op.f("pk_raised_alerts")),
    )


def downgrade() -> None:
    op.drop_table("raised_alerts")
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
