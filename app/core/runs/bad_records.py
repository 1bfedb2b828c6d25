"""Records that could not be processed, folded by their cause: a flood of them is a few rows.

A task reports its causes as totals of the attempt, in each heartbeat. A run's are the sums over its attempts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec.structs import replace

from app.core.runs.number_bounds import LARGEST, Bound, Index, MomentMs

MOST_CAUSES = 20
"""In one attempt; records with other causes count under OTHER of their partition."""
MOST_REPORTED = 60
"""Causes by partition in one heartbeat, so that a report stays small."""
LONGEST_ERROR = 200
OTHER = "other errors"
HOUR_MINUTES = 60

_Offset = Annotated[int, Bound(LARGEST, counted_as="bad_records.offset")]
_Records = Annotated[int, Bound(LARGEST, counted_as="bad_records.records")]


class BadCause(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of error in one partition. error: without contents of the record, for every viewer.

    first_offset, last_offset: the lowest and the highest offset. Both times are by the task's clock.
    """

    topic: str
    partition: Index
    error: str
    records: _Records
    first_offset: _Offset
    last_offset: _Offset
    first_at_ms: MomentMs
    last_at_ms: MomentMs


class BadMinute(msgspec.Struct, frozen=True, kw_only=True):
    """The bad records of committed checkpoints in one minute since 1970."""

    minute: Annotated[int, Bound(LARGEST // 60_000, counted_as="bad_minutes.minute")]
    skipped: Annotated[int, Bound(LARGEST, counted_as="bad_minutes.skipped")] = 0
    dead_lettered: Annotated[int, Bound(LARGEST, counted_as="bad_minutes.dead_lettered")] = 0


class BadRecordSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run's bad records: its causes, the newest first, and the records of the last hour."""

    causes: tuple[BadCause, ...] = ()
    skipped_last_hour: int = 0
    dead_lettered_last_hour: int = 0


def added(before: BadCause, one: BadCause) -> BadCause:
    """Return the sum of two findings of the same cause."""
    return replace(
        before,
        records=min(LARGEST, before.records + one.records),
        first_offset=min(before.first_offset, one.first_offset),
        last_offset=max(before.last_offset, one.last_offset),
        first_at_ms=min(before.first_at_ms, one.first_at_ms),
        last_at_ms=max(before.last_at_ms, one.last_at_ms),
    )


def folded(causes: Iterable[BadCause]) -> tuple[BadCause, ...]:
    """Return one row for each topic, partition and error; the newest first."""
    found: dict[tuple[str, int, str], BadCause] = {}
    for one in causes:
        key = (one.topic, one.partition, one.error)
        found[key] = added(found[key], one) if key in found else one
    return tuple(sorted(found.values(), key=lambda one: (-one.last_at_ms, one.topic, one.partition, one.error)))


def summary_of(causes: Iterable[BadCause], minutes: Iterable[BadMinute], *, now_ms: int) -> BadRecordSummary:
    """Return the summary over attempts. The last hour is that of whole minutes, and the present one."""
    since = now_ms // 60_000 - HOUR_MINUTES
    recent = [one for one in minutes if one.minute > since]
    return BadRecordSummary(
        causes=folded(causes),
        skipped_last_hour=sum(one.skipped for one in recent),
        dead_lettered_last_hour=sum(one.dead_lettered for one in recent),
    )
