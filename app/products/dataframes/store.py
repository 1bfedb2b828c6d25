"""Database store of queries and their batches."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.tables import pipelines
from app.core.runs.tables.runs import instances, runs
from app.kit.db.store import DatabaseStore
from app.kit.errors import InvalidError
from app.kit.page import Page, decode_cursor, encode_cursor
from app.products.dataframes.batch import KEPT_FOR, MOST_BATCHES, BatchRecord, QueryBatch, QueryStatus
from app.products.dataframes.tables import query_batches, query_states
from app.products.dataframes.wire import QueryState

_S = query_states.c
_B = query_batches.c
_STATUS = QueryStatus.__struct_fields__
_BATCH = QueryBatch.__struct_fields__
_BEYOND_THE_NEWEST = sa.text(
    """
    DELETE FROM query_batches AS old USING query_states AS query CROSS JOIN LATERAL (
        SELECT newest.id FROM query_batches AS newest
        WHERE newest.pipeline_id = query.pipeline_id ORDER BY newest.id DESC OFFSET :most LIMIT 1) AS last
    WHERE old.pipeline_id = query.pipeline_id AND old.id <= last.id
    """
)


class LiveQuery(NamedTuple):
    """The query of a live run, and its newest batch."""

    pipeline: str
    status: QueryStatus
    newest: QueryBatch | None


class QueryStore(DatabaseStore):
    async def record(self, pipeline: str, status: QueryStatus, batches: Sequence[QueryBatch]) -> None:
        """Store a report. A batch with the same number of the same query replaces the earlier row.

        The state of an older report of the same lease, which arrives late, is not stored.
        """
        await self._record_status(pipeline, status)
        if not batches:
            return
        rows = [{"pipeline_id": _pipeline_id(pipeline), **_values(one)} for one in batches]
        statement = postgresql.insert(query_batches).values(rows)
        replaced = {name: statement.excluded[name] for name in _BATCH}
        await self._db.execute(statement.on_conflict_do_update(constraint="uq_query_batches_batch", set_=replaced))

    async def _record_status(self, pipeline: str, status: QueryStatus) -> None:
        values = {name: getattr(status, name) for name in _STATUS}
        statement = postgresql.insert(query_states).values(pipeline_id=_pipeline_id(pipeline), **values)
        new = statement.excluded
        is_same_lease = sa.and_(_S.run_id == new.run_id, _S.lease == new.lease)
        since = sa.case((sa.and_(is_same_lease, _S.state == new.state), _S.since), else_=new.since)
        await self._db.execute(
            statement.on_conflict_do_update(
                constraint="pk_query_states",
                set_={**{name: new[name] for name in _STATUS}, "since": since},
                where=sa.or_(sa.not_(is_same_lease), _S.sent_at <= new.sent_at),
            )
        )

    async def find_status(self, pipeline: str) -> QueryStatus | None:
        statement = sa.select(query_states).where(_S.pipeline_id == _pipeline_id(pipeline))
        row = await self._db.row(statement)
        return None if row is None else _status(row)

    async def newest(self, pipeline: str, *, limit: int) -> builtins.list[QueryBatch]:
        """Return the newest batches, newest first."""
        return [one.batch for one in await self._records(pipeline, before=None, limit=limit)]

    async def late(self, pipeline: str, *, limit: int) -> builtins.list[QueryBatch]:
        """Return the newest batches that dropped late rows, newest first."""
        of_pipeline = sa.select(query_batches).where(_B.pipeline_id == _pipeline_id(pipeline), _B.late_rows > 0)
        return [_batch(row) for row in await self._db.rows(of_pipeline.order_by(_B.id.desc()).limit(limit))]

    async def list(self, pipeline: str, *, after: str | None, limit: int) -> Page[QueryBatch]:
        """Return batches, newest first."""
        before = None if after is None else _cursor_id(after)
        found = await self._records(pipeline, before=before, limit=limit + 1)
        items = tuple(one.batch for one in found[:limit])
        return Page(items=items, next_cursor=encode_cursor(str(found[limit - 1].id)) if len(found) > limit else None)

    async def live(self) -> builtins.list[LiveQuery]:
        """Return the queries of live runs, by pipeline name."""
        newest = (
            sa.select(query_batches)
            .where(_B.pipeline_id == _S.pipeline_id, _B.query_id == _S.query_id)
            .order_by(_B.id.desc())
            .limit(1)
            .lateral("newest")
        )
        of_batch = [newest.c[name].label(f"batch_{name}") for name in _BATCH]
        statement = (
            sa.select(query_states, pipelines.c.name, *of_batch)
            .join(pipelines, pipelines.c.id == _S.pipeline_id)
            .join(runs, runs.c.id == _S.run_id)
            .outerjoin(newest, sa.true())
            .where(runs.c.ended_at.is_(None))
            .order_by(pipelines.c.name)
        )
        return [
            LiveQuery(row.name, _status(row), None if row.batch_batch is None else _batch(row, prefix="batch_"))
            for row in await self._db.rows(statement)
        ]

    async def revision_of(self, batch: QueryBatch) -> int | None:
        """Return the revision of the batch's driver; None: its run is deleted."""
        row = await self._db.row(
            sa.select(instances.c.revision).where(instances.c.run_id == batch.run_id, instances.c.lease == batch.lease)
        )
        return None if row is None else row.revision

    async def revisions_of_drivers(self, pipeline: str) -> set[int]:
        """Return the revisions with which a driver has begun, and so may have used their checkpoints."""
        statement = (
            sa.select(instances.c.revision)
            .distinct()
            .join(runs, runs.c.id == instances.c.run_id)
            .where(runs.c.pipeline_id == _pipeline_id(pipeline), instances.c.claimed_at.is_not(None))
        )
        return {row.revision for row in await self._db.rows(statement)}

    async def expire(self, *, now: datetime) -> dict[str, int]:
        """Delete batches by age, and beyond the newest of each pipeline; the number of rows by table."""
        old = await self._db.execute(sa.delete(query_batches).where(_B.received_at < now - KEPT_FOR))
        beyond = await self._db.execute(_BEYOND_THE_NEWEST, {"most": MOST_BATCHES})
        return {"query_batches": old.rowcount + beyond.rowcount}

    async def _records(self, pipeline: str, *, before: int | None, limit: int) -> builtins.list[BatchRecord]:
        statement = sa.select(query_batches).where(_B.pipeline_id == _pipeline_id(pipeline))
        if before is not None:
            statement = statement.where(_B.id < before)
        rows = await self._db.rows(statement.order_by(_B.id.desc()).limit(limit))
        return [BatchRecord(id=row.id, batch=_batch(row)) for row in rows]


def _pipeline_id(name: str) -> sa.ScalarSelect[Any]:
    return sa.select(pipelines.c.id).where(pipelines.c.name == name).scalar_subquery()


def _cursor_id(cursor: str) -> int:
    (key,) = decode_cursor(cursor, keys=1)
    if not key.isdecimal() or len(key) > 18:
        raise InvalidError("this cursor belongs to another list: take it from next_cursor unchanged", field="after")
    return int(key)


def _values(batch: QueryBatch) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in _BATCH}


def _status(row: sa.Row[Any]) -> QueryStatus:
    plain = {name: getattr(row, name) for name in _STATUS if name != "state"}
    return QueryStatus(state=QueryState(row.state), **plain)


def _batch(row: sa.Row[Any], *, prefix: str = "") -> QueryBatch:
    return QueryBatch(**{name: getattr(row, f"{prefix}{name}") for name in _BATCH})
