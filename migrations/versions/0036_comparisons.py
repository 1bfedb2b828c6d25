"""Comparisons with another system's output: the baseline of an audit, and plans of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0036"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audits", sa.Column("comparison", postgresql.JSONB(none_as_null=True), nullable=True))
    op.create_table(
        "comparison_plans",
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
        sa.Column("comparison", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_comparison_plans_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("pipeline_id", name=op.f("pk_comparison_plans")),
    )


def downgrade() -> None:
    op.drop_table("comparison_plans")
    op.execute("DELETE FROM audits WHERE comparison IS NOT NULL")
    op.drop_column("audits", "comparison")
