"""The tables of the offset log: events of tasks, the newest check, contradictions, and recorded offsets."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import UUID, generated_uuid, integer, json, metadata, moment, one_of, text
from app.products.offset_log.verdict import ContradictionKind

_ATTEMPT = ("run_id", "ordinal", "task", "lease", "attempt")


def _attempt() -> list[sa.Column[object]]:
    return [sa.Column("run_id", UUID, primary_key=True), *(integer(name, primary_key=True) for name in _ATTEMPT[1:])]


def _teller(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        _ATTEMPT, [f"offset_tellers.{name}" for name in _ATTEMPT], name=f"fk_{table}_teller", ondelete="CASCADE"
    )


offset_tellers = sa.Table(
    "offset_tellers",
    metadata,
    *_attempt(),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    text("host"),
    text("transactional_id", nullable=True),
    json("inits"),
    sa.Column("is_over", sa.Boolean, nullable=False),
    moment("complete_at", nullable=True),
    moment("reported_at"),
    sa.ForeignKeyConstraint(
        ["run_id", "ordinal", "lease"],
        ["instances.run_id", "instances.ordinal", "instances.lease"],
        name="fk_offset_tellers_instance",
        ondelete="CASCADE",
    ),
    # Its rows are updated every few seconds, like those of task_attempts.
    postgresql_with={"fillfactor": "50"},
)

offset_tellings = sa.Table(
    "offset_tellings",
    metadata,
    *_attempt(),
    text("topic", primary_key=True),
    integer("partition", primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("recorded", sa.BigInteger, nullable=False),
    sa.Column("is_open", sa.Boolean, nullable=False),
    _teller("offset_tellings"),
    postgresql_with={"fillfactor": "50"},
)

offset_events = sa.Table(
    "offset_events",
    metadata,
    *_attempt(),
    text("topic", primary_key=True),
    integer("partition", primary_key=True),
    sa.Column("index", sa.BigInteger, primary_key=True, autoincrement=False),
    # The number of its checkpoints: only a copy that has grown replaces it.
    sa.Column("checkpoints", sa.BigInteger, nullable=False),
    json("event"),
    moment("first_at"),
    moment("last_at"),
    _teller("offset_events"),
    # The live check reads one hour of up to two weeks.
    sa.Index("ix_offset_events_lately", *_ATTEMPT, "topic", "partition", "last_at"),
    postgresql_with={"fillfactor": "80"},
)

offset_checks = sa.Table(
    "offset_checks",
    metadata,
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), primary_key=True),
    moment("checked_at"),
    json("record"),
)

offset_contradictions = sa.Table(
    "offset_contradictions",
    metadata,
    generated_uuid("id"),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    text("group_id"),
    text("topic"),
    integer("partition"),
    text("kind"),
    sa.Column("start", sa.BigInteger, nullable=False),
    moment("found_at"),
    json("finding"),
    sa.UniqueConstraint(
        "pipeline_id", "group_id", "topic", "partition", "kind", "start", name="uq_offset_contradictions_one"
    ),
    one_of("kind", ContradictionKind),
    sa.Index("ix_offset_contradictions_found", "pipeline_id", "found_at", "id"),
)
