"""From the reports of tasks to the audit's result: sums, and conclusions where not all could be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from app.core.pipelines.pipeline import FailurePolicy, SchemaConflict
from app.products.audits.result import (
    AuditResult,
    AuditSide,
    AuditVersions,
    Example,
    Gap,
    GapReason,
    RangeRead,
    RecordPlace,
)
from app.products.audits.specification import AuditSpecification
from workers.audit.collecting import SplitReport
from workers.audit.comparing import BucketReport, Deviation
from workers.audit.concluding import concluded
from workers.audit.references import partition_name
from workers.audit.rows import place_of
from workers.audit.splits import SplitPlan
from workers.audit.sums import BucketSums, Read

Describe = Callable[[Sequence[Deviation]], Sequence[Example]]
"""Reads the records of a few deviations again, for the data that the comparison did not keep: ids and timestamps."""


def judge(
    specification: AuditSpecification,
    plan: SplitPlan,
    splits: Iterable[SplitReport],
    buckets: Iterable[BucketReport],
    *,
    describe: Describe,
    started_at_ms: int,
    duration_ms: Callable[[], int],
    versions: AuditVersions,
) -> AuditResult:
    """The result. `buckets` and `splits` are summed as they come; of the deviations only the bounded first are kept."""
    read = Read(specification, plan)
    for split in splits:
        read.add(split)
    found = BucketSums(specification.bounds.examples)
    for bucket in buckets:
        found.add(bucket)
    certain = (*specification.doubts, *plan.gaps, *read.gaps, *read.odd_names(), *read.not_processed())
    suspicions = (*plan.suspicions, *read.untimed(), *_all_lost(plan, read, found), *_refused(specification))
    gaps = (*certain, *found.explained_by(suspicions, beside=certain))
    names = concluded(gaps, repeated=found.repeated)
    tallies = found.tallies(names)
    examples = [*describe(found.first()), *read.examples()]
    return AuditResult(
        audit_id=specification.audit_id,
        counts=msgspec.structs.replace(read.counts(found), **tallies),
        examples=tuple(msgspec.structs.replace(one, finding=names.get(one.finding, one.finding)) for one in examples),
        partitions=(*found.by_partition(plan.ranges, names), *read.dangling()),
        ranges=tuple(read.ranges()),
        gaps=gaps,
        started_at_ms=started_at_ms,
        duration_ms=duration_ms(),
        versions=versions,
    )


def _all_lost(plan: SplitPlan, read: Read, found: BucketSums) -> Iterable[Gap]:
    """Gaps for partitions without any output, of a topic that begins in the read range: the offset may be another
    log's."""
    begun = {gap.topic for gap in plan.suspicions if gap.reason is GapReason.BEGINS}
    for number, one in enumerate(plan.ranges):
        expected = read.expected(number)
        if one.side is AuditSide.SOURCE and one.topic in begun and 0 < expected == found.lost_at(number):
            name = partition_name(one.topic, one.partition)
            yield Gap(
                side=AuditSide.SOURCE,
                topic=one.topic,
                partition=one.partition,
                reason=GapReason.MADE_ANEW,
                sentence=f"{one.topic} begins in what was read, and no output of {name} exists. If the topic was "
                "recreated, the group's offset may be the old one's, and none of its records may be processed.",
            )


def _refused(specification: AuditSpecification) -> Iterable[Gap]:
    """Without dead letters, outputs that a file refuses for their types cannot be distinguished from lost ones."""
    files = specification.files
    if (
        files is not None
        and files.schema is None
        and files.conflict is SchemaConflict.BAD_RECORD
        and specification.errors.policy is FailurePolicy.SKIP
    ):
        yield Gap(
            side=AuditSide.SINK,
            topic=specification.sink_topic,
            partition=None,
            reason=GapReason.TYPES_REFUSED,
            sentence="The pipeline skips records whose types conflict with earlier ones in their file, and keeps no "
            "list of them: the missing ones may be those. Use dead letters to record them.",
        )


def places(words: Iterable[int], ranges: Sequence[RangeRead]) -> tuple[RecordPlace, ...]:
    """The records with these words."""
    found: list[RecordPlace] = []
    for word in words:
        number, offset = place_of(word)
        found.append(RecordPlace(topic=ranges[number].topic, partition=ranges[number].partition, offset=offset))
    return tuple(found)
