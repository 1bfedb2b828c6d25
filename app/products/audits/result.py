"""The result of an audit: exact counts, bounded examples, the ranges that were read, and the gaps."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import msgspec


class IdFinding(StrEnum):
    """The finding about an id.

    LOST: fewer outputs than the input requires. DUPLICATED: more. UNEXPECTED: an output without an input.
    LATE: complete, but partly outside the window and within its padding.
    MISSING: as LOST, but not all of the output could be read. UNEXPLAINED: as UNEXPECTED, but not all of the input
    could be read. These two prove nothing.
    UNREADABLE_INPUT, UNREADABLE_OUTPUT: a record without an id, each counted once. A record among references that is no
    reference is an UNREADABLE_OUTPUT.
    DANGLING: a committed reference to a file that is missing or differs, each counted once.

    In a comparison the records of the baseline are the expected outputs, and two more findings are possible.
    DIFFERENT: an id on both sides whose fields differ. DUPLICATED_IN_BASELINE: the baseline has an equal record more
    often than the output. This proves nothing: the other system may have repeated it, or the pipeline lost one of two.
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
    DIFFERENT = "different"
    DUPLICATED_IN_BASELINE = "duplicated_in_baseline"


class AuditSide(StrEnum):
    SOURCE = "source"
    SINK = "sink"


class FindingTally(msgspec.Struct, frozen=True, kw_only=True):
    """Number of ids, and number of their outputs that are missing, surplus or late."""

    ids: int = 0
    records: int = 0


class AuditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the window, without its padding.

    inputs: records that the pipeline has processed. pending: records that it has not committed yet, without expected
    outputs.
    dropped: inputs that the transform filters out.
    skipped, dead_lettered, stopping: inputs for which the transform fails, by failure policy.
    undelivered: outputs expected in a sink and found among the dead letters. The brokers refused them, or their types
    conflicted with earlier records of their file.
    expected: outputs that the input requires. elsewhere: outputs for a topic that was not read.
    outputs: records found.
    repeated: ids that several inputs have. Findings about them at the window's edges are less certain, never wrong.
    unreadable_input: expected outputs without an id. unreadable_output: outputs without an id.
    files: verified and read files; None if outputs are records of the sink topics.
    dangling: dangling references, and the records that their files should have. These also count as lost.
    different, duplicated_in_baseline: in comparisons only.
    not_comparable: recomputed rows that may depend on records beyond the range. They are in no other count.
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
    lost: FindingTally = FindingTally()
    duplicated: FindingTally = FindingTally()
    unexpected: FindingTally = FindingTally()
    late: FindingTally = FindingTally()
    missing: FindingTally = FindingTally()
    unexplained: FindingTally = FindingTally()
    files: int | None = None
    dangling: FindingTally = FindingTally()
    different: FindingTally = FindingTally()
    duplicated_in_baseline: FindingTally = FindingTally()
    not_comparable: int = 0


class RecordPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a record, or for an output in a file, of its reference.

    timestamp_ms: None if it has none, or was deleted meanwhile. file: the path below its root.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None = None
    file: str | None = None


class FieldValues(msgspec.Struct, frozen=True, kw_only=True):
    """A field's values on both sides, as shortened JSON; None: the field is missing."""

    field: str
    baseline: str | None
    output: str | None


class FieldTally(msgspec.Struct, frozen=True, kw_only=True):
    """The number of different records in which this field differs."""

    field: str
    records: int


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One id with a finding.

    id: its text, shortened; None without an id, or if its record was deleted meanwhile. topic: the sink.
    expected, found: outputs, including the padding. inputs, outputs: their first records by partition and offset.
    why: the difference of a dangling reference's file.
    values: in a comparison, the values of the fields that differ, or of the only record.
    baseline_file: in a comparison with files, the file of the baseline's record.
    """

    finding: IdFinding
    id: str | None
    topic: str
    expected: int
    found: int
    inputs: tuple[RecordPlace, ...] = ()
    outputs: tuple[RecordPlace, ...] = ()
    why: str | None = None
    values: tuple[FieldValues, ...] = ()
    baseline_file: str | None = None


class PartitionTally(msgspec.Struct, frozen=True, kw_only=True):
    """The number of records with one finding in one partition.

    Lost and missing outputs count in the partition of their (first) input, others in the partition of the output.
    """

    side: AuditSide
    topic: str
    partition: int
    finding: IdFinding
    records: int


class RangeRead(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a partition that were read: from `read_start` up to `read_end`, the window from `start` to `end`.

    records: received records, so without control records, aborted records and compacted ones.
    """

    side: AuditSide
    topic: str
    partition: int
    read_start: int
    start: int
    end: int
    read_end: int
    records: int = 0


