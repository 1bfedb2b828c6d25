"""Database store of drills, of which at most one affects pipelines."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from app.core.pipelines.tables import pipelines
from app.core.runs.store.runs import checked_uuid, cursor_moment
from app.core.runs.tables.runs import runs
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError
from app.kit.page import Page, decode_cursor, encode_cursor
from app.kit.storable import storable
from app.products.drills.drill import KEPT_FOR, Drill
from app.products.drills.tables import drills

_C = drills.c


class DrillStore(DatabaseStore):
    async def add(self, drill: Drill) -> None:
        """Store a new drill. Raises ConflictError while another one affects pipelines."""
        await self._db.execute(
            sa.insert(drills).values(
                id=drill.id, run_id=drill.run_id, kind=drill.kind, ordered_at=drill.ordered_at, **_changeable(drill)
            )
        )

    async def get(self, drill_id: str, *, for_update: bool = False) -> Drill:
        """Return a drill. Raises NotFoundError."""
        try:
            statement = sa.select(_C.drill).where(_C.id == checked_uuid(drill_id))
            row = await self._db.row(statement.with_for_update() if for_update else statement)
        except NotFoundError:
            row = None
        if row is None:
            raise NotFoundError(f"drill {drill_id} does not exist; `fenceline drill list` lists all")
        return _drill(row)

    async def list_open(self) -> tuple[Drill, ...]:
        """Return the open drills, oldest first: any number that wait for audits, and at most one other."""
        statement = sa.select(_C.drill).where(_C.ended_at.is_(None)).order_by(_C.ordered_at, _C.id)
        return tuple(_drill(row) for row in await self._db.rows(statement))

    async def save(self, drill: Drill) -> None:
        await self._db.execute(sa.update(drills).where(_C.id == drill.id).values(**_changeable(drill)))

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Drill]:
        """Return drills of one pipeline or of all, newest first."""
        statement = sa.select(_C.drill).order_by(_C.ordered_at.desc(), _C.id.desc()).limit(limit + 1)
        if pipeline is not None:
            statement = statement.join(runs, runs.c.id == _C.run_id).join(
                pipelines, pipelines.c.id == runs.c.pipeline_id
            )
            statement = statement.where(pipelines.c.name == pipeline)
        if after is not None:
            at, drill_id = decode_cursor(after, keys=2)
            last = sa.tuple_(sa.literal(cursor_moment(at)), sa.literal(checked_uuid(drill_id), _C.id.type))
            statement = statement.where(sa.tuple_(_C.ordered_at, _C.id) < last)
        rows = await self._db.rows(statement)
        items = tuple(_drill(row) for row in rows[:limit])
        cursor = encode_cursor(items[-1].ordered_at.isoformat(), items[-1].id) if len(rows) > limit else None
        return Page(items=items, next_cursor=cursor)

    async def expire(self, *, now: datetime) -> dict[str, int]:
        """Remove drills that ended long ago; the number of rows by table."""
        result = await self._db.execute(sa.delete(drills).where(_C.ended_at < now - KEPT_FOR))
        return {"drills": result.rowcount}


def _changeable(drill: Drill) -> dict[str, Any]:
    return {
        "state": drill.state,
        "verdict": drill.verdict,
        "ended_at": drill.ended_at,
        "drill": msgspec.to_builtins(storable(drill)),
    }


def _drill(row: sa.Row[Any]) -> Drill:
    return msgspec.convert(row.drill, Drill)
