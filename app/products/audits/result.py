"""What an audit found: exact counts, bounded examples, the offsets that were read, and what could not be read."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import msgspec


class Finding(StrEnum):
    """What can be said of an id.

    LOST: fewer outputs than the input asks for. DUPLICATED: more. UNEXPECTED: an output without any input.
    LATE: all outputs are there, some of them only outside of the window, within its padding.
    MISSING: as LOST, but not all of the output could be read, so it may be there. UNEXPLAINED: as UNEXPECTED, but not
    all of the input could be read. These two prove nothing.
    UNREADABLE_INPUT, UNREADABLE_OUTPUT: a record without an id; each counts for itself. What is no reference, where
    references are, is the latter.
    DANGLING: a committed reference to a file that is not there, or is another one; each counts for itself.
    """

    LOST = "lost"
    DUPLICATED = "duplicated"
    UNEXPECTED = "unexpected"
    LATE = "late"
    MISSING = "missing"
    UNEXPLAINED = "unexplained"
    UNREADABLE_INPUT = "unreadable_input"
    UNREADABLE_OUTPUT = "unreadable_output"
    DANGLING = "dangling"


class Side(StrEnum):
    SOURCE = "source"
    SINK = "sink"


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many ids, and how many records: outputs that are missing, or too many, or late."""

    ids: int = 0
    records: int = 0


class AuditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """All of the window; what was read only as its padding is not in here.

    inputs: records that the pipeline has processed. pending: those that it has not committed yet: nothing is expected
    of them. dropped: inputs of which the transform kept nothing, on purpose. skipped: inputs that the transform failed
    for, where the pipeline's policy is to leave them out; dead_lettered: it is to put them aside; stopping: to stop.
    undelivered: outputs that are expected in a sink and lie among the dead letters: the brokers refused them, or they
    had other types than the records before them in their file.
    expected: outputs that there must be. elsewhere: outputs that belong to a topic that was not read.
    outputs: records found. repeated: ids that the input asks for more than once; for these what happens at the edges of
    the window is told with less certainty, never wrongly.
    unreadable_input: expected outputs without an id. unreadable_output: outputs without one.
    files: that were verified and read; None: outputs are records of the sink topics. dangling: how many references have
    no such file, and how many records these should hold. What is in none is lost, and counts there too.
    """

    inputs: int = 0
    pending: int = 0
    dropped: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    stopping: int = 0
    undelivered: int = 0
    expected: int = 0
    elsewhere: int = 0
    outputs: int = 0
    repeated: int = 0
    unreadable_input: int = 0
    unreadable_output: int = 0
    lost: Tally = Tally()
    duplicated: Tally = Tally()
    unexpected: Tally = Tally()
    late: Tally = Tally()
    missing: Tally = Tally()
    unexplained: Tally = Tally()
    files: int | None = None
    dangling: Tally = Tally()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A record; for an output in a file, the reference to it.

    timestamp_ms: None: it has none, or was gone when it was asked for. file: the path below its root.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None = None
    file: str | None = None


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One id of which something is to be said.

    id: its text, cut if long; None where there is none, or its record was gone. topic: the sink that it is about.
    expected, found: outputs, padding included. inputs, outputs: the first of their records by partition and offset.
    why: of a dangling reference, what its file is.
    """

    finding: Finding
    id: str | None
    topic: str
    expected: int
    found: int
    inputs: tuple[Place, ...] = ()
    outputs: tuple[Place, ...] = ()
    why: str | None = None


class PartitionTally(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at one partition, in records; only partitions of which there is something to say.

    Lost and missing ones stand at the partition of their (first) input, all others at that of their outputs.
    """

    side: Side
    topic: str
    partition: int
    finding: Finding
    records: int


