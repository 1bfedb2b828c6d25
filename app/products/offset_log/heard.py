"""The received offset events of one partition by attempt, and their completeness."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from app.core.wire.offset_events import Event, Teller, Telling


class ReportedOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """The events that one attempt reported of one partition.

    recorded, is_open, is_over: as in offset_report.py, by the newest report that is kept.
    complete_at: time by the server's clock up to which all events were reported or counted; None if unknown.
    newest_at: when the newest of `events` first arrived; None without events.
    life: as in offset_events.py.
    """

    group: str
    topic: str
    partition: int
    teller: Teller
    run_id: str
    host: str | None
    events: tuple[Event, ...]
    recorded: int
    is_open: bool
    is_over: bool
    complete_at: datetime | None
    newest_at: datetime | None
    life: int = 0

    @property
    def place(self) -> tuple[str, str, int]:
        return self.group, self.topic, self.partition


def tellings(heard: Sequence[ReportedOffsets]) -> list[Telling]:
    """Return the events of one partition for the replay.

    A live attempt is complete if it reported, even without events, after the newest events of the others arrived. It
    must have no open checkpoint that may have been committed meanwhile.
    """
    found: list[Telling] = []
    for one in heard:
        others = [other.newest_at for other in heard if other is not one and other.newest_at is not None]
        is_complete = (
            not others or (one.complete_at is not None and one.complete_at >= max(others))
        ) and not one.is_open
        found.append(
            Telling(
                teller=one.teller,
                events=one.events,
                recorded=one.recorded,
                is_final=one.is_over or is_complete,
                life=one.life,
            )
        )
    return found
