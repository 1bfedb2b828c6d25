"""Runs, and the leases of their instances."""

from __future__ import annotations

import sqlalchemy as sa

from app.core.runs.instance import ENDED, InstanceState
from app.core.runs.run import DesiredRunState, RunEnd
from app.kit.db.columns import JSON, UUID, generated_uuid, integer, metadata, moment, one_of, quoted, text

runs = sa.Table(
    "runs",
    metadata,
    generated_uuid("id"),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    integer("revision"),
    text("desired"),
    moment("started_at"),
    text("started_by"),
    moment("bounce_requested_at", nullable=True),
    # The revision of an ordinal's next lease, where it is not the run's.
    sa.Column("targets", JSON, nullable=False, server_default=sa.text("'{}'::jsonb")),
    sa.Column("starts_again", sa.Boolean, nullable=False, server_default=sa.false()),
    moment("ended_at", nullable=True),
    text("ended_as", nullable=True),
    text("end_reason", nullable=True),
    sa.ForeignKeyConstraint(
        ["pipeline_id", "revision"], ["revisions.pipeline_id", "revisions.number"], name="fk_runs_revision"
    ),
    sa.CheckConstraint("(ended_at IS NULL) = (ended_as IS NULL)", name="end"),
    one_of("desired", DesiredRunState),
    one_of("ended_as", RunEnd),
    sa.Index("ix_runs_pipeline_started", "pipeline_id", "started_at"),
    sa.Index("ix_runs_started", "started_at", "id"),
)
sa.Index("uq_runs_live", runs.c.pipeline_id, unique=True, postgresql_where=runs.c.ended_at.is_(None))

instances = sa.Table(
    "instances",
    metadata,
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    integer("ordinal", primary_key=True),
    integer("lease", primary_key=True),
    integer("revision"),
    text("state"),
    moment("since"),
    moment("leased_at"),
    text("reason", nullable=True),
    # Unused: a lease's row in run_tokens has the same. A server of the previous version still writes it, so a later
    # migration removes it.
    sa.Column("token_issued", sa.Boolean, nullable=False, server_default=sa.false()),
    text("application_id", nullable=True),
    text("host", nullable=True),
    integer("jvm_pid", nullable=True),
    integer("python_pid", nullable=True),
    moment("process_started_at", nullable=True),
    text("log_path", nullable=True),
    moment("submitted_at", nullable=True),
    moment("claimed_at", nullable=True),
    integer("executors", nullable=True),
    integer("tasks_running", nullable=True),
    integer("tasks_waiting", nullable=True),
    moment("last_heartbeat_at", nullable=True),
    moment("missing_since", nullable=True),
    moment("drain_signalled_at", nullable=True),
    moment("killed_at", nullable=True),
    text("outcome_kind", nullable=True),
    text("outcome_message", nullable=True),
    moment("outcome_at", nullable=True),
    integer("failures", server_default="0"),
    integer("tasks_crashing", server_default="0"),
    sa.CheckConstraint("ordinal >= 0 AND lease >= 1", name="numbers"),
    one_of("state", InstanceState),
    # Written once a second by the driver's heartbeat, which changes no indexed column.
    postgresql_with={"fillfactor": "70"},
)
sa.Index(
    "uq_instances_living",
    instances.c.run_id,
    instances.c.ordinal,
    unique=True,
    postgresql_where=sa.text(f"state NOT IN ({quoted(ENDED)})"),
)

run_tokens = sa.Table(
    "run_tokens",
    metadata,
    text("secret_sha256", primary_key=True),
    sa.Column("run_id", UUID, nullable=False),
    integer("ordinal"),
    integer("lease"),
    moment("created_at"),
    sa.UniqueConstraint("run_id", "ordinal", "lease"),
    sa.ForeignKeyConstraint(
        ["run_id", "ordinal", "lease"],
        ["instances.run_id", "instances.ordinal", "instances.lease"],
        name="fk_run_tokens_instance",
        ondelete="CASCADE",
    ),
)
