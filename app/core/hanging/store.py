"""Hanging transactions: one row for each, found by any number of servers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.hanging.hanging_transaction import HangingEnding, HangingKey, HangingOutcome, HangingTransaction
from app.core.hanging.record import HangingRecord
from app.core.hanging.tables import hanging_transactions
from app.core.runs.store.runs import cursor_id, cursor_moment
from app.kit.db.store import DatabaseStore
from app.kit.page import Page, decode_cursor, encode_cursor
from app.kit.storable import moment_of_ms, storable

_T = hanging_transactions
_ONE = sa.tuple_(*(_T.c[name] for name in HangingKey.__struct_fields__))
_TOLD = ("coordinator_epoch", "last_written_ms", "transactional_id", "is_corroborated", "why", "high_watermark")


class HangingStore(DatabaseStore):
    async def add(self, found: HangingTransaction, *, now: datetime) -> bool:
        """Store it; False if it is stored already. An ended one that hangs after all is open again: True."""
        found = storable(found)
        told = {name: getattr(found, name) for name in _TOLD}
        statement = postgresql.insert(_T).values(**msgspec.structs.asdict(found.key), **told, found_at=now)
        statement = statement.on_conflict_do_update(
            constraint="uq_hanging_transactions_one",
            set_=told | {"ended_at": None, "ending": None, "marker_offset": None},
            # Not if another server recorded its end after this server's answer.
            where=_T.c.ended_at < moment_of_ms(found.seen_ms),
        )
        return await self._db.row(statement.returning(_T.c.id)) is not None

    async def end(self, ended: HangingOutcome, *, now: datetime) -> bool:
        """Store its end; False if that is stored already, or the transaction is not stored."""
        key = sa.tuple_(*(sa.literal(one) for one in msgspec.structs.astuple(storable(ended.transaction).key)))
        statement = (
            sa.update(_T)
            .where(key == _ONE, _T.c.ended_at.is_(None))
            .values(
                # A broker's clock ahead of the server's must not set an end in the future.
                ended_at=min(now, moment_of_ms(ended.at_ms)),
                ending=ended.ending,
                marker_offset=ended.marker_offset,
            )
        )
        return await self._db.row(statement.returning(_T.c.id)) is not None

    async def open_ones(self, kafka_cluster_id: str | None = None) -> list[HangingTransaction]:
        """Those without an end, of one cluster or of all; the longest first."""
        statement = sa.select(_T).where(_T.c.ended_at.is_(None)).order_by(_T.c.found_at, _T.c.id)
        if kafka_cluster_id is not None:
            statement = statement.where(_T.c.kafka_cluster_id == kafka_cluster_id)
        return [_transaction(row) for row in await self._db.rows(statement)]

    async def list(self, kafka_cluster_id: str, *, after: str | None, limit: int) -> Page[HangingRecord]:
        """Newest first, by detection."""
        statement = sa.select(_T).where(_T.c.kafka_cluster_id == kafka_cluster_id)
        statement = statement.order_by(_T.c.found_at.desc(), _T.c.id.desc()).limit(limit + 1)
        if after is not None:
            at, record_id = decode_cursor(after, keys=2)
            last = sa.tuple_(sa.literal(cursor_moment(at)), sa.literal(cursor_id(record_id), _T.c.id.type))
            statement = statement.where(sa.tuple_(_T.c.found_at, _T.c.id) < last)
        rows = await self._db.rows(statement)
        items = tuple(_record(row) for row in rows[:limit])
        last_row = rows[limit - 1] if len(rows) > limit else None
        cursor = None if last_row is None else encode_cursor(last_row.found_at.isoformat(), last_row.id)
        return Page(items=items, next_cursor=cursor)


def _transaction(row: sa.Row[Any]) -> HangingTransaction:
    found_ms = int(row.found_at.timestamp() * 1000)
    return HangingTransaction(
        key=HangingKey(**{name: getattr(row, name) for name in HangingKey.__struct_fields__}),
        **{name: getattr(row, name) for name in _TOLD},
        found_ms=found_ms,
        seen_ms=found_ms,
    )


def _record(row: sa.Row[Any]) -> HangingRecord:
    return HangingRecord(
        transaction=_transaction(row),
        found_at=row.found_at,
        ended_at=row.ended_at,
        ending=None if row.ending is None else HangingEnding(row.ending),
        marker_offset=row.marker_offset,
    )
