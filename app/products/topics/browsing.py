"""Choose the records of several partitions' batches, and merge them by time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from app.core.clusters.partition import Partition
from app.core.journals.log_content import Content, RecordHeader, content
from app.core.journals.log_entries import EntryState, LogEntry, entries_of
from app.core.journals.log_look import LogBounds, LogLook, LogStart, parse_start, start_text
from app.core.journals.record_batch import BatchRecord, RecordBatch, read_records
from app.core.journals.wire_message import Undecodable
from app.kit.errors import InvalidError
from app.kit.page import decode_cursor, encode_cursor
from app.products.topics.record_filter import RecordFilter, matcher_of

LARGEST_BATCH_RECORDS = 500_000
"""Batches with more records are not decoded: a small compressed batch may claim any number."""
_KEPT_BYTES = 16 << 20
"""The contents of one partition's records in one answer."""


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record with its outcome.

    state: `plain` without a transaction; `unknown` if the marker, if there is one, is behind what was read.
    decided_at: the offset of its marker, if that was read. size_bytes: of key, value and headers.
    """

    partition: int
    offset: int
    timestamp_ms: int
    is_append_time: bool
    state: EntryState
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    decided_at: int | None = None
    size_bytes: int
    key: Content | None = None
    value: Content | None = None
    headers: tuple[RecordHeader, ...] = ()


class ReadRange(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of one partition that are done: shown, or read without a match. `next`: the first one after them."""

    partition: int
    bounds: LogBounds
    first: int
    next: int

    @property
    def is_at_end(self) -> bool:
        return self.next >= self.bounds.high_watermark


class Scan(msgspec.Struct, kw_only=True):
    """The result of one partition. `next` is the first offset after the scanned ones; last_ms: their latest time."""

    look: LogLook
    records: deque[TopicRecord]
    read: int = 0
    next: int
    last_ms: int = -1
    skipped: str = ""

    @property
    def is_at_end(self) -> bool:
        return self.next >= self.look.bounds.high_watermark


def scan(
    at: Partition,
    look: LogLook,
    wanted: RecordFilter,
    *,
    limit: int,
    is_newest: bool,
    content_bytes: int,
    is_late: Callable[[], bool],
) -> Scan:
    """Return the first `limit` matching records, or the last ones with `is_newest`.

    content_bytes: longer keys and values are cut. is_late: asked before each batch; true ends the scan there.
    """
    matches = matcher_of(wanted)
    found = Scan(look=look, records=deque(), next=look.start)
    kept_bytes = 0
    for batch, entry in zip(look.batches, entries_of(look), strict=True):
        if is_late():
            return found
        for record in _records(batch, entry, found):
            if record.offset < look.start:
                continue
            found.read += 1
            found.last_ms = max(found.last_ms, record.timestamp_ms)
            if wanted.takes(entry.state) and matches(record):
                shown = _shown(at, batch, entry, record, content_bytes=content_bytes)
                found.records.append(shown)
                kept_bytes += _kept(shown)
                if len(found.records) >= limit or kept_bytes >= _KEPT_BYTES:
                    if not is_newest:
                        found.next = record.offset + 1
                        return found
                    while len(found.records) > limit or (kept_bytes >= _KEPT_BYTES and len(found.records) > 1):
                        kept_bytes -= _kept(found.records.popleft())
        found.next = batch.last_offset + 1
    # Offsets at the end may have no batch any more.
    found.next = max(found.next, look.next_offset)
    return found


def _records(batch: object, entry: LogEntry, found: Scan) -> Sequence[BatchRecord]:
    if not isinstance(batch, RecordBatch):
        found.skipped = f"the batch at offset {entry.base_offset} was skipped: {entry.note}"
        return ()
    if batch.is_control:
        return ()
    if batch.record_count > LARGEST_BATCH_RECORDS:
        found.skipped = f"the batch at offset {batch.base_offset} was skipped: it has {batch.record_count:,} records"
        return ()
    records = read_records(batch)
    if isinstance(records, Undecodable):
        found.skipped = f"the batch at offset {batch.base_offset} was skipped: {records.reason}"
        return ()
    return records


def _shown(at: Partition, batch: object, entry: LogEntry, record: BatchRecord, *, content_bytes: int) -> TopicRecord:
    assert isinstance(batch, RecordBatch)  # noqa: S101 - only those have records
    return TopicRecord(
        partition=at.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        is_append_time=batch.has_log_append_time,
        state=entry.state,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        decided_at=entry.decided_at,
        size_bytes=sum(map(_size, (record.key, record.value)))
        + sum(len(name.encode()) + _size(value) for name, value in record.headers),
        key=content(record.key, max_bytes=content_bytes),
        value=content(record.value, max_bytes=content_bytes),
        headers=tuple(
            RecordHeader(name=name, value=content(value, max_bytes=content_bytes)) for name, value in record.headers
        ),
    )


def _size(data: bytes | None) -> int:
    return 0 if data is None else len(data)


def _kept(record: TopicRecord) -> int:
    parts = (record.key, record.value, *(header.value for header in record.headers))
    return sum(len(part.text) for part in parts if part is not None)


def merged(
    scans: Mapping[Partition, Scan], *, limit: int, is_newest: bool
) -> tuple[tuple[TopicRecord, ...], tuple[ReadRange, ...]]:
    """Return at most `limit` records by time, each partition's in the order of its offsets, and the ranges done.

    A record is left for the next page if another partition, read to an earlier time only, may have one before it.
    """
    queues = {at: deque(one.records) for at, one in scans.items()}
    taken: deque[TopicRecord] = deque()
    # A partition of which nothing was read yet must not stop the others.
    unfinished = [one.last_ms for one in scans.values() if not one.is_at_end and one.last_ms >= 0]
    until_ms = None if is_newest else min(unfinished, default=None)
    while waiting := [(queue[0].timestamp_ms, at) for at, queue in queues.items() if queue]:
        timestamp_ms, at = min(waiting)
        if not is_newest and (len(taken) >= limit or (until_ms is not None and timestamp_ms > until_ms)):
            break
        taken.append(queues[at].popleft())
        if len(taken) > limit:
            taken.popleft()
    ranges = tuple(
        ReadRange(
            partition=at.partition,
            bounds=one.look.bounds,
            first=one.look.start,
            next=queues[at][0].offset if queues[at] else one.next,
        )
        for at, one in sorted(scans.items())
    )
    return tuple(taken), ranges


def cursor_of(starts: Mapping[int, LogStart]) -> str:
    """Encode where each partition continues: at an offset, or at the query's start if it could not be read."""
    return encode_cursor(",".join(f"{number}:{start_text(start)}" for number, start in sorted(starts.items())))


def starts_of(cursor: str) -> dict[int, LogStart]:
    """Decode them. Raises InvalidError at field `after`."""
    (text,) = decode_cursor(cursor, keys=1)
    found: dict[int, LogStart] = {}
    for pair in text.split(","):
        number, _, start = pair.partition(":")
        if number.isascii() and number.isdecimal() and int(number) < 2**31:
            with suppress(InvalidError):
                found[int(number)] = parse_start(start)
                continue
        raise InvalidError("this cursor belongs to another list: take it from next_cursor unchanged", field="after")
    return found
