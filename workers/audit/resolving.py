"""From a window to offsets, in an order that makes what is compared belong together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from app.domain.audits.result import Gap, GapReason, RangeRead, Side
from app.domain.audits.specification import AuditSpecification, Everything, OffsetWindow, TimeWindow
from workers.audit.collecting import deletion_gap
from workers.audit.splits import Plan, partition_name

Partition = tuple[str, int]
_LOOK_EVERY_S = 0.2


class UnresolvableError(Exception):
    """The window cannot become offsets: a topic or a partition is not there. The message names it."""


class TopicSettings(NamedTuple):
    """is_compacted: records go once a later one has their key. has_append_time: they carry the time of writing."""

    is_compacted: bool = False
    has_append_time: bool = False


_USUAL = TopicSettings()


class Brokers(Protocol):
    """What is asked of the cluster. Every call may raise AuditReadError."""

    def partitions(self, topic: str) -> Sequence[int]:
        """Those of the topic; none: it does not exist."""
        ...

    def settings(self, topic: str) -> TopicSettings | None:
        """None: they may not be asked."""
        ...

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> Mapping[Partition, int | None]:
        """Offsets that the group has committed, without what a transaction has not decided yet."""
        ...

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def last_stable(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def high_watermarks(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def at_time(self, partitions: Iterable[Partition], at_ms: int) -> Mapping[Partition, int | None]:
        """The first offset of a record that is not older; None: there is none yet."""
        ...

    def time_at(self, partition: Partition, offset: int) -> int | None:
        """When the first record at or after this offset was written; None: there is none yet."""
        ...


def resolve(
    specification: AuditSpecification,
    brokers: Brokers,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Plan:
    """The offsets to read.

    1. what the group has committed   of these inputs, and no others, the outputs are in the log by now
    2. the sinks' ends                as high watermarks: the outputs of 1 lie below, committed or about to be
    3. wait for the sinks             until readers of committed records get that far: another transaction, open since
                                      before, hides what was committed behind it, and so would make it look lost
    4. the source's ends              last, so that whatever was found in a sink has its input in what is read

    Waiting is bounded; where readers still wait then, the range ends at the last stable offset, with a gap.

    Raises:
        UnresolvableError: a topic does not exist, or the window names a partition that does not.
    """
    source = _partitions(brokers, specification.source_topics)
    sink = _partitions(brokers, specification.sink_topics)
    committed = None if specification.group_id is None else brokers.committed(specification.group_id, source)
    sink_ends, sink_gaps = _settled(Side.SINK, sink, brokers, specification, clock=clock, sleep=sleep)
    is_everything = isinstance(specification.window, Everything)
    if is_everything:
        # What is open in the source is not to be processed yet, and never was part of anything.
        source_ends, source_gaps = dict(brokers.last_stable(source)), []
    else:
        source_ends, source_gaps = _settled(Side.SOURCE, source, brokers, specification, clock=clock, sleep=sleep)
    settings = {topic: brokers.settings(topic) for topic in (*specification.source_topics, *specification.sink_topics)}
    appended = frozenset(topic for topic in specification.sink_topics if (settings[topic] or _USUAL).has_append_time)
    bounds = _Bounds(brokers, specification, source, sink, source_ends, sink_ends, appended)
    ranges, gaps = bounds.ranges()
    held_back = [gap for gap in (*source_gaps, *sink_gaps) if _matters(gap, ranges)]
    return Plan(
        ranges=tuple(ranges),
        gaps=(*gaps, *held_back, *_unlike(committed or {}, source_ends), *_settings_gaps(specification, settings)),
        suspicions=() if is_everything else (*bounds.begins(ranges), *bounds.written_later(ranges)),
        # A partition without a committed offset: nothing of it has been processed.
        committed={partition_name(*at): offset or 0 for at, offset in (committed or {}).items()},
        tells_pending=not is_everything,
    )


class _Bounds:
    """Where each partition's window and padding begin and end. `*_ends`: where reading ends at the latest.

    appended: the sinks whose records carry the time of writing. Of these what was written until long after the window
    is read, since the pipeline may have been behind, and of the source what such outputs may be of.
    """

    def __init__(
        self,
        brokers: Brokers,
        specification: AuditSpecification,
        source: Sequence[Partition],
        sink: Sequence[Partition],
        source_ends: Mapping[Partition, int],
        sink_ends: Mapping[Partition, int],
        appended: frozenset[str],
    ) -> None:
        self._brokers = brokers
        self._specification = specification
        self._source = source
        self._sink = sink
        self._ends = {**source_ends, **sink_ends}
        self._appended = appended
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
        padding_ms = self._specification.padding_ms
        behind_ms = max(padding_ms, _MOST_BEHIND_MS)
        after_ms = 2 * padding_ms if not self._appended else padding_ms + behind_ms
        timely = [at for at in self._sink if at[0] not in self._appended]
        appended = [at for at in self._sink if at[0] in self._appended]
        before_ms = start_ms - padding_ms
        source = (before_ms - padding_ms, start_ms, end_ms, end_ms + after_ms)
        ranges = [
            *self._timed(self._source, source, named, is_named=bool(named)),
            *self._timed(timely, (before_ms, start_ms, end_ms, end_ms + padding_ms), {}, is_named=False),
            *self._timed(appended, (before_ms, start_ms, end_ms, end_ms + behind_ms), {}, is_named=False),
        ]
        return ranges, self._deleted(ranges)

    def begins(self, ranges: Iterable[RangeRead]) -> list[Gap]:
        """Source topics of which all partitions begin in what is read: what was before them may have outputs."""
        begun = {topic: True for topic, _ in self._source}
        for one in ranges:
            if one.side is Side.SOURCE:
                begun[one.topic] &= one.read_start == 0
        return [
            Gap(
                side=Side.SOURCE,
                topic=topic,
                partition=None,
                reason=GapReason.BEGINS,
                sentence=f"{topic} begins in what was read: if it was deleted and made anew there, outputs of what was "
                "in it before have no input any more.",
            )
            for topic, has_begun in begun.items()
            if has_begun
        ]

    def written_later(self, ranges: Iterable[RangeRead]) -> list[Gap]:
        """What the time of writing leaves open: inputs from before, and outputs from behind what is read."""
        gaps: dict[str, list[Gap]] = {topic: [] for topic in self._specification.sink_topics if topic in self._appended}
        for topic, of_topic in gaps.items():
            sentence = (
                f"Records of {topic} carry the time of writing: where the pipeline was further behind than the padding "
                "when the window began, outputs in it are of inputs from before what was read. Audit with more padding."
            )
            of_topic.append(_time_gap(Side.SOURCE, topic, sentence))
            if any(one.topic == topic and one.read_end < self._ends[topic, one.partition] for one in ranges):
                sentence = (
                    f"Records of {topic} carry the time of writing, and what was written more than a day after the "
                    "window was not read. Audit with more padding."
                )
                of_topic.append(_time_gap(Side.SINK, topic, sentence))
        return [gap for of_topic in gaps.values() for gap in of_topic]

    def _timed(
        self,
        partitions: Sequence[Partition],
        times: tuple[int, int, int, int],
        named: Mapping[Partition, tuple[int, int]],
        *,
        is_named: bool,
    ) -> list[RangeRead]:
        """times: from when on it is read, the window's begin and end, and until when it is read."""
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
            at = one.topic, one.partition
            if at not in self._source:
                raise UnresolvableError(
                    f"{partition_name(*at)} is no partition of the pipeline's source; name one that it reads"
                )
            start, end = self._within(at, one.start), self._within(at, one.end)
            named[at] = start, end
            if one.start < self._beginnings[at]:
                gaps.append(deletion_gap(Side.SOURCE, *at, None, self._beginnings[at]))
            times += [time for time in (self._brokers.time_at(at, start),) if time is not None and start < end]
            until = self._brokers.time_at(at, end)
            times += [_NEVER if until is None else until] if start < end else []
        if not times:
            ranges = [self._range(at, *([named.get(at, (0, 0))[0]] * 4)) for at in (*self._source, *self._sink)]
            return ranges, gaps
        ranges, deleted = self._by_time(min(times), max(times), named)
        # Of the source's padding, too: outputs of what is deleted there lie in the window, and have no input any more.
        return ranges, list(dict.fromkeys((*gaps, *deleted)))

    def _within(self, at: Partition, offset: int | None) -> int:
        end = self._ends[at]
        return end if offset is None else max(min(offset, end), min(self._beginnings[at], end))

    def _range(self, at: Partition, read_start: int, start: int, end: int, read_end: int) -> RangeRead:
        return RangeRead(
            side=Side.SOURCE if at in self._source else Side.SINK,
            topic=at[0],
            partition=at[1],
            read_start=read_start,
            start=start,
            end=end,
            read_end=read_end,
        )

    def _deleted(self, ranges: Iterable[RangeRead]) -> list[Gap]:
        """What begins where the log begins, while that is not its first offset, may have begun before."""
        return [
            deletion_gap(one.side, one.topic, one.partition, None, one.read_start)
            for one in ranges
            if 0 < one.read_start <= self._beginnings[one.topic, one.partition]
        ]


