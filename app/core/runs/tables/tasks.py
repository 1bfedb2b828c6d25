"""Tasks by attempt, their events, and the samples and totals of a run."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.runs.series import RunTotals
from app.core.runs.task import EventKind, TaskState
from app.kit.db.columns import UUID, integer, json, metadata, moment, one_of, text

task_attempts = sa.Table(
    "task_attempts",
    metadata,
    sa.Column("run_id", UUID, primary_key=True),
    integer("ordinal", primary_key=True),
    integer("task", primary_key=True),
    integer("lease", primary_key=True),
    integer("attempt", primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    text("state"),
    moment("state_since"),
    moment("received_at"),
    json("report"),
    json("rates"),
    sa.Column("zombie_heartbeats", sa.Integer, nullable=False, server_default=sa.text("0")),
    moment("zombie_first_seen_at", nullable=True),
    moment("zombie_last_seen_at", nullable=True),
    sa.ForeignKeyConstraint(
        ["run_id", "ordinal", "lease"],
        ["instances.run_id", "instances.ordinal", "instances.lease"],
        name="fk_task_attempts_instance",
        ondelete="CASCADE",
    ),
    one_of("state", TaskState),
    # Each row is rewritten once a second, and no index has a column that changes: free space on the page keeps it
    # cheap.
    postgresql_with={"fillfactor": "50"},
)

task_events = sa.Table(
    "task_events",
    metadata,
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    text("event_id", primary_key=True),
    integer("ordinal"),
    integer("lease"),
    integer("task"),
    integer("attempt"),
    text("kind"),
    moment("at"),
    text("message"),
    sa.Column("partitions", postgresql.ARRAY(sa.Text), nullable=False),
    integer("generation", nullable=True),
    moment("received_at"),
    one_of("kind", EventKind),
    sa.Index("ix_task_events_run_at", "run_id", "at", "event_id"),
    sa.Index("ix_task_events_at", "at"),
)

run_samples = sa.Table(
    "run_samples",
    metadata,
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
    sa.Column("records_in_per_s", sa.Double, nullable=False),
    sa.Column("records_out_per_s", sa.Double, nullable=False),
    sa.Column("commits_per_s", sa.Double, nullable=False),
    sa.Column("aborts_per_s", sa.Double, nullable=False),
    sa.Column("commit_latency_p99_ms", sa.Double),
    sa.Column("lag_records", sa.BigInteger),
)

# The totals of deleted attempts, so that a run's totals never shrink.
expired_totals = sa.Table(
    "expired_totals",
    metadata,
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in RunTotals.__struct_fields__),
)
