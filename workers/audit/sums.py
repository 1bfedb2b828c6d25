"""The sums of all tasks' reports; of data that grow with the findings only the first are kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from app.products.audits.result import (
    AuditCounts,
    AuditSide,
    Example,
    FindingTally,
    Gap,
    GapReason,
    IdFinding,
    PartitionTally,
    RangeRead,
)
from app.products.audits.specification import AuditSpecification, Everything
from workers.audit.collecting import SplitReport
from workers.audit.comparing import BucketReport, Deviation, first_place
from workers.audit.concluding import concluded
from workers.audit.expecting import Fate
from workers.audit.references import partition_name
from workers.audit.splits import SplitPlan


class Read:
    """The sum of the splits' reports."""

    def __init__(self, specification: AuditSpecification, plan: SplitPlan) -> None:
        self._plan = plan
        self._sink_topic = specification.sink_topic
        self._is_of_files = specification.files is not None
        self._is_by_time = not isinstance(specification.window, Everything)
        self._most = specification.bounds.examples
        self._reports: defaultdict[int, SplitReport] = defaultdict(lambda: SplitReport(number=-1))
        self._fates: Counter[str] = Counter()
        self._examples: list[Example] = []
        self.gaps: list[Gap] = []

    def add(self, report: SplitReport) -> None:
        total = self._reports[report.number]
        total.records += report.records
        total.window_records += report.window_records
        total.pending += report.pending
        total.expected += report.expected
        total.elsewhere += report.elsewhere
        total.untimed += report.untimed
        total.odd_names += report.odd_names
        total.unreadable += report.unreadable
        total.files += report.files
        total.dangling += report.dangling
        total.dangling_records += report.dangling_records
        self._fates.update(report.fates)
        self._examples += report.examples
        self.gaps += report.gaps

    def examples(self) -> list[Example]:
        def place(example: Example) -> tuple[str, int, int]:
            (one,) = example.inputs or example.outputs
            return one.topic, one.partition, one.offset

        kept: list[Example] = []
        for finding in (IdFinding.UNREADABLE_INPUT, IdFinding.UNREADABLE_OUTPUT, IdFinding.DANGLING):
            of_kind = [example for example in self._examples if example.finding is finding]
            kept += sorted(of_kind, key=place)[: self._most]
        return kept

    def ranges(self) -> Iterable[RangeRead]:
        for number, one in enumerate(self._plan.ranges):
            yield msgspec.structs.replace(one, records=self._reports[number].records)

    def not_processed(self) -> Iterable[Gap]:
        """Input of the window that the pipeline has not committed; behind it there may be control records alone."""
        if not self._plan.tells_pending:
            return
        for number, one in enumerate(self._plan.ranges):
            pending = self._reports[number].pending
            if one.side is not AuditSide.SOURCE or not pending:
                continue
            name = partition_name(one.topic, one.partition)
            committed = max(one.start, self._plan.committed.get(name, 0))
            yield Gap(
                side=AuditSide.SOURCE,
                topic=one.topic,
                partition=one.partition,
                reason=GapReason.NOT_PROCESSED,
                start=committed,
                end=one.end,
                sentence=f"The pipeline has committed {name} up to offset {committed}; {pending} later records of "
                "the window were not judged.",
            )

    def odd_names(self) -> Iterable[Gap]:
        """Records that were not compared, since a header name is not UTF-8."""
        for number, one in enumerate(self._plan.ranges):
            count = self._reports[number].odd_names
            if count:
                yield Gap(
                    side=one.side,
                    topic=one.topic,
                    partition=one.partition,
                    reason=GapReason.HEADER_NAMES,
                    sentence=f"{count} records of {partition_name(one.topic, one.partition)} have a header name "
                    "that is not UTF-8. Native records carry it, Python objects cannot, so they were not compared.",
                )

    def expected(self, number: int) -> int:
        """The number of outputs that the window of this partition requires."""
        return self._reports[number].expected

    def untimed(self) -> Iterable[Gap]:
        """Gaps where the transform gives outputs no timestamp: no time bounds their place then."""
        if not self._is_by_time or not any(report.untimed for report in self._reports.values()):
            return
        for side, what in (
            (AuditSide.SINK, "outputs lie outside of what was read"),
            (AuditSide.SOURCE, "outputs in the window are of earlier inputs, not read"),
        ):
            yield Gap(
                side=side,
                topic=self._sink_topic,
                partition=None,
                reason=GapReason.TIME_OF_WRITING,
                sentence="The transform makes outputs without a timestamp, which then carry the time of writing. Where "
                f"the pipeline was further behind than the padding, {what}. Audit with more padding.",
            )

    def counts(self, found: BucketSums) -> AuditCounts:
        source = [self._reports[n] for n, one in enumerate(self._plan.ranges) if one.side is AuditSide.SOURCE]
        sink = [self._reports[n] for n, one in enumerate(self._plan.ranges) if one.side is AuditSide.SINK]
        return AuditCounts(
            inputs=sum(one.window_records for one in source),
            pending=sum(one.pending for one in source),
            dropped=self._fates[Fate.DROPPED.value],
            skipped=self._fates[Fate.SKIPPED.value],
            dead_lettered=self._fates[Fate.DEAD_LETTERED.value],
            stopping=self._fates[Fate.STOPPING.value],
            undelivered=found.undelivered,
            expected=sum(one.expected for one in source),
            elsewhere=sum(one.elsewhere for one in source),
            outputs=sum(one.window_records for one in sink),
            repeated=found.repeated,
            unreadable_input=sum(one.unreadable for one in source),
            unreadable_output=sum(one.unreadable for one in sink),
            files=sum(one.files for one in sink) if self._is_of_files else None,
            dangling=FindingTally(
                ids=sum(one.dangling for one in sink), records=sum(one.dangling_records for one in sink)
            ),
        )

    def dangling(self) -> Iterable[PartitionTally]:
        """References without their file, by the partition of the references."""
        for number, one in enumerate(self._plan.ranges):
            if self._reports[number].dangling:
                yield PartitionTally(
                    side=one.side,
                    topic=one.topic,
                    partition=one.partition,
                    finding=IdFinding.DANGLING,
                    records=self._reports[number].dangling_records,
                )


