"""The offsets of the window and its padding in each partition, and their gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.core.clusters.partition import Partition
from app.products.audits.comparison import Comparison
from app.products.audits.result import AuditSide, Gap, GapReason, RangeRead
from app.products.audits.specification import AuditSpecification, Everything, OffsetWindow, TimeWindow
from workers.audit.cluster import AuditBrokers, UnresolvableError
from workers.audit.collecting import deletion_gap
from workers.audit.references import ReferenceScope, partition_name
from workers.audit.splits import FileWork


def begins(ranges: Iterable[RangeRead]) -> list[Gap]:
    """Gaps for source topics of which all partitions begin in the read range: earlier records may have outputs."""
    begun: dict[str, bool] = {}
    for one in ranges:
        if one.side is AuditSide.SOURCE:
            begun[one.topic] = begun.get(one.topic, True) and one.read_start == 0
    return [
        Gap(
            side=AuditSide.SOURCE,
            topic=topic,
            partition=None,
            reason=GapReason.BEGINS,
            sentence=f"{topic} begins in what was read. If it was deleted and recreated there, outputs of its earlier "
            "records have no input any more.",
        )
        for topic, has_begun in begun.items()
        if has_begun
    ]


class WindowBounds:
    """The begin and the end of each partition's window and padding. `*_ends`: the latest end of reading.

    appended: the sinks whose records carry the time of writing. Their records are read until long after the window,
    since the pipeline may have been behind. The source is read as far as such outputs may have inputs.
    referring: the sink that holds references, which carry the time of writing too; each names its inputs.
    """

    def __init__(
        self,
        brokers: AuditBrokers,
        specification: AuditSpecification,
        source: Sequence[Partition],
        sink: Sequence[Partition],
        source_ends: Mapping[Partition, int],
        sink_ends: Mapping[Partition, int],
        appended: frozenset[str],
        referring: str | None,
    ) -> None:
        self._brokers = brokers
        self._specification = specification
        self._source = source
        self._sink = sink
        self._ends = {**source_ends, **sink_ends}
        self._appended = appended
        self._referring = referring
        self._late_from: dict[str, int] = {}
        self._beginnings = brokers.beginnings([*source, *sink])

    def ranges(self) -> tuple[list[RangeRead], list[Gap]]:
        match self._specification.window:
            case Everything():
                begun = {at: self._beginnings[at] for at in self._ends}
                ranges = [self._range(at, begun[at], begun[at], self._ends[at], self._ends[at]) for at in begun]
                return ranges, self._deleted(ranges)
            case TimeWindow(start_ms=start_ms, end_ms=end_ms):
                return self._by_time(start_ms, end_ms, {})
            case OffsetWindow() as window:
                return self._by_offsets(window)

    def _by_time(
        self, start_ms: int, end_ms: int, named: Mapping[Partition, tuple[int, int]]
    ) -> tuple[list[RangeRead], list[Gap]]:
        if self._specification.comparison is not None:
            return self._compared(self._specification.comparison, start_ms, end_ms)
        padding_ms = self._specification.padding_ms
        behind_ms = max(padding_ms, _MOST_BEHIND_MS)
        after_ms = 2 * padding_ms if not self._appended else padding_ms + behind_ms
        timely = [at for at in self._sink if at.topic not in self._appended and at.topic != self._referring]
        appended = [at for at in self._sink if at.topic in self._appended]
        referring = [at for at in self._sink if at.topic == self._referring]
        before_ms = start_ms - padding_ms
        source = (before_ms - padding_ms, start_ms, end_ms, end_ms + after_ms)
        ranges = [
            *self._timed(self._source, source, named, is_named=bool(named)),
            *self._timed(timely, (before_ms, start_ms, end_ms, end_ms + padding_ms), {}, is_named=False),
            *self._timed(
                [*appended, *referring], (before_ms, start_ms, end_ms, end_ms + behind_ms), {}, is_named=False
            ),
        ]
        late_from = self._brokers.at_time(referring, max(0, end_ms + padding_ms))
        self._late_from = {str(at): self._within(at, late_from[at]) for at in referring}
        return ranges, self._deleted(ranges)

    def _compared(self, comparison: Comparison, start_ms: int, end_ms: int) -> tuple[list[RangeRead], list[Gap]]:
        """The offsets of both sides. No record is written before its time, so a field's time may lie far behind."""
        ranges: list[RangeRead] = []
        for side, padding_ms, field in (
            (self._source, 2 * self._specification.padding_ms, comparison.baseline_time_field),
            (self._sink, self._specification.padding_ms, comparison.time_field),
        ):
            times = (start_ms - padding_ms, start_ms, end_ms, end_ms + padding_ms)
            for one in self._timed(side, times, {}, is_named=False):
                end = self._ends[Partition(one.topic, one.partition)]
                ranges.append(one if field is None else msgspec.structs.replace(one, read_end=end))
        return ranges, self._deleted(ranges)

    def files(self, ranges: Sequence[RangeRead]) -> FileWork | None:
        """The known facts about files before any reference is read; None: outputs are in no files."""
        if self._referring is None:
            return None
        return FileWork(
            numbers=frozenset(number for number, one in enumerate(ranges) if self._refers(one)),
            scope=ReferenceScope(
                window={
                    partition_name(one.topic, one.partition): (one.start, one.end)
                    for one in ranges
                    if one.side is AuditSide.SOURCE and self._specification.comparison is None
                },
                late_from=self._late_from,
            ),
            limits={str(at): (min(self._beginnings[at], self._ends[at]), self._ends[at]) for at in self._source},
        )

    def _refers(self, one: RangeRead) -> bool:
        return one.side is AuditSide.SINK and one.topic == self._referring

    def written_later(self, ranges: Iterable[RangeRead]) -> list[Gap]:
        """Gaps from the time of writing: earlier inputs, and outputs behind the read range."""
        gaps: dict[str, list[Gap]] = {topic: [] for topic in self._specification.sink_topics if topic in self._appended}
        for topic, of_topic in gaps.items():
            sentence = (
                f"Records of {topic} carry the time of writing. Where the pipeline was further behind than the padding "
                "when the window began, outputs in it are of earlier inputs, not read. Audit with more padding."
            )
            of_topic.append(_time_gap(AuditSide.SOURCE, topic, sentence))
            if any(one.topic == topic and one.read_end < self._ends[Partition(topic, one.partition)] for one in ranges):
                sentence = (
                    f"Records of {topic} carry the time of writing, and those written more than a day after the "
                    "window were not read. Audit with more padding."
                )
                of_topic.append(_time_gap(AuditSide.SINK, topic, sentence))
        return [*(gap for of_topic in gaps.values() for gap in of_topic), *self._referred_later(ranges)]

    def _referred_later(self, ranges: Iterable[RangeRead]) -> list[Gap]:
        if all(one.read_end >= self._ends[Partition(one.topic, one.partition)] for one in ranges if self._refers(one)):
            return []
        sentence = (
            f"References in {self._referring} that were committed more than a day after the window were not read, "
            "and may be to files of its input. Audit with more padding."
        )
        return [_time_gap(AuditSide.SINK, self._referring or "", sentence)]

    def _timed(
        self,
        partitions: Sequence[Partition],
        times: tuple[int, int, int, int],
        named: Mapping[Partition, tuple[int, int]],
        *,
        is_named: bool,
    ) -> list[RangeRead]:
        """times: the begin of reading, the window's begin and end, and the end of reading."""
        found = [self._brokers.at_time(partitions, max(0, at_ms)) for at_ms in times]
        ranges: list[RangeRead] = []
        for at in partitions:
            read_start, start, end, read_end = (self._within(at, offsets[at]) for offsets in found)
            if is_named:
                start, end = named.get(at, (read_start, read_start))
            end = max(start, end)
            ranges.append(self._range(at, min(read_start, start), start, end, max(read_end, end)))
        return ranges

    def _by_offsets(self, window: OffsetWindow) -> tuple[list[RangeRead], list[Gap]]:
        named: dict[Partition, tuple[int, int]] = {}
        gaps: list[Gap] = []
        times: list[int] = []
        for one in window.ranges:
            at = Partition(one.topic, one.partition)
            if at not in self._source:
                raise UnresolvableError(f"{at} is no partition of the pipeline's source; name one that it reads")
            start, end = self._within(at, one.start), self._within(at, one.end)
            named[at] = start, end
            if one.start < self._beginnings[at]:
                gaps.append(deletion_gap(AuditSide.SOURCE, *at, None, self._beginnings[at]))
            times += [time for time in (self._brokers.time_at(at, start),) if time is not None and start < end]
            until = self._brokers.time_at(at, end)
            times += [_NEVER if until is None else until] if start < end else []
        if not times:
            ranges = [self._range(at, *([named.get(at, (0, 0))[0]] * 4)) for at in (*self._source, *self._sink)]
            return ranges, gaps
        ranges, deleted = self._by_time(min(times), max(times), named)
        # Also those of the source's padding: outputs of deleted inputs lie in the window, and have no input any more.
        return ranges, list(dict.fromkeys((*gaps, *deleted)))

    def _within(self, at: Partition, offset: int | None) -> int:
        end = self._ends[at]
        return end if offset is None else max(min(offset, end), min(self._beginnings[at], end))

    def _range(self, at: Partition, read_start: int, start: int, end: int, read_end: int) -> RangeRead:
        return RangeRead(
            side=AuditSide.SOURCE if at in self._source else AuditSide.SINK,
            topic=at.topic,
            partition=at.partition,
            read_start=read_start,
            start=start,
            end=end,
            read_end=read_end,
        )

    def _deleted(self, ranges: Iterable[RangeRead]) -> list[Gap]:
        """Gaps for ranges that begin with the log, if that is not its first offset: earlier records may be deleted."""
        return [
            deletion_gap(one.side, one.topic, one.partition, None, one.read_start, is_of_files=self._refers(one))
            for one in ranges
            if 0 < one.read_start <= self._beginnings[Partition(one.topic, one.partition)]
        ]


_MOST_BEHIND_MS = 24 * 3_600_000
"""The time after the window for which sinks with the time of writing are read; most pipelines have caught up then."""
_NEVER = 1 << 45
"""Later than any record; within the brokers' range of times."""


def _time_gap(side: AuditSide, topic: str, sentence: str) -> Gap:
    return Gap(side=side, topic=topic, partition=None, reason=GapReason.TIME_OF_WRITING, sentence=sentence)
