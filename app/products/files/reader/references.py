"""The committed references of a sink topic, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from app.core.wire import file_references
from app.core.wire.file_references import FileReference
from app.products.files.reader.topic import Offsets, ReferenceRecord

_TELL_EVERY = 1_000


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A committed reference with its place; `timestamp_ms` None: its record has none."""

    reference: FileReference
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class ReferenceWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Timestamps of references from `from_ms` up to and excluding `to_ms`; None: without a bound."""

    from_ms: int | None = None
    to_ms: int | None = None

    def has(self, timestamp_ms: int | None) -> bool:
        if timestamp_ms is None:
            return self.from_ms is None and self.to_ms is None
        return (self.from_ms is None or timestamp_ms >= self.from_ms) and (
            self.to_ms is None or timestamp_ms < self.to_ms
        )


class ReferenceReading(msgspec.Struct, kw_only=True):
    """The progress of reading, and counts of records.

    records: read so far. expected: number of offsets, including markers and aborted records.
    references: returned so far.
    others: records that are no references, or of a newer format; `other` describes the last one with its place.
    repeated: references to a path that an earlier one names; they are not returned again.
    doubtful: place and format of the last record that claims to be a reference, but whose file is not known.
    """

    topic: str
    expected: int = 0
    passed: int = 0
    records: int = 0
    references: int = 0
    others: int = 0
    other: str = ""
    repeated: int = 0
    doubtful: str = ""


class ReferenceTopic(Protocol):
    """A sink topic for readers (app/products/files/reader/topic.py)."""

    @property
    def name(self) -> str: ...
    def begins(self) -> Offsets: ...
    def last_stable(self) -> Offsets: ...
    def at_time(self, at_ms: int) -> Offsets: ...
    def committed(self, start: Offsets, end: Offsets) -> Iterator[ReferenceRecord]: ...


def committed_references(
    topic: ReferenceTopic,
    window: ReferenceWindow | None = None,
    *,
    pipeline: str | None = None,
    seen: set[str] | None = None,
    heard: Callable[[ReferenceReading], None] = lambda _: None,
) -> Iterator[Located]:
    """Return every reference that is committed at the call, each path once, partition by partition.

    It does not wait for open transactions.

    Args:
        window: range of the records' timestamps. These need not be in order, so reading begins at the first record
            that is new enough, and covers all later ones.
        pipeline: only references of this one; a topic may be the sink of several.
        seen: paths to skip, to which returned paths are added. A topic may have been copied into another.
        `heard`: called with the progress at intervals and at the end.

    Raises:
        ReferencesUnreadableError: the brokers do not answer, or records were deleted before they were read.
    """
    window = window or ReferenceWindow()
    end = topic.last_stable()
    begin = topic.begins() if window.from_ms is None else topic.at_time(window.from_ms)
    start = {partition: min(begin[partition], end[partition]) for partition in end}
    reading = ReferenceReading(topic=topic.name, expected=sum(end[at] - start[at] for at in end))
    seen = set() if seen is None else seen
    for located in references_between(topic, start, end, reading=reading, heard=heard):
        if pipeline is not None and located.reference.pipeline != pipeline:
            continue
        if not window.has(located.timestamp_ms):
            continue
        if located.reference.path in seen:
            reading.repeated += 1
            continue
        seen.add(located.reference.path)
        reading.references += 1
        yield located
    reading.passed = reading.expected
    heard(reading)


def references_between(
    topic: ReferenceTopic,
    start: Offsets,
    end: Offsets,
    *,
    reading: ReferenceReading,
    heard: Callable[[ReferenceReading], None] = lambda _: None,
    named: Callable[[str, str], None] = lambda _path, _place: None,
) -> Iterator[Located]:
    """Return the references from `start` up to `end`, which must not exceed the last stable offset.

    Args:
        named: called with path and place of each invalid reference of this version.
    """
    before = 0
    partition: int | None = None
    for record in topic.committed(start, end):
        if partition is not None and record.partition != partition:
            before += end[partition] - start[partition]
        partition = record.partition
        reading.records += 1
        reading.passed = before + record.offset + 1 - start[partition]
        if reading.records % _TELL_EVERY == 0:
            heard(reading)
        place = f"{topic.name}-{record.partition}@{record.offset}"
        if record.value is None:
            reading.others += 1
            reading.other = f"{place}: no value"
            continue
        try:
            reference = file_references.decode(record.value)
        except ValueError as error:
            reading.others += 1
            reading.other = f"{place}: {error}"
            claim = file_references.unread_claim(record.value)
            if claim is not None and claim.path is not None:
                named(claim.path, place)
            elif claim is not None:
                reading.doubtful = f"{place} ({claim.format_ or error})"
            continue
        yield Located(
            reference=reference,
            topic=topic.name,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
        )
