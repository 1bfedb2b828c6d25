"""Rows that the watermark of a query has dropped; app/products/dataframes/service/late_rows.py reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from app.kit.db.unit_of_work import UnitOfWork


class LateBatch(NamedTuple):
    """A batch that dropped rows. ended_at_ms: by the clock of the driver's host."""

    ended_at_ms: int
    rows: int


class LateRows(Protocol):
    async def late_batches(self, uow: UnitOfWork, pipeline: str) -> Sequence[LateBatch]:
        """Return the newest recorded batches of a pipeline that dropped rows, newest first; at most a thousand."""
        ...
