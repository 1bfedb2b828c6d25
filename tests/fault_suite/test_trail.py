from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fault_suite.trail import Trail

Record = tuple[int, int, bytes]


def trail_of(records: list[Record]) -> Trail:
    trail = Trail()
    for record in records:
        trail.saw(*record)
    return trail


def many(count: int) -> list[Record]:
    return [(number % 2, number, b"%d" % number) for number in range(count)]


@given(st.permutations(range(3)), st.integers(0, 40))
def test_partitions_may_come_in_any_order(order: list[int], each: int) -> None:
    one = [(partition, offset, b"x") for partition in range(3) for offset in range(each)]
    other = [(partition, offset, b"x") for partition in order for offset in range(each)]
    assert trail_of(one).difference(trail_of(other)) is None


@pytest.mark.parametrize("count", [1, 1_999, 2_000, 5_001])
def test_a_record_that_one_reader_was_not_given_is_found(count: int) -> None:
    records = many(count)
    for missing in {0, count // 2, count - 1}:
        less = records[:missing] + records[missing + 1 :]
        assert trail_of(records).difference(trail_of(less)) is not None
        assert trail_of(less).difference(trail_of(records)) is not None


def test_it_says_where() -> None:
    records = many(10_000)
    changed = [*records[:6_001], (1, 6_001, b"other"), *records[6_002:]]
    assert trail_of(records).difference(trail_of(changed)) == (
        "partition 1 from offset 6001 on: one reader saw 5000 records of it, the other 5000"
    )


def test_the_same_values_at_other_offsets_are_a_difference() -> None:
    assert trail_of([(0, 0, b"x")]).difference(trail_of([(0, 1, b"x")])) is not None


def test_values_cannot_run_into_one_another() -> None:
    assert trail_of([(0, 0, b"1 1 x"), (0, 1, b"")]).difference(trail_of([(0, 0, b"1"), (0, 1, b" x")])) is not None


def test_records_of_only_one_consumer_may_be_no_difference() -> None:
    records = many(10)
    less = [record for record in records if record[1] not in (3, 4, 9)]
    seen: list[tuple[int, int]] = []

    def beside(partition: int, offset: int) -> bool:
        seen.append((partition, offset))
        return offset != 9

    assert "partition 1 from offset 9 on" in (trail_of(records).difference(trail_of(less), beside=beside) or "")
    assert seen == [(0, 4), (1, 3), (1, 9)]
    assert trail_of(records[:9]).difference(trail_of(less), beside=beside) is None
    assert trail_of(less).difference(trail_of(records[:9]), beside=beside) is None
    changed = [*records[:4], (0, 4, b"other"), *records[5:]]
    assert trail_of(records).difference(trail_of(changed), beside=beside) is not None, "both have seen it"


def test_a_partition_that_only_one_has_seen_is_a_difference() -> None:
    assert trail_of([(0, 0, b"x"), (1, 0, b"x")]).difference(trail_of([(0, 0, b"x")])) is not None
    assert trail_of([]).difference(trail_of([])) is None
