"""The table of orphan scans and collections."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import UUID, generated_uuid, integer, json, metadata, moment, one_of, quoted, text
from app.products.files.orphan_look import ENDED, OrphanAct, OrphanLookState

orphan_looks = sa.Table(
    "orphan_looks",
    metadata,
    generated_uuid("id"),
    # The order of creation, since clocks of servers differ.
    sa.Column("number", sa.BigInteger, sa.Identity(always=True), nullable=False),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    text("act"),
    text("state"),
    moment("asked_at"),
    text("asked_by"),
    integer("attempt"),
    moment("begun_at", nullable=True),
    text("told"),
    json("deleted"),
    moment("ended_at", nullable=True),
    text("reason", nullable=True),
    json("findings", nullable=True),
    json("confirmed", nullable=True),
    json("collected", nullable=True),
    one_of("act", OrphanAct),
    one_of("state", OrphanLookState),
    sa.CheckConstraint(f"(state IN ({quoted(ENDED)})) = (ended_at IS NOT NULL)", name="end"),
    sa.CheckConstraint("(state = 'failed') = (reason IS NOT NULL)", name="reason"),
    sa.CheckConstraint("(act = 'collect') = (confirmed IS NOT NULL)", name="confirmed"),
    sa.Index("ix_orphan_looks_pipeline_number", "pipeline_id", "number"),
    # A running one is updated every second.
    postgresql_with={"fillfactor": "80"},
)
sa.Index(
    "uq_orphan_looks_living",
    orphan_looks.c.pipeline_id,
    unique=True,
    postgresql_where=sa.text(f"state NOT IN ({quoted(ENDED)})"),
)
