"""Removal of old rows of the offset log."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from app.kit.db.store import DatabaseStore
from app.products.offset_log.record import FINDINGS_KEPT_FOR, KEPT_FOR, MOST_EVENTS
from app.products.offset_log.tables import offset_contradictions, offset_events, offset_tellers, offset_tellings


class OffsetLogRetentionStore(DatabaseStore):
    async def expire(self, *, now: datetime) -> dict[str, int]:
        """Remove old events, attempts and contradictions; the number of rows by table."""
        statements = {
            "offset_events": sa.delete(offset_events).where(
                sa.or_(offset_events.c.last_at < now - KEPT_FOR, _beyond_the_newest(offset_events))
            ),
            "offset_tellers": sa.delete(offset_tellers).where(offset_tellers.c.reported_at < now - KEPT_FOR),
            "offset_contradictions": sa.delete(offset_contradictions).where(
                offset_contradictions.c.found_at < now - FINDINGS_KEPT_FOR
            ),
        }
        return {table: (await self._db.execute(statement)).rowcount for table, statement in statements.items()}


def _beyond_the_newest(events: sa.Table) -> sa.ColumnElement[bool]:
    """Behind the last MOST_EVENTS that their attempt has recorded of their partition."""
    told = offset_tellings
    same = sa.and_(*(told.c[key.name] == events.c[key.name] for key in told.primary_key.columns))
    return sa.exists().where(same, told.c.recorded > MOST_EVENTS, events.c.index < told.c.recorded - MOST_EVENTS)
