"""Every offset is read by one task, and by one alone."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app.products.audits.result import AuditSide, RangeRead
from app.products.audits.specification import AuditBounds
from tests.support.audits import a_specification
from workers.audit.splits import NOT_LIMITED, SplitPlan, splits_of
from workers.spark.audit_job import buckets_of


def a_range(partition: int, start: int, end: int, side: AuditSide = AuditSide.SOURCE) -> RangeRead:
    return RangeRead(
        side=side, topic=side.value, partition=partition, read_start=start, start=start, end=end, read_end=end
    )


@given(sizes=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=5), most=st.integers(1, 60))
def test_splits_cover_each_range_once(sizes: list[tuple[int, int]], most: int) -> None:
    ranges = tuple(a_range(partition, start, start + size) for partition, (start, size) in enumerate(sizes))
    splits = list(splits_of(SplitPlan(ranges=ranges), offsets_per_task=most))
    for number, one in enumerate(ranges):
        own = [split for split in splits if split.number == number]
        offsets = [offset for split in own for offset in range(split.start, split.end)]
        assert offsets == list(range(one.read_start, one.read_end))
        assert all(0 < split.end - split.start <= most for split in own)


def test_committed_offsets_bound_the_source_alone() -> None:
    plan = SplitPlan(
        ranges=(a_range(0, 0, 10), a_range(0, 0, 10, AuditSide.SINK)), committed={"source-0": 7, "sink-0": 3}
    )
    assert [split.committed for split in splits_of(plan, offsets_per_task=100)] == [7, NOT_LIMITED]


def test_a_hundred_million_ids_are_cut_into_tasks_that_fit() -> None:
    """As docs/audits.md says: what one task holds does not grow."""
    million = 1_000_000
    ranges = tuple(a_range(number, 0, million, side) for side in AuditSide for number in range(100))
    plan, specification = (
        SplitPlan(ranges=ranges),
        msgspec.structs.replace(a_specification("in", "out"), bounds=AuditBounds()),
    )
    assert len(list(splits_of(plan, offsets_per_task=specification.bounds.offsets_per_task))) == 200
    assert buckets_of(plan, specification) == 250