class BucketSums:
    """The sum of the buckets' reports."""

    def __init__(self, examples: int) -> None:
        self._most = examples
        self._ids: Counter[str] = Counter()
        self._records: Counter[str] = Counter()
        self._partitions: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._deviations: defaultdict[IdFinding, list[Deviation]] = defaultdict(list)
        self.repeated = 0
        self.undelivered = 0

    def add(self, report: BucketReport) -> None:
        self.repeated += report.repeated
        self.undelivered += report.undelivered
        self._ids.update(report.ids)
        self._records.update(report.records)
        for finding, numbers in report.partitions.items():
            self._partitions[finding].update(numbers)
        for deviation in report.deviations:
            self._deviations[deviation.finding].append(deviation)
        for several in self._deviations.values():
            several.sort(key=first_place)
            del several[self._most :]

    def explained_by(self, suspicions: Iterable[Gap], *, beside: Sequence[Gap]) -> Iterable[Gap]:
        """The suspicions that explain a finding; without a finding there are none."""
        proven = concluded(beside, repeated=self.repeated)
        for gap in suspicions:
            names = concluded((*beside, gap), repeated=self.repeated)
            if any(self._ids[finding] and proven.get(finding) is not name for finding, name in names.items()):
                yield gap

    def lost_at(self, number: int) -> int:
        """The number of lost outputs of this partition's inputs."""
        return self._partitions[IdFinding.LOST][number]

    def first(self) -> list[Deviation]:
        return [deviation for finding in IdFinding for deviation in self._deviations.get(finding, ())]

    def tallies(self, names: dict[IdFinding, IdFinding]) -> dict[str, FindingTally]:
        tallies: dict[str, FindingTally] = {}
        for finding in IdFinding:
            if not self._ids[finding]:
                continue
            name = names.get(finding, finding).value
            before = tallies.get(name, FindingTally())
            tallies[name] = FindingTally(
                ids=before.ids + self._ids[finding], records=before.records + self._records[finding]
            )
        return tallies

    def by_partition(self, ranges: Sequence[RangeRead], names: dict[IdFinding, IdFinding]) -> Iterable[PartitionTally]:
        summed: Counter[tuple[IdFinding, int]] = Counter()
        for finding, numbers in self._partitions.items():
            name = names.get(IdFinding(finding), IdFinding(finding))
            for number, records in numbers.items():
                summed[name, number] += records
        order = list(IdFinding)
        for finding, number in sorted(summed, key=lambda at: (order.index(at[0]), at[1])):
            one, records = ranges[number], summed[finding, number]
            yield PartitionTally(
                side=one.side, topic=one.topic, partition=one.partition, finding=finding, records=records
            )
