"""Queries of DataFrames: the newest state of each, and its batches.

A server of the release before leaves them alone: it refuses pipelines of this kind.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

_UUID = sa.Uuid(as_uuid=False)
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "query_states",
        sa.Column("pipeline_id", _UUID, nullable=False),
        sa.Column("run_id", _UUID, nullable=False),
        sa.Column("lease", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("query_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", _MOMENT, nullable=False),
        sa.Column("sent_at", _MOMENT, nullable=False),
        sa.Column("received_at", _MOMENT, nullable=False),
        sa.CheckConstraint("state IN ('held', 'running', 'starting', 'waiting')", name=op.f("ck_query_states_state")),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_query_states_pipeline_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_query_states_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pipeline_id", name=op.f("pk_query_states")),
    )
    op.create_index("ix_query_states_run_id", "query_states", ["run_id"])
    op.create_table(
        "query_batches",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pipeline_id", _UUID, nullable=False),
        sa.Column("query_id", sa.Text(), nullable=False),
        sa.Column("batch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", _UUID, nullable=False),
        sa.Column("lease", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("trigger_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("parts_ms", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("input_rows", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("output_rows", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("state_rows", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("state_bytes", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("late_rows", sa.BigInteger(), autoincrement=False, nullable=True),
        sa.Column("watermark", _MOMENT, nullable=True),
        sa.Column("received_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_query_batches_pipeline_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_query_batches_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_query_batches")),
        sa.UniqueConstraint("pipeline_id", "query_id", "batch", name="uq_query_batches_batch"),
    )
    op.create_index("ix_query_batches_pipeline_id", "query_batches", ["pipeline_id", "id"])
    op.create_index("ix_query_batches_received_at", "query_batches", ["received_at"])
    op.create_index("ix_query_batches_run_id", "query_batches", ["run_id"])


def downgrade() -> None:
    op.drop_table("query_batches")
    op.drop_table("query_states")
