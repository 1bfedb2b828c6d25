"""Database store of orphan scans and collections, of which the newest are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.tables import pipelines
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError
from app.kit.storable import storable, storable_text
from app.products.files.orphan_findings import Amount, Collected, ConfirmedOrphans, OrphanFindings
from app.products.files.orphan_look import ENDED, KEPT, OrphanAct, OrphanLook, OrphanLookState
from app.products.files.tables.orphan_looks import orphan_looks

_O = orphan_looks.c
_SELECT = sa.select(orphan_looks, pipelines.c.name.label("pipeline")).join(pipelines, pipelines.c.id == _O.pipeline_id)
_NEWEST_FIRST = _O.number.desc()
_NOT_STORED = ("id", "pipeline")
_PARTS: Mapping[str, Any] = {
    "deleted": Amount,
    "findings": OrphanFindings | None,
    "confirmed": ConfirmedOrphans | None,
    "collected": Collected | None,
}
_HAS_ENDED = _O.state.in_(sorted(ENDED))


class OrphanLookStore(DatabaseStore):
    async def add(self, look: OrphanLook) -> OrphanLook:
        """Store a new one with an id, and delete old ones.

        Raises ConflictError if the pipeline has one that has not ended.
        """
        pipeline_id = sa.select(pipelines.c.id).where(pipelines.c.name == look.pipeline).scalar_subquery()
        await self._forget_old(pipeline_id)
        statement = sa.insert(orphan_looks).values(pipeline_id=pipeline_id, **_values(look))
        row = (await self._db.execute(statement.returning(_O.id))).one()
        return await self.get(row.id)

    async def get(self, look_id: str, *, for_update: bool = False) -> OrphanLook:
        statement = _SELECT.where(_O.id == look_id)
        row = await self._db.row(statement.with_for_update(of=orphan_looks) if for_update else statement)
        if row is None:
            raise NotFoundError(f"orphan scan {look_id} does not exist: only the newest are kept")
        return _look(row)

    async def living(self) -> list[OrphanLook]:
        """Return those that have not ended, oldest first."""
        rows = await self._db.rows(_SELECT.where(~_HAS_ENDED).order_by(_O.number))
        return [_look(row) for row in rows]

    async def newest(self, pipeline: str) -> list[OrphanLook]:
        """Return all that are kept of a pipeline, newest first."""
        rows = await self._db.rows(_SELECT.where(pipelines.c.name == pipeline).order_by(_NEWEST_FIRST))
        return [_look(row) for row in rows]

    async def newest_findings(self, names: Collection[str]) -> Mapping[str, OrphanLook]:
        """Return the newest one that judged files, by pipeline."""
        if not names:
            return {}
        # A scan that judged nothing, since a transaction was open, has no root.
        has_judged = sa.func.jsonb_array_length(_O.findings["roots"]) > 0
        rows = await self._db.rows(
            _SELECT.where(pipelines.c.name.in_(sorted(names)), _O.findings.is_not(None), has_judged)
            .ext(postgresql.distinct_on(_O.pipeline_id))
            .order_by(_O.pipeline_id, _NEWEST_FIRST)
        )
        return {row.pipeline: _look(row) for row in rows}

    async def save(self, look: OrphanLook, *, attempt: int) -> bool:
        """Store it. Return false if it has ended, or this is not its current attempt."""
        return await self._write(look.id, attempt, _values(look))

    async def save_progress(self, look_id: str, told: str, deleted: Amount, *, attempt: int) -> bool:
        """Store the progress. Return false as `save` does."""
        told = storable_text(told)
        return await self._write(look_id, attempt, {"told": told, "deleted": msgspec.to_builtins(deleted)})

    async def _write(self, look_id: str, attempt: int, values: Mapping[str, Any]) -> bool:
        statement = sa.update(orphan_looks).where(_O.id == look_id, _O.attempt == attempt, ~_HAS_ENDED)
        return (await self._db.execute(statement.values(**values))).rowcount == 1

    async def _forget_old(self, pipeline_id: sa.ScalarSelect[Any]) -> None:
        place = sa.func.row_number().over(partition_by=(_O.act, _O.state), order_by=_NEWEST_FIRST).label("place")
        placed = sa.select(_O.id, place).where(_O.pipeline_id == pipeline_id, _HAS_ENDED).subquery()
        old = sa.select(placed.c.id).where(placed.c.place > KEPT)
        await self._db.execute(sa.delete(orphan_looks).where(_O.id.in_(old)))


def _values(look: OrphanLook) -> dict[str, Any]:
    kept = storable(look)
    plain = {name: getattr(kept, name) for name in OrphanLook.__struct_fields__ if name not in (*_NOT_STORED, *_PARTS)}
    return plain | {name: msgspec.to_builtins(getattr(kept, name)) for name in _PARTS}


def _look(row: sa.Row[Any]) -> OrphanLook:
    values: dict[str, Any] = {name: getattr(row, name) for name in OrphanLook.__struct_fields__}
    values |= {"act": OrphanAct(row.act), "state": OrphanLookState(row.state)}
    values |= {name: msgspec.convert(values[name], kind, strict=False) for name, kind in _PARTS.items()}
    return OrphanLook(**values)
