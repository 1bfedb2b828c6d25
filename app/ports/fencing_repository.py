"""What services ask of the database about fencing events."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from app.domain.fencing_events.evidence import Evidence
from app.domain.fencing_events.fencing_event import Cause, FencingEvent, FencingKey
from app.domain.fencing_events.record import Correction, FencingFilter, FencingPlace, FencingRecord
from app.domain.page import Page


class FencingRepository(Protocol):
    async def evidence_of(self, keys: Collection[FencingKey]) -> dict[FencingKey, tuple[Evidence, ...]]:
        """What is kept of those of the keys that have an event, without a lock."""
        ...

    async def find(self, key: FencingKey, *, for_update: bool = False) -> FencingRecord | None: ...

    async def add(self, event: FencingEvent, *, place: FencingPlace, now: datetime) -> bool:
        """Keep a new event; False when another server was first, which has committed by then."""
        ...

    async def change(
        self,
        record_id: str,
        event: FencingEvent,
        *,
        place: FencingPlace,
        corrections: tuple[Correction, ...],
        now: datetime,
    ) -> None: ...

    async def get(self, record_id: str) -> FencingRecord: ...

    async def list(self, wanted: FencingFilter, *, after: str | None, limit: int) -> Page[FencingRecord]:
        """Newest first, by when it happened."""
        ...

    async def count_by_cause(self, wanted: FencingFilter) -> dict[Cause, int]:
        """How many of each cause match; causes without any are left out."""
        ...

    async def add_told(self, told: Mapping[tuple[str, Cause], int]) -> None:
        """Count so many more events of these Kafka clusters and causes; locks their counts until the end."""
        ...

    async def told(self) -> dict[tuple[str, Cause], int]:
        """How many events ever said this cause of a Kafka cluster; one that was corrected is counted under each."""
        ...

    async def place_of_producer(self, key: FencingKey) -> FencingPlace:
        """Whose producer it was: its id's pipeline and task, and the attempt that last reported as this producer."""
        ...
