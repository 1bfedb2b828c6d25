"""A range of a partition's log: its batches, and the broker's answers around them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.kit.errors import InvalidError


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


def parse_start(text: str) -> int | Landmark:
    """An offset or a landmark's name. Raises InvalidError at field `from`."""
    if text.isdecimal() and text.isascii() and int(text) < 2**63:
        return int(text)
    try:
        return Landmark(text)
    except ValueError:
        raise InvalidError(f"{text} is neither an offset nor one of: {', '.join(Landmark)}", field="from") from None


def first_offset_of(start: int | Landmark, bounds: LogBounds, *, limit: int, name: str) -> int:
    """Return the first offset to read. Raises InvalidError at field `from`, with the valid range, for an offset outside
    the log.

    name: the partition, as in `orders-0`.
    """
    match start:
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
