"""Drills: failures that are rehearsed, one at a time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_WORDS = {
    "kind": "'freeze_instance', 'freeze_server', 'kill_instance'",
    "state": "'auditing', 'ended', 'ordered', 'recovering', 'underway'",
    "verdict": "'not_audited', 'not_begun', 'not_survived', 'stopped', 'survived'",
}


def upgrade() -> None:
    op.create_table(
        "drills",
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("ordered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("drill", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.CheckConstraint("(ended_at IS NULL) = (verdict IS NULL)", name=op.f("ck_drills_end")),
        *(
            sa.CheckConstraint(f"{column} IN ({words})", name=op.f(f"ck_drills_{column}"))
            for column, words in _WORDS.items()
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_drills_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drills")),
    )
    op.create_index("ix_drills_ordered", "drills", ["ordered_at", "id"])
    op.create_index("ix_drills_run", "drills", ["run_id"])
    op.create_index(
        "uq_drills_open",
        "drills",
        [sa.text("(ended_at IS NULL)")],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("drills")