_MOST_BEHIND_MS = 24 * 3_600_000
"""So long after the window is read what carries the time of writing; by then most pipelines have caught up."""
_NEVER = 1 << 45
"""Later than any record; well within what the brokers take for a time."""


def _partitions(brokers: Brokers, topics: Iterable[str]) -> list[Partition]:
    found: list[Partition] = []
    for topic in topics:
        partitions = brokers.partitions(topic)
        if not partitions:
            raise UnresolvableError(f"the topic {topic} does not exist on this cluster; create it, or audit without it")
        found += [(topic, partition) for partition in sorted(partitions)]
    return found


def _settled(
    side: Side,
    partitions: Sequence[Partition],
    brokers: Brokers,
    specification: AuditSpecification,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[dict[Partition, int], list[Gap]]:
    """The ends as they are now, once readers of committed records get there; where they do not: less, with gaps."""
    wanted = dict(brokers.high_watermarks(partitions))
    deadline = clock() + specification.bounds.settle_ms / 1000
    waiting = list(partitions)
    stable: dict[Partition, int] = {}
    while True:
        stable.update(brokers.last_stable(waiting))
        waiting = [at for at in waiting if stable[at] < wanted[at]]
        if not waiting or clock() >= deadline:
            break
        sleep(_LOOK_EVERY_S)
    gaps = [_open_gap(side, at, stable[at], wanted[at]) for at in waiting]
    return {at: min(stable[at], wanted[at]) for at in partitions}, gaps


def _open_gap(side: Side, at: Partition, start: int, end: int) -> Gap:
    return Gap(
        side=side,
        topic=at[0],
        partition=at[1],
        reason=GapReason.OPEN_TRANSACTION,
        start=start,
        end=end,
        sentence=f"Readers of {partition_name(*at)} wait at offset {start} behind an open transaction; "
        f"what lies from there to {end - 1} could not be read.",
    )


def _matters(gap: Gap, ranges: Iterable[RangeRead]) -> bool:
    """Whether what could not be read was to be: a range that ends before has not missed it.

    Of the source it is the window that counts: what is in its padding and not committed yet has no output either.
    """
    return any(
        (one.topic, one.partition) == (gap.topic, gap.partition)
        and (one.end if gap.side is Side.SOURCE else one.read_end) >= (gap.start or 0)
        for one in ranges
    )


def _unlike(committed: Mapping[Partition, int | None], source_ends: Mapping[Partition, int]) -> list[Gap]:
    """Where the group's offset lies behind the log's end, it is another log's, and says nothing of this one."""
    return [
        Gap(
            side=Side.SOURCE,
            topic=at[0],
            partition=at[1],
            reason=GapReason.MADE_ANEW,
            start=source_ends[at],
            end=offset,
            sentence=f"The group has committed {partition_name(*at)} up to offset {offset}, and it ends at "
            f"{source_ends[at]}: the topic was made anew, or its log was cut, and what of it has been processed is not "
            "to be known.",
        )
        for at, offset in committed.items()
        if offset is not None and offset > source_ends[at]
    ]


def _settings_gaps(specification: AuditSpecification, settings: Mapping[str, TopicSettings | None]) -> list[Gap]:
    gaps: list[Gap] = []
    for side, topics in ((Side.SOURCE, specification.source_topics), (Side.SINK, specification.sink_topics)):
        for topic in topics:
            found = settings[topic]
            if found is not None and not found.is_compacted:
                continue
            reason, sentence = (
                (GapReason.NOT_ADMITTED, f"Whether {topic} is compacted may not be asked, so records may be gone.")
                if found is None
                else (GapReason.COMPACTED, f"{topic} is compacted: records go once a later one has their key.")
            )
            gaps.append(Gap(side=side, topic=topic, partition=None, reason=reason, sentence=sentence))
    return gaps


def _time_gap(side: Side, topic: str, sentence: str) -> Gap:
    return Gap(side=side, topic=topic, partition=None, reason=GapReason.TIME_OF_WRITING, sentence=sentence)
