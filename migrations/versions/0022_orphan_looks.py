"""Looks for orphans and collections of them, a few of each pipeline.

A server of the release before leaves them alone: what is asked for waits for one of this release.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
_MOMENT = sa.DateTime(timezone=True)
_ENDED = "state IN ('done', 'failed')"


def upgrade() -> None:
    op.create_table(
        "orphan_looks",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("act", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("asked_at", _MOMENT, nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("begun_at", _MOMENT, nullable=True),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("deleted", _JSON, nullable=False),
        sa.Column("ended_at", _MOMENT, nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("findings", _JSON, nullable=True),
        sa.Column("confirmed", _JSON, nullable=True),
        sa.Column("collected", _JSON, nullable=True),
        sa.CheckConstraint("act IN ('collect', 'look')", name=op.f("ck_orphan_looks_act")),
        sa.CheckConstraint("state IN ('asked', 'done', 'failed', 'running')", name=op.f("ck_orphan_looks_state")),
        sa.CheckConstraint(f"({_ENDED}) = (ended_at IS NOT NULL)", name=op.f("ck_orphan_looks_end")),
        sa.CheckConstraint("(state = 'failed') = (reason IS NOT NULL)", name=op.f("ck_orphan_looks_reason")),
        sa.CheckConstraint("(act = 'collect') = (confirmed IS NOT NULL)", name=op.f("ck_orphan_looks_confirmed")),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_orphan_looks_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orphan_looks")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("ix_orphan_looks_pipeline_number", "orphan_looks", ["pipeline_id", "number"])
    op.create_index(
        "uq_orphan_looks_living",
        "orphan_looks",
        ["pipeline_id"],
        unique=True,
        postgresql_where=sa.text("state NOT IN ('done', 'failed')"),
    )


def downgrade() -> None:
    op.drop_table("orphan_looks")
