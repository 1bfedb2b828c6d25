"""The range of a recomputation, and the rows that depend on no record beyond it."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import DataframeQuery, Stream
from app.products.audits.comparison import Comparison, Recomputation
from app.products.audits.result import (
    AuditSide,
    AuditVerdict,
    EventTimes,
    FindingTally,
    Gap,
    GapReason,
    IdFinding,
    RangeRead,
    verdict,
)
from app.products.audits.specification import (
    AuditBounds,
    AuditSpecification,
    DroppedRows,
    Everything,
    OffsetRange,
    OffsetWindow,
    RecordKey,
    TimeWindow,
    Window,
)
from app.products.audits.telling import verdict_sentence
from tests.support.audits import VERSIONS, a_specification
from tests.workers.audit.test_resolving import FakeBrokers, Log, spans
from workers.audit.cluster import UnresolvableError
from workers.audit.concluding import concluded_of_rows
from workers.audit.splits import SplitPlan
from workers.comparison.collecting import MisplacedTimeError, RecomputedCollector, SideRows, When
from workers.comparison.comparing import Rules, compare_sides
from workers.comparison.judging import judge_sides
from workers.comparison.matching import NoIdError, newest
from workers.comparison.recomputable import NotRecomputableError, Recomputable
from workers.comparison.recomputing import (
    CommittedBatch,
    TimesRead,
    committed_batch,
    comparable_rows,
    padding_of,
    resolve_range,
)
from workers.comparison.rows import WINDOW, Row

IN = Partition("in", 0)
WINDOWS = Recomputable(is_windowed=True, window_ms=10, keeps_last=False)
SINGLE = Recomputable(is_windowed=False, window_ms=0, keeps_last=False)


def a_recomputation(window: Window = Everything(), **changes: object) -> AuditSpecification:  # noqa: B008 - immutable
    comparison = Comparison(baseline=Recomputation(), time_field="at", baseline_time_field="at")
    return msgspec.structs.replace(
        a_specification("in", "out", window=window, id=RecordKey(), comparison=comparison, padding_ms=50),
        bounds=AuditBounds(settle_ms=0),
        **changes,
    )


def test_the_newest_committed_batch_has_its_offsets_and_watermark() -> None:
    sources = '{"in":{"1":7,"0":3}}\n-\n{"in":{"0":2},"b":{"0":9}}'
    entry = f'v1\n{{"batchWatermarkMs":5000,"batchTimestampMs":1,"conf":{{}}}}\n{sources}'
    ends = {Partition("in", 0): 2, Partition("in", 1): 7, Partition("b", 0): 9}
    assert committed_batch(entry) == CommittedBatch(ends=ends, watermark_ms=5_000)


@pytest.mark.parametrize("entry", ["", "v2\n{}", "v1", "v1\nx", 'v1\n{}\n{"in":7}'])
def test_another_offset_log_is_refused(entry: str) -> None:
    with pytest.raises(NotRecomputableError, match="offset log"):
        committed_batch(entry)


def test_padding_is_at_least_the_watermarks_delay() -> None:
    streams = (
        Stream(name="a", topic="in", schema="at TIMESTAMP", event_time="at", watermark_ms=70),
        Stream(name="b", topic="in", schema="at TIMESTAMP"),
    )
    query = DataframeQuery(streams=streams, checkpoint="/c", sql="")
    assert padding_of(a_recomputation(), query) == 70
    assert padding_of(a_recomputation(padding_ms=90), query) == 90


def planned(window: Window, *, end: int = 100, is_timed: bool = False, brokers: FakeBrokers | None = None) -> SplitPlan:
    return resolve_range(
        a_recomputation(window),
        brokers or FakeBrokers(),
        CommittedBatch(ends={IN: end}, watermark_ms=0),
        rules=WINDOWS,
        padding_ms=50,
        is_timed=is_timed,
    )


def test_everything_ends_at_the_committed_offsets() -> None:
    plan = planned(Everything(), end=80)
    assert spans(plan.ranges) == {AuditSide.SOURCE: (0, 0, 80, 80), AuditSide.SINK: (0, 0, 100, 100)}
    assert plan.gaps == ()


def test_window_of_time_begins_two_paddings_and_windows_earlier_and_the_sink_is_read_to_its_end() -> None:
    window = TimeWindow(start_ms=300, end_ms=600)
    found = spans(planned(window).ranges)
    assert found == {AuditSide.SOURCE: (18, 30, 60, 60), AuditSide.SINK: (13, 13, 100, 100)}
    # Timestamps that the query sets say nothing about the time of writing.
    assert spans(planned(window, is_timed=True).ranges)[AuditSide.SINK] == (0, 0, 100, 100)
    assert spans(planned(window, end=40).ranges)[AuditSide.SOURCE] == (18, 30, 40, 40)


def test_window_of_offsets_names_all_partitions() -> None:
    window = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=20, end=50),))
    assert spans(planned(window).ranges) == {AuditSide.SOURCE: (20, 20, 50, 50), AuditSide.SINK: (15, 15, 100, 100)}
    other = FakeBrokers()
    other.logs[Partition("in", 1)] = Log()
    with pytest.raises(UnresolvableError, match="no offsets of in-1"):
        planned(window, brokers=other)


def test_deleted_source_records_are_no_gap_and_deleted_outputs_are() -> None:
    brokers = FakeBrokers(out=Log(begin=20))
    brokers.logs[IN] = Log(begin=10)
    plan = planned(Everything(), brokers=brokers)
    assert [(gap.side, gap.reason) for gap in plan.gaps] == [(AuditSide.SINK, GapReason.DELETED)]


def test_late_rows_since_the_range_began_are_a_gap() -> None:
    late = (DroppedRows(ended_at_ms=150, rows=1), DroppedRows(ended_at_ms=120, rows=2))
    committed = CommittedBatch(ends={IN: 100}, watermark_ms=0)
    for window, number in ((Everything(), "3 late rows"), (TimeWindow(start_ms=310, end_ms=600), "1 late row ")):
        specification = a_recomputation(window, late_batches=late)
        plan = resolve_range(specification, FakeBrokers(), committed, rules=WINDOWS, padding_ms=50, is_timed=False)
        assert [gap.reason for gap in plan.gaps] == [GapReason.LATE_ROWS]
        assert number in plan.gaps[0].sentence


def a_range(start: int, end: int, partition: int = 0) -> RangeRead:
    return RangeRead(
        side=AuditSide.SOURCE, topic="in", partition=partition, read_start=start, start=start, end=end, read_end=end
    )


def comparable(
    start: int, end: int, times: list[int], *, rules: Recomputable = WINDOWS, watermark_ms: int = 500
) -> tuple[EventTimes, list[GapReason]]:
    read = [TimesRead(IN, times[0], times[-1], min(times), max(times))] if times else []
    committed = CommittedBatch(ends={IN: 100}, watermark_ms=watermark_ms)
    found = comparable_rows([a_range(start, end)], read, committed, rules=rules, padding_ms=50)
    return found.times, [gap.reason for gap in found.gaps]


def test_all_windows_up_to_the_watermark_are_comparable_if_everything_is_read() -> None:
    assert comparable(0, 100, [100, 600]) == (EventTimes(start_ms=None, end_ms=491), [])


def test_records_before_and_behind_the_range_are_within_the_padding_of_its_first_and_last_record() -> None:
    assert comparable(10, 100, [100, 600]) == (EventTimes(start_ms=161, end_ms=491), [])
    assert comparable(10, 90, [100, 400]) == (EventTimes(start_ms=161, end_ms=341), [])
    # Rows without windows appear with their records, behind the committed offsets too.
    assert comparable(0, 100, [100, 400], rules=SINGLE) == (EventTimes(start_ms=None, end_ms=351), [])


@pytest.mark.parametrize("times", [[100, 49, 400], [100, 451, 400]])
def test_records_that_are_further_out_of_order_are_a_gap(times: list[int]) -> None:
    assert comparable(10, 90, times)[1] == [GapReason.UNBOUNDED]
    assert comparable(0, 100, times)[1] == []


def test_nothing_is_comparable_beside_a_partition_without_records_in_the_range() -> None:
    times, gaps = comparable(10, 90, [])
    assert gaps == [GapReason.UNBOUNDED]
    assert times.start_ms == times.end_ms


LENGTH_MS, DELAY_MS, PADDING_MS = 10, 60, 30


def a_log(random: Random) -> list[int]:
    """Event times that are out of order by at most the padding."""
    at_ms, log = 0, list[int]()
    for _ in range(random.randrange(20, 120)):
        at_ms += random.randrange(6)
        log.append(max(0, at_ms - random.randrange(PADDING_MS + 1)))
    return log


@pytest.mark.parametrize("seed", range(20))
def test_comparable_windows_have_all_their_records_in_the_range_and_are_committed(seed: int) -> None:
    """A query in small, many times: two partitions, batches of any size, and a range of offsets in each."""
    random, compared, left_out = Random(seed), 0, 0
    for _ in range(200):
        logs = [a_log(random), a_log(random)]
        watermark_ms, read = 0, [0, 0]
        for _ in range(random.randrange(1, 12)):
            ends = [min(len(log), done + random.randrange(20)) for done, log in zip(read, logs, strict=True)]
            batch = [at_ms for log, done, end in zip(logs, read, ends, strict=True) for at_ms in log[done:end]]
            if any(at_ms // LENGTH_MS * LENGTH_MS + LENGTH_MS <= watermark_ms for at_ms in batch):
                # A late row is dropped, and cannot be distinguished.
                break
            read, watermark_ms = ends, max([watermark_ms, *(at_ms - DELAY_MS for at_ms in batch)])
        committed = CommittedBatch({Partition("in", n): end for n, end in enumerate(read)}, watermark_ms)
        starts = [random.choice([0, random.randrange(end // 2 + 1)]) for end in read]
        stops = [
            random.choice([end, random.randrange(start, end + 1)]) for start, end in zip(starts, read, strict=True)
        ]
        inside = [log[start:stop] for log, start, stop in zip(logs, starts, stops, strict=True)]
        measured = [TimesRead(Partition("in", n), of[0], of[-1], min(of), max(of)) for n, of in enumerate(inside) if of]
        ranges = [a_range(start, stop, n) for n, (start, stop) in enumerate(zip(starts, stops, strict=True))]
        window = comparable_rows(ranges, measured, committed, rules=WINDOWS, padding_ms=PADDING_MS).window
        for start in range(0, max(map(max, logs)), LENGTH_MS):
            until = start + LENGTH_MS
            if not any(window.start_ms <= at_ms < window.end_ms for at_ms in (start, until)):
                left_out += 1
                continue
            recomputed = sorted(at_ms for of in inside for at_ms in of if start <= at_ms < until)
            done = [at_ms for log, end in zip(logs, read, strict=True) for at_ms in log[:end]]
            assert recomputed == sorted(at_ms for at_ms in done if start <= at_ms < until)
            assert until <= watermark_ms or not recomputed
            compared += bool(recomputed)
    assert min(compared, left_out) > 100, "the cases have both kinds of windows"


def test_a_gap_of_the_source_or_another_revision_leaves_nothing_proven() -> None:
    def gap(side: AuditSide, reason: GapReason) -> Gap:
        return Gap(side=side, topic="t", partition=None, reason=reason, sentence="")

    proofs = {IdFinding.LOST, IdFinding.DUPLICATED, IdFinding.UNEXPECTED, IdFinding.DIFFERENT}
    assert concluded_of_rows([gap(AuditSide.SOURCE, GapReason.UNBOUNDED)]).keys() == proofs
    assert concluded_of_rows([gap(AuditSide.SINK, GapReason.REVISION_CHANGED)]).keys() == proofs
    assert concluded_of_rows([gap(AuditSide.SINK, GapReason.DELETED)]) == {IdFinding.LOST: IdFinding.MISSING}
    assert concluded_of_rows([gap(AuditSide.SINK, GapReason.NO_FIELD)]) == {}


def collected(window: TimeWindow, *values: bytes, span: tuple[int, int] = (0, 1_000)) -> RecomputedCollector:
    collector = RecomputedCollector(a_recomputation(window, padding_ms=0), buckets=1, span=span)
    list(collector.keyed((value, b"key") for value in values))
    return collector


def test_rows_beyond_the_comparable_times_are_counted_and_never_equal() -> None:
    window = TimeWindow(start_ms=300, end_ms=600)
    collector = collected(window, b'{"at": 299}', b'{"at": 600}')
    result = judge_sides(
        a_recomputation(window, padding_ms=0),
        SplitPlan(ranges=()),
        [collector.report],
        [],
        started_at_ms=0,
        duration_ms=lambda: 0,
        versions=VERSIONS,
    )
    assert result.counts.not_comparable == 2
    assert (result.counts.expected, result.counts.lost) == (0, FindingTally())
    assert verdict(result) is AuditVerdict.NOT_SHOWN
    assert verdict_sentence(result) == "Not shown. No row is comparable: 2 may depend on records beyond the range."


def test_rows_that_cannot_be_placed_are_unreadable() -> None:
    report = collected(TimeWindow(start_ms=300, end_ms=600), b'{"at": 300}', b'{"n": 1}', b"text").report
    assert (report.records, report.window_records, report.unreadable) == (3, 3, 2)


def test_time_beyond_the_events_of_the_range_is_a_wrong_field() -> None:
    with pytest.raises(MisplacedTimeError, match="field at"):
        collected(TimeWindow(start_ms=300, end_ms=600), b'{"at": 1001}')


def a_row(*, at_ms: int, offset: int = 0, number: int = 0, is_output: bool = True, n: int = 1) -> Row:
    return Row(is_output, True, number, offset, at_ms, n, "id", None, {"n": n})


def test_in_output_mode_update_the_newest_row_of_a_window_counts() -> None:
    rows = [
        a_row(at_ms=10, offset=4, n=2),
        a_row(at_ms=10, offset=9, n=3),
        a_row(at_ms=20, offset=5),
        a_row(at_ms=10, is_output=False, n=3),
    ]
    assert newest(rows) == [rows[3], rows[1], rows[2]]
    with pytest.raises(NoIdError, match="one id and one time"):
        newest([a_row(at_ms=10, is_output=False), a_row(at_ms=10, is_output=False)])
    with pytest.raises(NoIdError, match="several partitions"):
        newest([a_row(at_ms=10), a_row(at_ms=10, number=1)])


def test_comparison_of_updates_reports_a_wrong_last_row_alone() -> None:
    specification = a_recomputation(TimeWindow(start_ms=0, end_ms=100), padding_ms=0)
    rules = Rules(tolerance=0, padding_ms=0, examples=5, places=5, keeps_last=True)

    def found(*last: int) -> dict[str, int]:
        recomputed = RecomputedCollector(specification, buckets=1, span=(0, 100))
        pieces = [piece for _, piece in recomputed.keyed([(b'{"at": 10, "n": 3}', b"key")])]
        outputs = SideRows(specification, is_output=True, buckets=1, fields=set())
        for offset, n in enumerate(last):
            outputs.add({"at": 10, "n": n}, b"key", When(WINDOW, 10), 0, offset)
        return compare_sides([*pieces, *(piece for _, piece in outputs.pieces.drain())], rules).findings.records

    assert found(1, 2, 3) == {}
    assert found(1, 3, 2) == {IdFinding.DIFFERENT: 1}
    assert found() == {IdFinding.LOST: 1}
