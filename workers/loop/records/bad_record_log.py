"""The bad records of an attempt, folded by cause, as each heartbeat reports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.core.runs.bad_records import (
    HOUR_MINUTES,
    LONGEST_ERROR,
    MOST_CAUSES,
    MOST_REPORTED,
    OTHER,
    BadCause,
    BadMinute,
    added,
)
from workers.transforms import RecordError


class BadRecord(NamedTuple):
    """One bad record of a checkpoint."""

    topic: str
    partition: int
    offset: int
    error: str
    is_skipped: bool


def error_name(error: Exception) -> str:
    """Return the kind of an error without contents of the record.

    The message of another exception than our own may quote the record, so that one is its class alone.
    """
    return str(error)[:LONGEST_ERROR] if isinstance(error, RecordError) else type(error).__name__


class BadRecordLog:
    """Totals of the attempt's committed checkpoints; bounded in causes, partitions and minutes."""

    def __init__(self) -> None:
        self._causes: dict[tuple[str, int, str], BadCause] = {}
        self._errors: set[str] = set()
        self._minutes: dict[int, tuple[int, int]] = {}

    def add(self, records: Sequence[BadRecord], *, now_ms: int) -> bool:
        """Add those of a committed checkpoint; return whether one of the causes is new in its partition."""
        before = len(self._causes)
        for one in records:
            if one.error in self._errors or len(self._errors) < MOST_CAUSES:
                error = one.error
                self._errors.add(error)
            else:
                error = OTHER
            key = (one.topic, one.partition, error)
            if key not in self._causes and len(self._causes) >= MOST_REPORTED:
                continue
            found = BadCause(
                topic=one.topic,
                partition=one.partition,
                error=error,
                records=1,
                first_offset=one.offset,
                last_offset=one.offset,
                first_at_ms=now_ms,
                last_at_ms=now_ms,
            )
            self._causes[key] = added(self._causes[key], found) if key in self._causes else found
        minute = now_ms // 60_000
        skipped, dead = self._minutes.get(minute, (0, 0))
        newly_skipped = sum(one.is_skipped for one in records)
        self._minutes[minute] = (skipped + newly_skipped, dead + len(records) - newly_skipped)
        for old in [one for one in self._minutes if one <= minute - HOUR_MINUTES]:
            del self._minutes[old]
        return len(self._causes) > before

    def causes(self) -> tuple[BadCause, ...]:
        return tuple(self._causes.values())

    def minutes(self) -> tuple[BadMinute, ...]:
        """Return the minutes of the last hour with a bad record."""
        return tuple(
            BadMinute(minute=minute, skipped=skipped, dead_lettered=dead)
            for minute, (skipped, dead) in sorted(self._minutes.items())
        )
