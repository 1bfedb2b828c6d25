"""The references that a sink topic holds: what was committed, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from app.core.wire import file_references
from app.core.wire.file_references import FileReference
from app.products.files.reader.topic import Offsets, Record

_TELL_EVERY = 1_000


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A committed reference, and where it stands; `timestamp_ms` None: its record has none."""

    reference: FileReference
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """References whose records have a timestamp from `from_ms` on, and before `to_ms`; None: without bound."""

    from_ms: int | None = None
    to_ms: int | None = None

    def has(self, timestamp_ms: int | None) -> bool:
        if timestamp_ms is None:
            return self.from_ms is None and self.to_ms is None
        return (self.from_ms is None or timestamp_ms >= self.from_ms) and (
            self.to_ms is None or timestamp_ms < self.to_ms
        )


class Reading(msgspec.Struct, kw_only=True):
    """How far it is, and what was met.

    records: read so far; of `expected` offsets, among which are markers and what was aborted.
    references: those that were given.
    others: records that are no references, or of a newer format; `other` says where the last one is, and what is wrong.
    repeated: references to a path that had one already; they are not given again.
    doubtful: where the last one of the others is that says it is a reference, and of which format, though what it
        names is not known.
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
    """What is asked of a sink topic (app/products/files/reader/topic.py)."""

    @property
    def name(self) -> str: ...
    def begins(self) -> Offsets: ...
    def last_stable(self) -> Offsets: ...
    def at_time(self, at_ms: int) -> Offsets: ...
    def committed(self, start: Offsets, end: Offsets) -> Iterator[Record]: ...


def committed_references(
    topic: ReferenceTopic,
    window: Window | None = None,
    *,
    pipeline: str | None = None,
    seen: set[str] | None = None,
    heard: Callable[[Reading], None] = lambda _: None,
) -> Iterator[Located]:
    """Every reference that is committed when this is called, each path once, a partition after the other.

    What is committed later is not among them, and an open transaction is not waited for.

    Args:
        window: by the timestamps of the records. These need not be in order, so that all is read from the first one
            on that is young enough.
        pipeline: only references of this one; a topic may be the sink of several.
        seen: paths that were given already; those that are given join them. A topic may have been copied into another.
        heard: told how far it is, now and then, and at the end.

    Raises:
        ReferencesUnreadableError: the brokers do not answer, or records were deleted while they were to be read.
    """
    window = window or Window()
    end = topic.last_stable()
    begin = topic.begins() if window.from_ms is None else topic.at_time(window.from_ms)
    start = {partition: min(begin[partition], end[partition]) for partition in end}
    reading = Reading(topic=topic.name, expected=sum(end[at] - start[at] for at in end))
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
    reading: Reading,
    heard: Callable[[Reading], None] = lambda _: None,
    named: Callable[[str, str], None] = lambda _path, _place: None,
) -> Iterator[Located]:
    """The references from `start` up to `end`, which must not lie behind the last stable offset.

    Args:
        named: told path and place of what is a reference of this version but for something that is wrong with it.
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
