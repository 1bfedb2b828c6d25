"""The offset log: what tasks tell of their offsets, and what checks made of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_ATTEMPT = ["run_id", "ordinal", "task", "lease", "attempt"]


def _attempt() -> list[sa.Column[object]]:
    return [
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        *(sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in _ATTEMPT[1:]),
    ]


def _partition() -> list[sa.Column[object]]:
    return [
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
    ]


def _teller(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        _ATTEMPT, [f"offset_tellers.{name}" for name in _ATTEMPT], name=f"fk_{table}_teller", ondelete="CASCADE"
    )


def upgrade() -> None:
    json = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "offset_tellers",
        *_attempt(),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("transactional_id", sa.Text(), nullable=True),
        sa.Column("inits", json, nullable=False),
        sa.Column("is_over", sa.Boolean(), nullable=False),
        sa.Column("complete_at", moment, nullable=True),
        sa.Column("reported_at", moment, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "ordinal", "lease"],
            ["instances.run_id", "instances.ordinal", "instances.lease"],
            name="fk_offset_tellers_instance",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(*_ATTEMPT, name=op.f("pk_offset_tellers")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "offset_tellings",
        *_attempt(),
        *_partition(),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("recorded", sa.BigInteger(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        _teller("offset_tellings"),
        sa.PrimaryKeyConstraint(*_ATTEMPT, "topic", "partition", name=op.f("pk_offset_tellings")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "offset_events",
        *_attempt(),
        *_partition(),
        sa.Column("index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("checkpoints", sa.BigInteger(), nullable=False),
        sa.Column("event", json, nullable=False),
        sa.Column("first_at", moment, nullable=False),
        sa.Column("last_at", moment, nullable=False),
        _teller("offset_events"),
        sa.PrimaryKeyConstraint(*_ATTEMPT, "topic", "partition", "index", name=op.f("pk_offset_events")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("ix_offset_events_last_at", "offset_events", ["last_at"])
    op.create_table(
        "offset_checks",
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("checked_at", moment, nullable=False),
        sa.Column("record", json, nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_offset_checks_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("pipeline_id", name=op.f("pk_offset_checks")),
    )
    op.create_table(
        "offset_contradictions",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        *_partition(),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("found_at", moment, nullable=False),
        sa.Column("finding", json, nullable=False),
        sa.CheckConstraint(
            "kind IN ('gap', 'overlap', 'rewound', 'without_ownership')", name=op.f("ck_offset_contradictions_kind")
        ),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_offset_contradictions_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_offset_contradictions")),
        sa.UniqueConstraint(
            "pipeline_id", "group_id", "topic", "partition", "kind", "start", name="uq_offset_contradictions_one"
        ),
    )
    op.create_index("ix_offset_contradictions_found", "offset_contradictions", ["pipeline_id", "found_at", "id"])


def downgrade() -> None:
    for table in ("offset_contradictions", "offset_checks", "offset_events", "offset_tellings", "offset_tellers"):
        op.drop_table(table)
