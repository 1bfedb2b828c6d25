"""From a window to offsets: in which order the cluster is asked, how far is read, and what is a gap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pytest

from app.domain.audits.result import GapReason, RangeRead, Side
from app.domain.audits.specification import AuditBounds, Everything, OffsetRange, OffsetWindow, TimeWindow, Window
from tests.support.audits import a_specification
from workers.audit.resolving import Partition, UnresolvableError, resolve

IN, OUT = ("in", 0), ("out", 0)


class Log(msgspec.Struct):
    """A partition in which offset N was written at time N * 10."""

    begin: int = 0
    stable: int = 100
    high: int = 100


class FakeBrokers:
    """`stabilises_after`: how often a last stable offset is asked for until it has reached the high watermark."""

    def __init__(self, *, stabilises_after: int | None = None, **logs: Log) -> None:
        self.logs = {("in", 0): Log(), ("out", 0): Log(), **{(topic, 0): log for topic, log in logs.items()}}
        self.group: dict[Partition, int | None] = {}
        self.compacted: dict[str, bool | None] = {}
        self.asked: list[str] = []
        self._stabilises_after = stabilises_after
        self._looks = 0

    def partitions(self, topic: str) -> Sequence[int]:
        return [partition for name, partition in self.logs if name == topic]

    def is_compacted(self, topic: str) -> bool | None:
        return self.compacted.get(topic, False)

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> Mapping[Partition, int | None]:
        self.asked.append("committed")
        return {at: self.group.get(at) for at in partitions}

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return {at: self.logs[at].begin for at in partitions}

    def last_stable(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        asked = list(partitions)
        self.asked += [f"stable {topic}" for topic, _ in asked]
        self._looks += 1
        is_stable = self._stabilises_after is not None and self._looks > self._stabilises_after
        return {at: self.logs[at].high if is_stable else self.logs[at].stable for at in asked}

    def high_watermarks(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        asked = list(partitions)
        self.asked += [f"high {topic}" for topic, _ in asked]
        return {at: self.logs[at].high for at in asked}

    def at_time(self, partitions: Iterable[Partition], at_ms: int) -> Mapping[Partition, int | None]:
        found: dict[Partition, int | None] = {}
        for at in partitions:
            log = self.logs[at]
            offset = max(log.begin, -(-at_ms // 10))
            found[at] = offset if offset < log.high else None
        return found

    def time_at(self, partition: Partition, offset: int) -> int | None:
        return offset * 10 if offset < self.logs[partition].stable else None


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def plan_of(brokers: FakeBrokers, window: Window, *, group_id: str | None = None, padding_ms: int = 50):
    clock = Clock()
    specification = a_specification(
        "in", "out", window=window, group_id=group_id, padding_ms=padding_ms, bounds=AuditBounds(settle_ms=1_000)
    )
    return resolve(specification, brokers, clock=clock, sleep=clock.sleep)


def spans(ranges: Iterable[RangeRead]) -> dict[Side, tuple[int, int, int, int]]:
    return {one.side: (one.read_start, one.start, one.end, one.read_end) for one in ranges}


def test_the_sink_is_padded_and_the_source_twice_as_far() -> None:
    plan = plan_of(FakeBrokers(), TimeWindow(start_ms=300, end_ms=600))
    assert spans(plan.ranges) == {Side.SOURCE: (20, 30, 60, 70), Side.SINK: (25, 30, 60, 65)}
    assert plan.gaps == ()


def test_what_is_committed_is_asked_before_the_sink_and_the_source_ends_last() -> None:
    brokers = FakeBrokers()
    plan_of(brokers, Everything(), group_id="group")
    assert brokers.asked == ["committed", "high out", "stable out", "stable in"]


def test_transactions_that_were_open_are_waited_for() -> None:
    plan = plan_of(FakeBrokers(stabilises_after=2, out=Log(stable=40)), Everything())
    assert plan.gaps == ()
    assert spans(plan.ranges)[Side.SINK] == (0, 0, 100, 100)


def test_one_that_stays_open_ends_what_is_read_with_a_gap() -> None:
    plan = plan_of(FakeBrokers(out=Log(stable=40)), Everything())
    assert spans(plan.ranges)[Side.SINK] == (0, 0, 40, 40)
    assert [(gap.reason, gap.topic, gap.start, gap.end) for gap in plan.gaps] == [
        (GapReason.OPEN_TRANSACTION, "out", 40, 100)
    ]


def test_one_that_is_open_behind_the_padding_does_not_matter() -> None:
    plan = plan_of(FakeBrokers(out=Log(stable=90)), TimeWindow(start_ms=300, end_ms=600))
    assert plan.gaps == ()


def test_what_begins_where_the_log_begins_may_have_begun_before() -> None:
    window = TimeWindow(start_ms=300, end_ms=600)
    plan = plan_of(FakeBrokers(out=Log(begin=28)), window)
    assert [(gap.reason, gap.topic, gap.end) for gap in plan.gaps] == [(GapReason.DELETED, "out", 28)]
    assert plan_of(FakeBrokers(out=Log(begin=20)), window).gaps == ()


def test_a_partition_without_a_committed_offset_has_not_been_processed() -> None:
    brokers = FakeBrokers()
    assert plan_of(brokers, Everything(), group_id="group").committed == {"in-0": 0}
    assert plan_of(brokers, Everything()).committed == {}


@pytest.mark.parametrize(("is_compacted", "reason"), [(True, GapReason.COMPACTED), (None, GapReason.NOT_ADMITTED)])
def test_a_compacted_topic_is_a_gap(is_compacted: bool | None, reason: GapReason) -> None:
    brokers = FakeBrokers()
    brokers.compacted["out"] = is_compacted
    assert [(gap.reason, gap.topic) for gap in plan_of(brokers, Everything()).gaps] == [(reason, "out")]


def test_offsets_are_taken_as_they_are_and_the_sink_is_found_by_their_times() -> None:
    window = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=33, end=44),))
    plan = plan_of(FakeBrokers(), window)
    assert spans(plan.ranges) == {Side.SOURCE: (23, 33, 44, 54), Side.SINK: (28, 33, 44, 49)}


def test_offsets_up_to_the_end_look_for_outputs_up_to_the_end() -> None:
    window = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=33, end=10_000),))
    plan = plan_of(FakeBrokers(), window)
    assert spans(plan.ranges)[Side.SINK] == (28, 33, 100, 100)


@pytest.mark.parametrize("start", [33, 30])
def test_offsets_behind_a_deleted_padding_have_a_gap_once(start: int) -> None:
    window = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=start, end=44),))
    brokers = FakeBrokers()
    brokers.logs[IN] = Log(begin=33)
    plan = plan_of(brokers, window)
    assert [(gap.reason, gap.topic, gap.end) for gap in plan.gaps] == [(GapReason.DELETED, "in", 33)]


def test_a_partition_or_topic_that_is_not_there_is_named() -> None:
    with pytest.raises(UnresolvableError, match="in-7 is no partition"):
        plan_of(FakeBrokers(), OffsetWindow(ranges=(OffsetRange(topic="in", partition=7, start=0, end=1),)))
    brokers = FakeBrokers()
    del brokers.logs[OUT]
    with pytest.raises(UnresolvableError, match="the topic out does not exist"):
        plan_of(brokers, Everything())
