"""From a window to offsets: in which order the cluster is asked, how far is read, and what is a gap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import FileSink
from app.products.audits.result import AuditSide, GapReason, RangeRead
from app.products.audits.specification import AuditBounds, Everything, OffsetRange, OffsetWindow, TimeWindow, Window
from tests.support.audits import a_specification
from workers.audit.cluster import TopicSettings, UnresolvableError
from workers.audit.resolving import resolve
from workers.audit.splits import SplitPlan

IN, OUT = Partition("in", 0), Partition("out", 0)


class Log(msgspec.Struct):
    """A partition in which offset N was written at time N * 10."""

    begin: int = 0
    stable: int = 100
    high: int = 100


class FakeBrokers:
    """`stabilises_after`: how often a last stable offset is asked for until it has reached the high watermark."""

    def __init__(self, *, stabilises_after: int | None = None, **logs: Log) -> None:
        self.logs = {
            Partition("in", 0): Log(),
            Partition("out", 0): Log(),
            **{(topic, 0): log for topic, log in logs.items()},
        }
        self.group: dict[Partition, int | None] = {}
        self.topics: dict[str, TopicSettings | None] = {}
        self.asked: list[str] = []
        self._stabilises_after = stabilises_after
        self._looks = 0

    def partitions(self, topic: str) -> Sequence[int]:
        return [partition for name, partition in self.logs if name == topic]

    def settings(self, topic: str) -> TopicSettings | None:
        return self.topics.get(topic, TopicSettings())

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


def plan_of(
    brokers: FakeBrokers,
    window: Window,
    *,
    group_id: str | None = None,
    padding_ms: int = 50,
    files: FileSink | None = None,
) -> SplitPlan:
    clock = Clock()
    specification = a_specification(
        "in",
        "out",
        window=window,
        group_id=group_id,
        padding_ms=padding_ms,
        bounds=AuditBounds(settle_ms=1_000),
        files=files,
    )
    return resolve(specification, brokers, clock=clock, sleep=clock.sleep)


def spans(ranges: Iterable[RangeRead]) -> dict[AuditSide, tuple[int, int, int, int]]:
    return {one.side: (one.read_start, one.start, one.end, one.read_end) for one in ranges}


def test_the_sink_is_padded_and_the_source_twice_as_far() -> None:
    plan = plan_of(FakeBrokers(), TimeWindow(start_ms=300, end_ms=600))
    assert spans(plan.ranges) == {AuditSide.SOURCE: (20, 30, 60, 70), AuditSide.SINK: (25, 30, 60, 65)}
    assert plan.gaps == ()


def test_committed_offsets_are_read_before_the_sinks_ends_and_the_sources_ends_last() -> None:
    brokers = FakeBrokers()
    plan_of(brokers, Everything(), group_id="group")
    assert brokers.asked == ["committed", "high out", "stable out", "stable in"]


def test_transactions_that_were_open_are_waited_for() -> None:
    plan = plan_of(FakeBrokers(stabilises_after=2, out=Log(stable=40)), Everything())
    assert plan.gaps == ()
    assert spans(plan.ranges)[AuditSide.SINK] == (0, 0, 100, 100)


def test_a_transaction_that_stays_open_ends_the_range_with_a_gap() -> None:
    plan = plan_of(FakeBrokers(out=Log(stable=40)), Everything())
    assert spans(plan.ranges)[AuditSide.SINK] == (0, 0, 40, 40)
    assert [(gap.reason, gap.topic, gap.start, gap.end) for gap in plan.gaps] == [
        (GapReason.OPEN_TRANSACTION, "out", 40, 100)
    ]


def test_one_that_is_open_behind_the_padding_does_not_matter() -> None:
    plan = plan_of(FakeBrokers(out=Log(stable=90)), TimeWindow(start_ms=300, end_ms=600))
    assert plan.gaps == ()


def test_a_range_that_begins_with_the_log_may_have_begun_before() -> None:
    window = TimeWindow(start_ms=300, end_ms=600)
    plan = plan_of(FakeBrokers(out=Log(begin=28)), window)
    assert [(gap.reason, gap.topic, gap.end) for gap in plan.gaps] == [(GapReason.DELETED, "out", 28)]
    assert plan_of(FakeBrokers(out=Log(begin=20)), window).gaps == ()


DAY = 24 * 360_000
"""How many offsets are written in a day."""
BY_APPEND = TopicSettings(has_append_time=True)


def test_a_sink_with_the_time_of_writing_is_read_a_day_longer_with_the_inputs_of_that_day() -> None:
    brokers = FakeBrokers()
    brokers.logs[IN] = brokers.logs[OUT] = Log(stable=2 * DAY, high=2 * DAY)
    brokers.topics["out"] = BY_APPEND
    plan = plan_of(brokers, TimeWindow(start_ms=300, end_ms=600))
    assert spans(plan.ranges) == {AuditSide.SOURCE: (20, 30, 60, 65 + DAY), AuditSide.SINK: (25, 30, 60, 60 + DAY)}
    assert [(gap.side, gap.reason) for gap in plan.suspicions] == [
        (AuditSide.SOURCE, GapReason.TIME_OF_WRITING),
        (AuditSide.SINK, GapReason.TIME_OF_WRITING),
    ]


def test_once_it_is_read_to_its_end_no_output_can_lie_behind_the_range() -> None:
    brokers = FakeBrokers()
    brokers.topics["out"] = BY_APPEND
    plan = plan_of(brokers, TimeWindow(start_ms=300, end_ms=600))
    assert spans(plan.ranges) == {AuditSide.SOURCE: (20, 30, 60, 100), AuditSide.SINK: (25, 30, 60, 100)}
    assert [(gap.side, gap.reason) for gap in plan.suspicions] == [(AuditSide.SOURCE, GapReason.TIME_OF_WRITING)]
    assert plan.gaps == ()


def test_a_source_topic_whose_partitions_all_begin_in_the_range_is_suspected() -> None:
    brokers = FakeBrokers()
    reaching_back = TimeWindow(start_ms=80, end_ms=600)
    assert [(gap.topic, gap.reason) for gap in plan_of(brokers, reaching_back).suspicions] == [("in", GapReason.BEGINS)]
    assert plan_of(brokers, TimeWindow(start_ms=300, end_ms=600)).suspicions == ()
    assert plan_of(brokers, Everything()).suspicions == (), "all of it begins there"
    brokers.logs["in", 1] = Log(begin=5)
    assert plan_of(brokers, reaching_back).suspicions == (), "one of its partitions is older"


def test_a_group_that_has_committed_more_than_there_is_has_committed_another_log() -> None:
    brokers = FakeBrokers()
    brokers.group = {IN: 100}
    assert plan_of(brokers, Everything(), group_id="group").gaps == ()
    brokers.group = {IN: 101}
    (gap,) = plan_of(brokers, Everything(), group_id="group").gaps
    assert (gap.reason, gap.topic, gap.partition, gap.start, gap.end) == (GapReason.MADE_ANEW, "in", 0, 100, 101)


def test_a_partition_without_a_committed_offset_has_not_been_processed() -> None:
    brokers = FakeBrokers()
    assert plan_of(brokers, Everything(), group_id="group").committed == {"in-0": 0}
    assert plan_of(brokers, Everything()).committed == {}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [(TopicSettings(is_compacted=True), GapReason.COMPACTED), (None, GapReason.NOT_ADMITTED)],
)
def test_a_compacted_topic_is_a_gap(settings: TopicSettings | None, reason: GapReason) -> None:
    brokers = FakeBrokers()
    brokers.topics["out"] = settings
    assert [(gap.reason, gap.topic) for gap in plan_of(brokers, Everything()).gaps] == [(reason, "out")]


def test_offsets_are_taken_as_they_are_and_the_sink_is_found_by_their_times() -> None:
    window = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=33, end=44),))
    plan = plan_of(FakeBrokers(), window)
    assert spans(plan.ranges) == {AuditSide.SOURCE: (23, 33, 44, 54), AuditSide.SINK: (28, 33, 44, 49)}


def test_offsets_up_to_the_end_require_outputs_up_to_the_end() -> None:
    window = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=33, end=10_000),))
    plan = plan_of(FakeBrokers(), window)
    assert spans(plan.ranges)[AuditSide.SINK] == (28, 33, 100, 100)


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


FILES = FileSink(root="file:///data")
LONG = Log(high=2 * DAY, stable=2 * DAY)


def test_references_are_read_for_a_day_and_the_source_no_further_than_twice_its_padding() -> None:
    """How far the source reaches beyond that, the files say."""
    brokers = FakeBrokers(out=LONG)
    brokers.logs["in", 0] = LONG
    plan = plan_of(brokers, TimeWindow(start_ms=300, end_ms=600), files=FILES)
    assert spans(plan.ranges) == {AuditSide.SOURCE: (20, 30, 60, 70), AuditSide.SINK: (25, 30, 60, 60 + DAY)}
    assert plan.files is not None
    assert plan.files.numbers == frozenset({1})
    assert plan.files.scope.window == {"in-0": (30, 60)}
    assert plan.files.scope.late_from == {"out-0": 65}, "the padding's end"
    assert plan.files.limits == {"in-0": (0, 2 * DAY)}
    assert [(gap.side, gap.reason) for gap in plan.suspicions] == [(AuditSide.SINK, GapReason.TIME_OF_WRITING)]
    assert "committed more than a day after the window" in plan.suspicions[0].sentence


def test_where_all_references_are_read_there_is_no_gap() -> None:
    plan = plan_of(FakeBrokers(), TimeWindow(start_ms=300, end_ms=600), files=FILES)
    assert plan.suspicions == ()
    assert plan.gaps == ()


def test_of_named_offsets_the_files_that_name_them_are_read() -> None:
    named = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=40, end=50),))
    plan = plan_of(FakeBrokers(), named, files=FILES)
    assert plan.files is not None
    assert plan.files.scope.window == {"in-0": (40, 50)}
    assert plan.files.scope.late_from == {"out-0": 55}


def test_of_everything_every_file_is_read() -> None:
    plan = plan_of(FakeBrokers(), Everything(), files=FILES)
    assert plan.files is not None
    assert plan.files.scope.late_from == {}
    assert plan_of(FakeBrokers(), Everything()).files is None


def test_references_deleted_by_retention_are_reported() -> None:
    plan = plan_of(FakeBrokers(out=Log(begin=28)), TimeWindow(start_ms=300, end_ms=600), files=FILES)
    [gap] = plan.gaps
    assert (gap.side, gap.reason, gap.end) == (AuditSide.SINK, GapReason.DELETED, 28)
    assert gap.sentence.startswith("The references to files of out-0 before offset 28 are deleted")


def test_compaction_takes_no_reference_away() -> None:
    brokers = FakeBrokers()
    brokers.topics["out"] = TopicSettings(is_compacted=True)
    assert plan_of(brokers, Everything(), files=FILES).gaps == ()
    assert [gap.reason for gap in plan_of(brokers, Everything()).gaps] == [GapReason.COMPACTED]
