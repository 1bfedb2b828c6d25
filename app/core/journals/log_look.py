"""A range of a partition's log: its batches, and the broker's answers around them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.kit.errors import InvalidError
from app.kit.moments import WordsError, moment_of
from app.kit.storable import moment_of_ms


class AbortedTransaction(NamedTuple):
    """An entry of the broker's list: the first offset of this producer's aborted transaction in the partition."""

    producer_id: int
    first_offset: int


class LogBounds(msgspec.Struct, frozen=True, kw_only=True):
    """first_offset <= last_stable_offset <= high_watermark, each of about the same time.

    read_committed consumers get the records below the last stable offset; the high watermark is the end.
    """

    first_offset: int
    last_stable_offset: int
    high_watermark: int


class ReadBound(msgspec.Struct, frozen=True, kw_only=True):
    """How much of several partitions is read at most. Reading ends after the batch that reaches one of them.

    partitions: more are refused. records: in all of them together. size_bytes: of compressed batches. for_s: the time
    for fetches; what was read until then is returned. before_end: with the start `end`, the offsets that are read
    before each end; fewer if all partitions together had more than `records`.
    """

    partitions: int
    records: int
    size_bytes: int
    for_s: float
    before_end: int


class LogLook(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive batches from `start` up to `next_offset`; the first one may begin before `start`.

    decided_until: batches before it were fetched at read_committed. So each of them has an outcome, and `aborted` has
    every aborted transaction that reaches into them.
    """

    start: int
    next_offset: int
    bounds: LogBounds
    batches: tuple[RecordBatch | UnreadableBatch, ...]
    aborted: frozenset[AbortedTransaction] = frozenset()
    decided_until: int = -1

    @property
    def is_at_end(self) -> bool:
        return self.next_offset >= self.bounds.high_watermark

    @property
    def is_from_beginning(self) -> bool:
        return self.start <= self.bounds.first_offset


class Landmark(StrEnum):
    """START: the oldest kept record. LSO: the last stable offset, where the first open transaction begins.

    END: the last records, up to the end.
    """

    START = "start"
    LSO = "lso"
    END = "end"


class FromTime(msgspec.Struct, frozen=True):
    """The first record of a partition whose timestamp is this one or later, as ListOffsets finds it."""

    timestamp_ms: int


LogStart = int | Landmark | FromTime
"""The first record to read: by its offset, by a name, or by its time."""


def parse_start(text: str, *, now: datetime | None = None) -> LogStart:
    """Parse an offset, a landmark's name, or a time: `2026-01-31T09:00:00Z`, or with `now` also a span such as `15m`.

    Raises InvalidError at field `from`.
    """
    if text.isdecimal() and text.isascii() and int(text) < 2**63:
        return int(text)
    if text in set(Landmark):
        return Landmark(text)
    with suppress(WordsError, ValueError, OverflowError):
        at = moment_of(text, now=now) if now is not None else datetime.fromisoformat(text)
        if at.tzinfo is not None:
            # A timestamp below zero has a meaning of its own in ListOffsets.
            return FromTime(max(0, int(at.timestamp() * 1000)))
    names = ", ".join(Landmark)
    raise InvalidError(
        f"{text[:80]} is neither an offset nor one of: {names}, nor a time such as 2026-01-31T09:00:00Z", field="from"
    )


def start_text(start: LogStart) -> str:
    """Return the text that `parse_start` reads as this start."""
    if isinstance(start, FromTime):
        at = moment_of_ms(start.timestamp_ms)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(start)


def first_offset_of(
    start: LogStart, bounds: LogBounds, *, limit: int, name: str, at_time: Callable[[int], int] = lambda _: -1
) -> int:
    """Return the first offset to read. Raises InvalidError at field `from`, with the valid range, for an offset outside
    the log.

    name: the partition, as in `orders-0`.
    at_time: asks its leader for the first offset at or after a timestamp; -1: there is none, which means the end.
    """
    match start:
        case FromTime(timestamp_ms):
            found = at_time(timestamp_ms)
            return bounds.high_watermark if found < 0 else max(found, bounds.first_offset)
        case Landmark.START:
            return bounds.first_offset
        case Landmark.LSO:
            return bounds.last_stable_offset
        case Landmark.END:
            return max(bounds.first_offset, bounds.high_watermark - limit)
        case int():
            if bounds.first_offset <= start <= bounds.high_watermark:
                return start
            if bounds.first_offset == bounds.high_watermark:
                has = f"is empty; its next record gets offset {bounds.high_watermark}"
            else:
                has = f"has offsets {bounds.first_offset} to {bounds.high_watermark - 1}"
            raise InvalidError(f"offset {start} is out of range: {name} {has}", field="from")
