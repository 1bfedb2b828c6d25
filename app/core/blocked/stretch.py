"""Count the records and markers between two offsets of a partition: read_committed consumers receive only some of
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from app.core.journals.record_batch import Marker, MarkerType, RecordBatch, UnreadableBatch, read_marker


class LogStretch(msgspec.Struct, frozen=True):
    """The range of a partition from `first_offset` up to `next_offset`; `is_whole` if it has every requested offset.

    records: committed or non-transactional. undecided: without a marker. markers: control records, which no consumer
    receives. first_ms: the time of the first record, -1 without one.
    """

    first_offset: int
    next_offset: int
    records: int = 0
    aborted: int = 0
    undecided: int = 0
    markers: int = 0
    first_ms: int = -1
    is_whole: bool = True


def measure(
    batches: Iterable[RecordBatch | UnreadableBatch], *, first_offset: int, end_offset: int, is_whole: bool = True
) -> LogStretch:
    """Count the records from `first_offset` up to `end_offset`.

    Args:
        batches: in their order; the first and the last may exceed the range. A batch of an old format, which cannot be
            transactional, counts as one record.
    """
    records = aborted = markers = 0
    undecided: Counter[int] = Counter()
    first_ms = -1
    next_offset = first_offset
    for batch in batches:
        if batch.last_offset < first_offset:
            continue
        if isinstance(batch, RecordBatch) and batch.base_offset >= end_offset:
            break
        next_offset = min(batch.last_offset + 1, end_offset)
        if isinstance(batch, UnreadableBatch):
            records += 1
            continue
        if batch.is_control:
            markers += 1
            marker = read_marker(batch)
            decided = undecided.pop(batch.producer_id, 0)
            if isinstance(marker, Marker) and marker.type is MarkerType.ABORT:
                aborted += decided
            else:
                records += decided
            continue
        # A batch that was cut by compaction has fewer records than offsets.
        inside = min(batch.record_count, next_offset - max(batch.base_offset, first_offset))
        if inside and first_ms < 0:
            first_ms = batch.base_timestamp_ms
        if batch.is_transactional:
            undecided[batch.producer_id] += inside
        else:
            records += inside
    return LogStretch(
        first_offset, next_offset, records, aborted, undecided.total(), markers, first_ms, is_whole=is_whole
    )
