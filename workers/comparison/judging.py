"""From the reports of tasks to the result of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from app.products.audits.comparison import baseline_words
from app.products.audits.result import (
    AuditResult,
    AuditSide,
    AuditVersions,
    EventTimes,
    Example,
    Gap,
    GapReason,
    RangeRead,
    RecordPlace,
)
from app.products.audits.specification import AuditSpecification
from workers.audit.collecting import SplitReport
from workers.audit.concluding import concluded, concluded_of_rows
from workers.audit.splits import SplitPlan
from workers.audit.sums import BucketSums, Read
from workers.comparison.collecting import comparison_of
from workers.comparison.comparing import Place, Rules, SideExample, SidesReport, first_examples, tallies
from workers.comparison.fields import shown_name
from workers.comparison.rows import NO_PARTITION


def rules_of(specification: AuditSpecification) -> Rules:
    return Rules(
        tolerance=comparison_of(specification).tolerance,
        padding_ms=specification.padding_ms,
        examples=specification.bounds.examples,
        places=specification.bounds.places,
    )


def judge_sides(
    specification: AuditSpecification,
    plan: SplitPlan,
    splits: Iterable[SplitReport],
    buckets: Iterable[SidesReport],
    *,
    started_at_ms: int,
    duration_ms: Callable[[], int],
    versions: AuditVersions,
    compared: EventTimes | None = None,
) -> AuditResult:
    """Return the result: where a gap could explain a finding, the finding proves nothing, as in audits.

    compared: the event times of a recomputation.
    """
    most = specification.bounds.examples
    read, other = Read(specification, plan), SplitReport(number=NO_PARTITION)
    for report in splits:
        other.fields |= report.fields
        if report.number == NO_PARTITION:
            other.records += report.records
            other.window_records += report.window_records
            other.unreadable += report.unreadable
            other.examples += report.examples
        else:
            read.add(report)
    found, fields = BucketSums(most), Counter[str]()
    examples: list[SideExample] = []
    for bucket in buckets:
        found.add(bucket.findings)
        fields.update(bucket.fields)
        examples = first_examples((*examples, *bucket.examples), most)
    counts = read.counts(found)
    of_baseline = counts.inputs + other.window_records
    gaps = (*specification.doubts, *plan.gaps, *read.gaps)
    if of_baseline or counts.outputs:
        gaps = (*gaps, *_without_field(specification, other.fields))
    is_recomputation = comparison_of(specification).is_recomputation
    names = concluded_of_rows(gaps) if is_recomputation else concluded(gaps, repeated=found.repeated)
    return AuditResult(
        audit_id=specification.audit_id,
        counts=msgspec.structs.replace(
            counts,
            inputs=of_baseline,
            expected=of_baseline,
            unreadable_input=counts.unreadable_input + other.unreadable,
            not_comparable=other.records - other.window_records if is_recomputation else 0,
            **found.tallies(names),
        ),
        examples=tuple(
            msgspec.structs.replace(one, finding=names.get(one.finding, one.finding))
            for one in (
                *(_named(example, specification, plan.ranges) for example in examples),
                *read.examples(),
                *other.examples[:most],
            )
        ),
        partitions=(*found.by_partition(plan.ranges, names), *read.dangling()),
        ranges=tuple(read.ranges()),
        gaps=gaps,
        started_at_ms=started_at_ms,
        duration_ms=duration_ms(),
        versions=versions,
        baseline=baseline_words(comparison_of(specification).baseline),
        fields=tallies(fields),
        compared=compared,
    )


def _without_field(specification: AuditSpecification, found: set[str]) -> Iterator[Gap]:
    """Yield the named fields that no record has: without them all records would be equal."""
    for name in comparison_of(specification).fields:
        if name not in found:
            yield Gap(
                side=AuditSide.SINK,
                topic=specification.sink_topic,
                partition=None,
                reason=GapReason.NO_FIELD,
                sentence=f"No record has the field {shown_name(name)}, so it was not compared.",
            )


def _named(example: SideExample, specification: AuditSpecification, ranges: Sequence[RangeRead]) -> Example:
    return Example(
        finding=example.finding,
        id=example.id,
        topic=specification.sink_topic,
        expected=example.expected,
        found=example.found,
        inputs=_places(example.inputs, ranges),
        outputs=_places(example.outputs, ranges),
        values=example.values,
        baseline_file=example.baseline_file,
    )


def _places(places: Iterable[Place], ranges: Sequence[RangeRead]) -> tuple[RecordPlace, ...]:
    return tuple(
        RecordPlace(topic=ranges[one.number].topic, partition=ranges[one.number].partition, offset=one.offset)
        for one in places
    )
