"""The table of drills."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import UUID, json, metadata, moment, one_of, text
from app.products.drills.drill import DISTURBS, DrillKind, DrillState, DrillVerdict

drills = sa.Table(
    "drills",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("run_id", UUID, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    text("kind"),
    text("state"),
    text("verdict", nullable=True),
    moment("ordered_at"),
    moment("ended_at", nullable=True),
    # The complete drill; the other columns are for queries.
    json("drill"),
    one_of("kind", DrillKind),
    one_of("state", DrillState),
    one_of("verdict", DrillVerdict),
    sa.CheckConstraint("(ended_at IS NULL) = (verdict IS NULL)", name="end"),
    sa.Index("ix_drills_ordered", "ordered_at", "id"),
    sa.Index("ix_drills_run", "run_id"),
)
# One at a time over all pipelines, since the effects of two could not be distinguished.
sa.Index(
    "uq_drills_disturbing",
    drills.c.ended_at.is_(None),
    unique=True,
    postgresql_where=drills.c.state.in_(sorted(DISTURBS)),
)
# Queried once a second by each server.
sa.Index("ix_drills_open", drills.c.ordered_at, postgresql_where=drills.c.ended_at.is_(None))
