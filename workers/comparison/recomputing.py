"""The range of a recomputation: the source offsets that are read, and the rows that depend on no record beyond them.

A record beyond the range may belong to any window, as far as its event time goes. Two facts bound it:

    the padding      within a partition, no record is older by event time than an earlier one by more than the padding.
                     So the first record read bounds those before it, and the last one bounds those behind it.
    the checkpoint   the newest committed batch of the query has the offsets that are processed, and the watermark: each
                     window that ends by then is committed, and a record behind these offsets does not change it.

The padding is at least the watermark's delay. Records that are further out of order are seen in what was read: they are
a gap, since the unread ones may be so too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import DataframeQuery
from app.products.audits.result import AuditSide, EventTimes, Gap, GapReason, RangeRead
from app.products.audits.specification import AuditSpecification, Everything, OffsetWindow, TimeWindow
from workers.audit.cluster import AuditBrokers, UnresolvableError
from workers.audit.collecting import deletion_gap
from workers.audit.resolving import matters, partitions_of, settings_gaps, settled
from workers.audit.splits import SplitPlan
from workers.comparison.fields import FIRST_MS, LAST_MS
from workers.comparison.recomputable import NotRecomputableError, Recomputable

_FORMAT = "v1"


class CommittedBatch(NamedTuple):
    """The newest batch that the query has committed: the ends of its offsets, and its watermark (0: none yet)."""

    ends: dict[Partition, int]
    watermark_ms: int


class _Metadata(msgspec.Struct, rename="camel"):
    batch_watermark_ms: int = 0


def committed_batch(entry: str) -> CommittedBatch:
    """Decode an entry of the checkpoint's offset log.

    Source: org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog, Spark 4.2: the version, the metadata,
    and the offsets of each source, a line each.

    Raises NotRecomputableError for another format.
    """
    version, _, rest = entry.partition("\n")
    if version != _FORMAT:
        raise NotRecomputableError(f"the offset log of the checkpoint has the unknown format {version[:20]}")
    first, *others = rest.splitlines() or [""]
    try:
        metadata = msgspec.json.decode(first, type=_Metadata)
        sources = [msgspec.json.decode(line, type=dict[str, dict[str, int]]) for line in others if line != "-"]
    except ValueError as error:
        raise NotRecomputableError(f"the offset log of the checkpoint cannot be read: {error}") from error
    ends: dict[Partition, int] = {}
    for source in sources:
        for topic, partitions in source.items():
            for partition, end in partitions.items():
                at = Partition(topic, int(partition))
                # Two streams may read a topic: the end of the slower one counts.
                ends[at] = min(end, ends.get(at, end))
    return CommittedBatch(ends=ends, watermark_ms=metadata.batch_watermark_ms)


def padding_of(specification: AuditSpecification, query: DataframeQuery) -> int:
    """Return the padding in milliseconds: at least the watermark's delay, which the query takes for usual."""
    return max(specification.padding_ms, *(stream.watermark_ms or 0 for stream in query.streams))


def resolve_range(
    specification: AuditSpecification,
    brokers: AuditBrokers,
    committed: CommittedBatch,
    *,
    rules: Recomputable,
    padding_ms: int,
    is_timed: bool,
) -> SplitPlan:
    """Return the offsets of the source that the batch reads, and those of the sink from their first output on.

    A window of time is of the source records' timestamps. The range begins earlier, so that the comparable rows of
    neighbouring windows follow each other.

    Args:
        is_timed: the query sets the timestamps of outputs, so they are in no relation to the time of writing.

    Raises:
        UnresolvableError: a topic does not exist, or a window of offsets names not all partitions.
    """
    source = partitions_of(brokers, specification.source_topics)
    sink = partitions_of(brokers, specification.sink_topics)
    sink_ends, open_gaps = settled(AuditSide.SINK, sink, brokers, specification)
    begins = brokers.beginnings([*source, *sink])
    since_ms: int | None = None
    match specification.window:
        case Everything():
            bounds = {at: (begins[at], begins[at], committed.ends.get(at, begins[at])) for at in source}
        case TimeWindow(start_ms=start_ms, end_ms=end_ms):
            since_ms = max(0, start_ms - 2 * (padding_ms + rules.window_ms))
            times = [brokers.at_time(source, max(0, at_ms)) for at_ms in (since_ms, start_ms, end_ms)]
            ends = {at: committed.ends.get(at, begins[at]) for at in source}
            bounds = {at: tuple(ends[at] if (one := found[at]) is None else one for found in times) for at in source}
        case OffsetWindow(ranges=named):
            by_partition = {Partition(one.topic, one.partition): (one.start, one.start, one.end) for one in named}
            for at in source:
                if at not in by_partition:
                    raise UnresolvableError(f"the window has no offsets of {at}; name all partitions of the source")
            bounds = {at: by_partition[at] for at in source}
            known = [at_ms for at in source if (at_ms := brokers.time_at(at, bounds[at][0])) is not None]
            since_ms = min(known, default=None)
    ranges = [_source_range(at, bounds[at], begins[at], committed) for at in source]
    starts: Mapping[Partition, int | None] = begins
    if since_ms is not None and not is_timed:
        # The clocks of brokers and producers may differ by the padding.
        starts = brokers.at_time(sink, max(0, since_ms - specification.padding_ms))
    for at in sink:
        end, begin = sink_ends[at], min(begins[at], sink_ends[at])
        start = end if (found := starts[at]) is None else min(max(found, begin), end)
        ranges.append(_range(AuditSide.SINK, at, start, start, end))
    settings = {topic: brokers.settings(topic) for topic in (*specification.source_topics, *specification.sink_topics)}
    deleted = (
        deletion_gap(one.side, one.topic, one.partition, None, one.read_start)
        for one in ranges
        if one.side is AuditSide.SINK and 0 < one.read_start <= begins[Partition(one.topic, one.partition)]
    )
    late = _late_gaps(specification, since_ms)
    gaps = (
        *late,
        *deleted,
        *(gap for gap in open_gaps if matters(gap, ranges)),
        *settings_gaps(specification, settings),
    )
    return SplitPlan(ranges=tuple(ranges), gaps=gaps, tells_pending=False)


