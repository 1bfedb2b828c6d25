"""Audits of pipelines, their plans, and counters over them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ENDED = "'done', 'failed', 'skipped', 'stopped'"
STATES = "'done', 'failed', 'pending', 'running', 'skipped', 'stopped', 'stopping', 'submitting'"


def upgrade() -> None:
    op.create_table(
        "audits",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("is_scheduled", sa.Boolean(), nullable=False),
        sa.Column("window", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("id_place", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("source_id_place", postgresql.JSONB(none_as_null=True), nullable=True),
        sa.Column("padding_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("wait_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("jvm_pid", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("python_pid", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("process_started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("log_path", sa.Text(), nullable=True),
        sa.Column("application_id", sa.Text(), nullable=True),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("progress", postgresql.JSONB(none_as_null=True), nullable=True),
        sa.Column("stops_as", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("result", postgresql.JSONB(none_as_null=True), nullable=True),
        sa.Column("token_sha256", sa.Text(), nullable=True),
        sa.CheckConstraint(f"state IN ({STATES})", name=op.f("ck_audits_state")),
        sa.CheckConstraint(f"(state IN ({ENDED})) = (ended_at IS NOT NULL)", name=op.f("ck_audits_end")),
        sa.CheckConstraint("(state = 'done') = (result IS NOT NULL)", name=op.f("ck_audits_result")),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_audits_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audits")),
        sa.UniqueConstraint("token_sha256", name=op.f("uq_audits_token_sha256")),
    )
    op.create_index("ix_audits_asked", "audits", ["asked_at", "id"])
    op.create_index("ix_audits_pipeline_asked", "audits", ["pipeline_id", "asked_at", "id"])
    op.create_index("ix_audits_ended_at", "audits", ["ended_at"])
    op.create_index(
        "uq_audits_living",
        "audits",
        ["pipeline_id"],
        unique=True,
        postgresql_where=sa.text(f"state NOT IN ({ENDED})"),
    )
    op.create_table(
        "audit_plans",
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("id_place", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("source_id_place", postgresql.JSONB(none_as_null=True), nullable=True),
        sa.Column("padding_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("every_s", sa.Integer(), autoincrement=False, nullable=True),
        sa.Column("tolerance_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("decided_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("shown_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_audit_plans_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("pipeline_id", name=op.f("pk_audit_plans")),
    )
    op.create_table(
        "audit_counts",
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_audit_counts_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("pipeline_id", "what", name=op.f("pk_audit_counts")),
    )


def downgrade() -> None:
    op.drop_table("audit_counts")
    op.drop_table("audit_plans")
    op.drop_table("audits")
