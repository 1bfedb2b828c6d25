"""The tables of queries: the newest state of each pipeline, and its batches."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import JSON, UUID, integer, json, metadata, moment, one_of, text
from app.products.dataframes.wire import QueryState


def _big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable, autoincrement=False)


query_states = sa.Table(
    "query_states",
    metadata,
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    integer("lease"),
    text("query_id"),
    text("state"),
    moment("since"),
    moment("sent_at"),
    moment("received_at"),
    one_of("state", QueryState),
    sa.Index("ix_query_states_run_id", "run_id"),
)

query_batches = sa.Table(
    "query_batches",
    metadata,
    # In the order of the first reports: clocks of drivers differ, and a new checkpoint counts batches from 0 again.
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    text("query_id"),
    _big("batch"),
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    integer("lease"),
    moment("started_at"),
    _big("trigger_ms"),
    json("parts_ms"),
    _big("input_rows"),
    _big("output_rows", nullable=True),
    _big("state_rows", nullable=True),
    _big("state_bytes", nullable=True),
    _big("late_rows", nullable=True),
    sa.Column("state_operators", JSON, nullable=False, server_default=sa.text("'{}'::jsonb")),
    moment("watermark", nullable=True),
    moment("received_at"),
    sa.UniqueConstraint("pipeline_id", "query_id", "batch", name="uq_query_batches_batch"),
    sa.Index("ix_query_batches_pipeline_id", "pipeline_id", "id"),
    sa.Index("ix_query_batches_received_at", "received_at"),
    sa.Index("ix_query_batches_run_id", "run_id"),
)
