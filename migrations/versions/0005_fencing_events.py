"""Fencing events: one row for each loss of a producer, a membership or a transaction, with what proves it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

KINDS = ("epoch", "marker", "membership")
CAUSES = (
    "clean_restart",
    "coordinator_abort",
    "epochs_used_up",
    "hanging_ended",
    "operator_abort",
    "operator_fence",
    "own_abort",
    "own_epoch",
    "stale_generation",
    "stale_member_epoch",
    "takeover",
    "timeout",
    "unexplained",
    "zombie_refused",
)
CONFIDENCES = ("certain", "likely", "open")


def one_of(column: str, words: tuple[str, ...]) -> sa.CheckConstraint:
    quoted = ", ".join(f"'{word}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({quoted})", name=op.f(f"ck_fencing_events_{column}"))


def upgrade() -> None:
    json = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
    op.create_table(
        "fencing_events",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("transactional_id", sa.Text(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Text(), nullable=False),
        sa.Column("is_fencing", sa.Boolean(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("verdict", json, nullable=False),
        sa.Column("evidence", json, nullable=False),
        sa.Column("corrections", json, nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("lease", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("task", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("partitions", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        one_of("kind", KINDS),
        one_of("cause", CAUSES),
        one_of("confidence", CONFIDENCES),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fencing_events")),
        sa.UniqueConstraint(
            "kafka_cluster_id",
            "transactional_id",
            "producer_id",
            "producer_epoch",
            "kind",
            name="uq_fencing_events_loss",
        ),
    )
    op.create_index("ix_fencing_events_at", "fencing_events", ["at", "id"])
    op.create_index("ix_fencing_events_cluster", "fencing_events", ["kafka_cluster_id", "at", "id"])
    op.create_index("ix_fencing_events_pipeline", "fencing_events", ["pipeline", "at", "id"])


def downgrade() -> None:
    op.drop_table("fencing_events")