def _late_gaps(specification: AuditSpecification, since_ms: int | None) -> Iterator[Gap]:
    """Yield a gap if the query has dropped late rows since the range began: the batch has them all the same."""
    since = 0 if since_ms is None else since_ms - specification.padding_ms
    rows = sum(one.rows for one in specification.late_batches if one.ended_at_ms >= since)
    if rows:
        number = f"{rows:,} late row{'' if rows == 1 else 's'}"
        yield Gap(
            side=AuditSide.SOURCE,
            topic=specification.source_topics[0],
            partition=None,
            reason=GapReason.LATE_ROWS,
            sentence=f"The watermark has dropped {number} that the recomputation has, so its rows may differ.",
        )


def _source_range(at: Partition, bounds: tuple[int, ...], begin: int, committed: CommittedBatch) -> RangeRead:
    """Return the range up to the committed end: no later record is in an output that must exist."""
    most = max(begin, committed.ends.get(at, begin))
    read_start, start, end = (min(max(bound, begin), most) for bound in bounds)
    return _range(AuditSide.SOURCE, at, read_start, max(read_start, start), max(read_start, end))


def _range(side: AuditSide, at: Partition, read_start: int, start: int, end: int) -> RangeRead:
    return RangeRead(
        side=side, topic=at.topic, partition=at.partition, read_start=read_start, start=start, end=end, read_end=end
    )


class TimesRead(NamedTuple):
    """The event times of a partition's records in one stream, in milliseconds: of its first and last record, and all.

    Records without an event time are left out.
    """

    at: Partition
    first_ms: int
    last_ms: int
    least_ms: int
    most_ms: int


class ComparableRows(NamedTuple):
    """times: of the comparable rows. span: of all rows that the batch may have. gaps: why others may be wrong."""

    times: EventTimes
    span: tuple[int, int]
    gaps: tuple[Gap, ...]

    @property
    def window(self) -> TimeWindow:
        """Return the times as the window of a comparison."""
        start_ms, end_ms = self.times.start_ms, self.times.end_ms
        return TimeWindow(
            start_ms=FIRST_MS if start_ms is None else max(FIRST_MS, start_ms),
            end_ms=LAST_MS if end_ms is None else min(LAST_MS, end_ms),
        )


def comparable_rows(
    ranges: Sequence[RangeRead],
    read: Sequence[TimesRead],
    committed: CommittedBatch,
    *,
    rules: Recomputable,
    padding_ms: int,
) -> ComparableRows:
    """Return the event times of the rows that have all their records in the range and are final.

    A row's time may be the start or the end of its window, or a time in it. Rows without windows are committed with
    their record, so those of records behind the committed offsets may be in the output too.
    """
    starts: list[int] = []
    ends = [committed.watermark_ms] if rules.is_windowed else []
    gaps: list[Gap] = []
    is_bounded = True
    for one in ranges:
        if one.side is not AuditSide.SOURCE:
            continue
        at = Partition(one.topic, one.partition)
        is_begun = one.read_start == 0
        is_ended = rules.is_windowed and one.read_end >= committed.ends.get(at, 0)
        if is_begun and is_ended:
            continue
        of_partition = [times for times in read if times.at == at]
        is_bounded = is_bounded and bool(of_partition)
        if not of_partition:
            gaps.append(_unbounded(at, "has no record with an event time in the range"))
        for times in of_partition:
            if not is_begun:
                starts.append(times.first_ms + padding_ms + 1)
            if not is_ended:
                ends.append(times.last_ms - padding_ms)
            is_too_early = not is_begun and times.least_ms < times.first_ms - padding_ms
            if is_too_early or (not is_ended and times.most_ms > times.last_ms + padding_ms):
                gaps.append(_unbounded(at, "has event times that are out of order by more than the padding"))
    length_ms = rules.window_ms
    times = EventTimes(
        start_ms=max(starts) + length_ms if starts else None, end_ms=min(ends) - length_ms + 1 if ends else None
    )
    if not is_bounded:
        times = EventTimes(start_ms=LAST_MS, end_ms=LAST_MS)
    span = (
        min((one.least_ms for one in read), default=FIRST_MS) - length_ms,
        max((one.most_ms for one in read), default=LAST_MS) + length_ms,
    )
    return ComparableRows(times=times, span=span, gaps=tuple(gaps))


def _unbounded(at: Partition, what: str) -> Gap:
    return Gap(
        side=AuditSide.SOURCE,
        topic=at.topic,
        partition=at.partition,
        reason=GapReason.UNBOUNDED,
        sentence=f"{at} {what}. Choose a larger range or padding.",
    )
