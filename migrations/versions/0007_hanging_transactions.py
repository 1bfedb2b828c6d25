"""Hanging transactions that the search has found: one row each, with how it ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ENDINGS = "ending IN ('aborted', 'adopted', 'committed', 'gone')"


def upgrade() -> None:
    op.create_table(
        "hanging_transactions",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start_offset", sa.BigInteger(), nullable=False),
        sa.Column("coordinator_epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_written_ms", sa.BigInteger(), nullable=False),
        sa.Column("transactional_id", sa.Text(), nullable=True),
        sa.Column("is_corroborated", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("high_watermark", sa.BigInteger(), nullable=False),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ending", sa.Text(), nullable=True),
        sa.Column("marker_offset", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(ENDINGS, name=op.f("ck_hanging_transactions_ending")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hanging_transactions")),
        sa.UniqueConstraint(
            "kafka_cluster_id",
            "topic",
            "partition",
            "producer_id",
            "producer_epoch",
            "start_offset",
            name="uq_hanging_transactions_one",
        ),
    )
    op.create_index("ix_hanging_transactions_found", "hanging_transactions", ["kafka_cluster_id", "found_at", "id"])


def downgrade() -> None:
    op.drop_table("hanging_transactions")