class RangeRead(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a partition that were read: from `read_start` up to `read_end`, the window from `start` to `end`.

    records: those that were there: without control records, aborted ones, and what compaction took away.
    """

    side: Side
    topic: str
    partition: int
    read_start: int
    start: int
    end: int
    read_end: int
    records: int = 0


class GapReason(StrEnum):
    """Why something that belongs to the audit was not read, or cannot be judged.

    DELETED: retention, or somebody, deleted the beginning; COMPACTED: the topic is compacted, records go at any time;
    OPEN_TRANSACTION: readers wait behind an open transaction; NOT_PROCESSED: the pipeline has not committed it yet;
    NOT_ADMITTED: whether there is a gap could not be asked; REVISION_CHANGED: revisions that expect different outputs
    were in force; NOT_BEGUN: the pipeline began at the end of its topics, and what came in before is none of its;
    MADE_ANEW: the group's offset is another log's; BEGINS: a source topic begins in what was read, and may have been
    made anew there; TIME_OF_WRITING: an output's timestamp says nothing of when its input came; TYPES_REFUSED: a file
    refused records for the types of those before them, and nothing is kept of them.
    """

    DELETED = "deleted"
    COMPACTED = "compacted"
    OPEN_TRANSACTION = "open_transaction"
    NOT_PROCESSED = "not_processed"
    NOT_ADMITTED = "not_admitted"
    REVISION_CHANGED = "revision_changed"
    NOT_BEGUN = "not_begun"
    MADE_ANEW = "made_anew"
    BEGINS = "begins"
    TIME_OF_WRITING = "time_of_writing"
    TYPES_REFUSED = "types_refused"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets from `start` up to `end` were not read; both None where it cannot be said which. `sentence` tells it."""

    side: Side
    topic: str
    partition: int | None
    reason: GapReason
    start: int | None = None
    end: int | None = None
    sentence: str


class AuditVersions(msgspec.Struct, frozen=True, kw_only=True):
    fenceline: str
    python: str
    spark: str
    confluent_kafka: str


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole audit found. An audit that came to no end has no result, but an error.

    counts are exact; examples and ranges are in order. duration_ms: from the first question to the last comparison.
    """

    audit_id: str
    counts: AuditCounts
    examples: tuple[Example, ...] = ()
    partitions: tuple[PartitionTally, ...] = ()
    ranges: tuple[RangeRead, ...] = ()
    gaps: tuple[Gap, ...] = ()
    started_at_ms: int
    duration_ms: int
    versions: AuditVersions


class Verdict(StrEnum):
    """BROKEN: an id is proven lost, duplicated or unexpected, or a committed reference dangles. NOT_SHOWN: nothing is,
    but not all could be read.

    EMPTY: there was nothing in the window. CLEAN: every id is where it should be, once.
    """

    BROKEN = "broken"
    NOT_SHOWN = "not_shown"
    EMPTY = "empty"
    CLEAN = "clean"


def verdict(result: AuditResult) -> Verdict:
    """What may be said of the pipeline, and no more than that."""
    counts = result.counts
    if counts.lost.ids or counts.duplicated.ids or counts.unexpected.ids or counts.dangling.ids:
        return Verdict.BROKEN
    unclear = counts.unreadable_input + counts.unreadable_output + counts.elsewhere + counts.stopping
    if result.gaps or unclear:
        return Verdict.NOT_SHOWN
    return Verdict.CLEAN if counts.inputs or counts.outputs else Verdict.EMPTY


_MOST_COUNTED = 2**53


def possible(result: AuditResult) -> AuditResult:
    """The result with counts that can be: what an audit's driver tells is added up, for as long as the pipeline is."""
    return msgspec.structs.replace(
        result,
        counts=_possible(result.counts),
        partitions=tuple(_possible(one) for one in result.partitions),
        duration_ms=max(0, result.duration_ms),
    )


_Counts = TypeVar("_Counts", AuditCounts, Tally, PartitionTally)


def _possible(counts: _Counts) -> _Counts:
    def one(value: object) -> object:
        if isinstance(value, Tally):
            return _possible(value)
        return min(max(value, 0), _MOST_COUNTED) if type(value) is int else value

    return type(counts)(**{name: one(getattr(counts, name)) for name in counts.__struct_fields__})  # pyright: ignore[reportArgumentType] - its own fields
