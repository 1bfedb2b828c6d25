"""Migrations of pipelines, and instances whose next lease is to be of another revision than their run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_UUID = sa.Uuid(as_uuid=False)
_JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
_STAGES = "'back_to_generation', 'back_to_group_only', 'first_bounce', 'preflight', 'second_bounce', 'verify'"


def upgrade() -> None:
    op.add_column("runs", sa.Column("targets", _JSON, server_default=sa.text("'{}'::jsonb"), nullable=False))
    op.create_table(
        "migrations",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("pipeline_id", _UUID, nullable=False),
        sa.Column("run_id", _UUID, nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("migration", _JSON, nullable=False),
        sa.CheckConstraint(f"stage IN ({_STAGES})", name=op.f("ck_migrations_stage")),
        sa.CheckConstraint(
            "state IN ('aborted', 'active', 'done', 'paused', 'stopped')", name=op.f("ck_migrations_state")
        ),
        sa.CheckConstraint("(ended_at IS NULL) = (state NOT IN ('aborted', 'done'))", name=op.f("ck_migrations_end")),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_migrations_pipeline_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_migrations_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_migrations")),
    )
    op.create_index("ix_migrations_started", "migrations", ["started_at", "id"])
    op.create_index(op.f("ix_migrations_run_id"), "migrations", ["run_id"])
    op.create_index(
        "uq_migrations_open",
        "migrations",
        ["pipeline_id"],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "migration_steps",
        sa.Column("migration_id", _UUID, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("step", _JSON, nullable=False),
        sa.CheckConstraint("kind IN ('bounce', 'fence')", name=op.f("ck_migration_steps_kind")),
        sa.CheckConstraint("state IN ('done', 'dropped', 'late', 'underway')", name=op.f("ck_migration_steps_state")),
        sa.ForeignKeyConstraint(
            ["migration_id"], ["migrations.id"], name=op.f("fk_migration_steps_migration_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("migration_id", "number", name=op.f("pk_migration_steps")),
    )
    op.create_index(
        "uq_migration_steps_underway",
        "migration_steps",
        ["migration_id"],
        unique=True,
        postgresql_where=sa.text("state IN ('late', 'underway')"),
    )
    op.create_table(
        "migration_evidence",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("migration_id", _UUID, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("evidence", _JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["migration_id"], ["migrations.id"], name=op.f("fk_migration_evidence_migration_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_migration_evidence")),
    )
    op.create_index(op.f("ix_migration_evidence_migration_id"), "migration_evidence", ["migration_id"])
    op.create_table(
        "migration_alarms",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("migration_id", _UUID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("alarm", _JSON, nullable=False),
        sa.CheckConstraint("kind IN ('given_up_id_lives', 'older_member')", name=op.f("ck_migration_alarms_kind")),
        sa.ForeignKeyConstraint(
            ["migration_id"], ["migrations.id"], name=op.f("fk_migration_alarms_migration_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_migration_alarms")),
        sa.UniqueConstraint("migration_id", "kind", "key", name="uq_migration_alarms_one"),
    )
    op.create_table(
        "foreign_migrations",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("consumer_group", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("migration", _JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster"], ["clusters.name"], name=op.f("fk_foreign_migrations_cluster"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_foreign_migrations")),
    )
    op.create_index(
        "uq_foreign_migrations_open",
        "foreign_migrations",
        ["cluster", "consumer_group"],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def downgrade() -> None:
    for table in ("foreign_migrations", "migration_alarms", "migration_evidence", "migration_steps", "migrations"):
        op.drop_table(table)
    op.drop_column("runs", "targets")