class GapReason(StrEnum):
    """The reason why a part of the audit was not read, or cannot be judged.

    DELETED: the beginning was deleted, by retention or a user.
    COMPACTED: the topic is compacted, so records may disappear at any time.
    OPEN_TRANSACTION: an open transaction blocks consumers.
    NOT_PROCESSED: the pipeline has not committed it yet.
    NOT_ADMITTED: the brokers did not permit the request that detects gaps.
    REVISION_CHANGED: revisions with different expected outputs were in force.
    NOT_BEGUN: the pipeline started at the end of its topics, so it does not process earlier records.
    MADE_ANEW: the group's offset belongs to the log of a deleted topic.
    BEGINS: a source topic begins in the range that was read, and may have been recreated there.
    TIME_OF_WRITING: an output's timestamp is unrelated to that of its input.
    TYPES_REFUSED: a file refused records for conflicting types, and they are stored nowhere.
    HEADER_NAMES: records have a header name that is not UTF-8. Native records carry it, Python objects cannot.
    NO_FIELD: no record has a field that should be compared.
    UNBOUNDED: a partition has no record in the range, or records out of order by more than the padding. So the rows
        that depend on records beyond the range are not known.
    LATE_ROWS: the watermark has dropped rows of the pipeline, which a recomputation has.
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
    HEADER_NAMES = "header_names"
    NO_FIELD = "no_field"
    UNBOUNDED = "unbounded"
    LATE_ROWS = "late_rows"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets from `start` up to `end` were not read; both None if not known. `sentence` describes it."""

    side: AuditSide
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


class EventTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Event times from `start_ms` up to and excluding `end_ms`, milliseconds since 1970; None: without a bound."""

    start_ms: int | None
    end_ms: int | None


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a complete audit. An audit that failed has an error instead.

    counts are exact; examples and ranges are in order. duration_ms: from the first request to the last comparison.
    baseline: the other side of a comparison in words; None for other audits. fields: those that differ, most first.
    compared: in a recomputation, the times of the rows that depend on no record beyond the range.
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
    baseline: str | None = None
    fields: tuple[FieldTally, ...] = ()
    compared: EventTimes | None = None


class AuditVerdict(StrEnum):
    """BROKEN: an id is proven lost, duplicated, unexpected or different, or a committed reference dangles.

    NOT_SHOWN: no violation is proven, but not all could be read. EMPTY: the window has no records.
    CLEAN: every expected output exists once.
    """

    BROKEN = "broken"
    NOT_SHOWN = "not_shown"
    EMPTY = "empty"
    CLEAN = "clean"


def verdict(result: AuditResult) -> AuditVerdict:
    """Return the verdict that the counts and gaps prove."""
    counts = result.counts
    proof = (counts.lost, counts.duplicated, counts.unexpected, counts.different, counts.dangling)
    if any(tally.ids for tally in proof):
        return AuditVerdict.BROKEN
    unclear = counts.unreadable_input + counts.unreadable_output + counts.elsewhere + counts.stopping
    # The other system wrote the record twice, or the pipeline lost one of two.
    unclear += counts.duplicated_in_baseline.records
    if result.gaps or unclear:
        return AuditVerdict.NOT_SHOWN
    if counts.inputs or counts.outputs:
        return AuditVerdict.CLEAN
    return AuditVerdict.NOT_SHOWN if counts.not_comparable else AuditVerdict.EMPTY


_MOST_COUNTED = 2**53


def possible(result: AuditResult) -> AuditResult:
    """Limit the counts of a driver's report to a valid range, since they are added to the pipeline's counters."""
    return msgspec.structs.replace(
        result,
        counts=_possible(result.counts),
        partitions=tuple(_possible(one) for one in result.partitions),
        fields=tuple(_possible(one) for one in result.fields),
        duration_ms=max(0, result.duration_ms),
    )


_Counts = TypeVar("_Counts", AuditCounts, FindingTally, PartitionTally, FieldTally)


def _possible(counts: _Counts) -> _Counts:
    def one(value: object) -> object:
        if isinstance(value, FindingTally):
            return _possible(value)
        return min(max(value, 0), _MOST_COUNTED) if type(value) is int else value

    return type(counts)(**{name: one(getattr(counts, name)) for name in counts.__struct_fields__})  # pyright: ignore[reportArgumentType] - its own fields
