"""Migrations of pipelines, with their steps, the evidence that opened their gates, and their alarms."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import UUID, integer, json, metadata, moment, one_of, text
from app.products.migrations.alarms import AlarmKind
from app.products.migrations.migration import MigrationState, MigrationStepKind, Stage, StepState

migrations = sa.Table(
    "migrations",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True),
    text("stage"),
    text("state"),
    moment("started_at"),
    moment("ended_at", nullable=True),
    # The complete migration without its steps; the other columns are for queries.
    json("migration"),
    one_of("stage", Stage),
    one_of("state", MigrationState),
    sa.CheckConstraint("(ended_at IS NULL) = (state NOT IN ('aborted', 'done'))", name="end"),
    sa.Index("ix_migrations_started", "started_at", "id"),
)
# Two open migrations would send the same instances to different modes.
sa.Index("uq_migrations_open", migrations.c.pipeline_id, unique=True, postgresql_where=migrations.c.ended_at.is_(None))

migration_steps = sa.Table(
    "migration_steps",
    metadata,
    sa.Column("migration_id", UUID, sa.ForeignKey("migrations.id", ondelete="CASCADE"), primary_key=True),
    integer("number", primary_key=True),
    text("kind"),
    text("state"),
    json("step"),
    one_of("kind", MigrationStepKind),
    one_of("state", StepState),
)
# One open step at a time.
sa.Index(
    "uq_migration_steps_underway",
    migration_steps.c.migration_id,
    unique=True,
    postgresql_where=migration_steps.c.state.in_([StepState.LATE, StepState.UNDERWAY]),
)

migration_evidence = sa.Table(
    "migration_evidence",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("migration_id", UUID, sa.ForeignKey("migrations.id", ondelete="CASCADE"), nullable=False, index=True),
    moment("at"),
    text("who"),
    json("evidence"),
)

migration_alarms = sa.Table(
    "migration_alarms",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("migration_id", UUID, sa.ForeignKey("migrations.id", ondelete="CASCADE"), nullable=False),
    text("kind"),
    text("key"),
    moment("at"),
    json("alarm"),
    one_of("kind", AlarmKind),
    sa.UniqueConstraint("migration_id", "kind", "key", name="uq_migration_alarms_one"),
)

# Foreign migrations have no pipeline and no run.
foreign_migrations = sa.Table(
    "foreign_migrations",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("cluster", sa.Text, sa.ForeignKey("clusters.name", ondelete="CASCADE"), nullable=False),
    text("consumer_group"),
    moment("started_at"),
    moment("ended_at", nullable=True),
    json("migration"),
)
sa.Index(
    "uq_foreign_migrations_open",
    foreign_migrations.c.cluster,
    foreign_migrations.c.consumer_group,
    unique=True,
    postgresql_where=foreign_migrations.c.ended_at.is_(None),
)
