"""What services ask of the database about hanging transactions."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from app.domain.hanging.hanging_transaction import Ended, HangingTransaction
from app.domain.hanging.record import HangingRecord
from app.domain.page import Page


class HangingRepository(Protocol):
    async def add(self, found: HangingTransaction, *, now: datetime) -> bool:
        """Keep it; False when it is kept already. One that had ended and hangs after all is open again: True."""
        ...

    async def end(self, ended: Ended, *, now: datetime) -> bool:
        """Note how it ended; False when that is noted already, or nothing is kept of it."""
        ...

    async def open_ones(self, kafka_cluster_id: str | None = None) -> list[HangingTransaction]:
        """Those whose end is not noted, of one cluster or of all; those that hang longest first."""
        ...

    async def list(self, kafka_cluster_id: str, *, after: str | None, limit: int) -> Page[HangingRecord]:
        """Newest first, by when they were found."""
        ...
