"""The recorded batches of a query that dropped rows, for other products."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.late_rows import LateBatch
from app.kit.db.unit_of_work import UnitOfWork
from app.products.dataframes.store import QueryStore

_MOST = 1_000


class RecordedLateRows:
    """See app/core/late_rows.py, LateRows."""

    async def late_batches(self, uow: UnitOfWork, pipeline: str) -> Sequence[LateBatch]:
        found = await uow.of(QueryStore).late(pipeline, limit=_MOST)
        return [LateBatch(round(one.ended_at.timestamp() * 1000), one.late_rows or 0) for one in found]
