"""Windows that follow each other find each difference once, wherever its records lie around their borders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from app.products.audits.comparison import TopicBaseline
from app.products.audits.result import IdFinding
from app.products.audits.specification import TimeWindow
from tests.support.comparisons import a_comparison
from workers.comparison.collecting import SideRows
from workers.comparison.comparing import Rules, compare_sides

LENGTH_MS, WINDOWS, PADDING_MS = 100, 5, 30
NEAR = st.integers(-PADDING_MS + 1, PADDING_MS - 1)
FINDINGS = (
    None, IdFinding.LOST, IdFinding.UNEXPECTED, IdFinding.DIFFERENT, IdFinding.DUPLICATED,
    IdFinding.DUPLICATED_IN_BASELINE,
)  # fmt: skip


class Planted(NamedTuple):
    """One id: the time of its record in the baseline, and the distances of two outputs."""

    finding: IdFinding | None
    at_ms: int
    first: int
    second: int


def records(number: int, one: Planted) -> Iterator[tuple[bool, dict[str, Any]]]:
    """Each record of the id, and whether it is an output."""
    record = {"id": number, "n": 1}
    if one.finding is not IdFinding.UNEXPECTED:
        yield False, {**record, "at": one.at_ms}
    if one.finding is IdFinding.DUPLICATED_IN_BASELINE:
        yield False, {**record, "at": one.at_ms}
    if one.finding is not IdFinding.LOST:
        value = 2 if one.finding is IdFinding.DIFFERENT else 1
        yield True, {**record, "n": value, "at": one.at_ms + one.first}
    if one.finding is IdFinding.DUPLICATED:
        yield True, {**record, "at": one.at_ms + one.second}


def found_in(window: TimeWindow, several: list[Planted], *, padding_ms: int) -> Counter[str]:
    rows = [(number, *row) for number, one in enumerate(several) for row in records(number, one)]
    return findings(window, rows, padding_ms)


def findings(window: TimeWindow, records: list[tuple[int, bool, dict[str, Any]]], padding_ms: int) -> Counter[str]:
    """records: the number of the id, whether it is an output, and the value."""
    specification = a_comparison("new", TopicBaseline(topic="old"), window=window, padding_ms=padding_ms)
    sides = {
        is_output: SideRows(specification, is_output=is_output, buckets=1, fields=set()) for is_output in (False, True)
    }
    for number, is_output, record in records:
        rows = sides[is_output]
        when = rows.when_of(record, None)
        if when is not None:
            rows.add(record, str(number).encode(), when, int(is_output), record["at"])
    pieces = [piece for rows in sides.values() for _, piece in rows.pieces.drain()]
    report = compare_sides(pieces, Rules(tolerance=0, padding_ms=padding_ms, examples=20, places=5))
    return Counter({finding: number for finding, number in report.findings.records.items() if finding != "late"})


@given(
    st.lists(
        st.builds(
            Planted,
            finding=st.sampled_from(FINDINGS),
            at_ms=st.integers(2 * PADDING_MS, LENGTH_MS * WINDOWS - 2 * PADDING_MS),
            first=NEAR,
            second=NEAR,
        ),
        max_size=20,
    )
)
def test_each_difference_is_found_in_one_window(several: list[Planted]) -> None:
    found: Counter[str] = Counter()
    for number in range(WINDOWS):
        window = TimeWindow(start_ms=number * LENGTH_MS, end_ms=(number + 1) * LENGTH_MS)
        found += found_in(window, several, padding_ms=PADDING_MS)
    assert found == Counter(one.finding for one in several if one.finding is not None)


def test_without_padding_a_pair_across_a_border_is_two_false_alarms() -> None:
    """The control of the test above."""
    pair = [Planted(finding=None, at_ms=LENGTH_MS - 5, first=10, second=0)]
    before = TimeWindow(start_ms=0, end_ms=LENGTH_MS)
    behind = TimeWindow(start_ms=LENGTH_MS, end_ms=2 * LENGTH_MS)
    assert found_in(before, pair, padding_ms=0) == {IdFinding.LOST: 1}
    assert found_in(behind, pair, padding_ms=0) == {IdFinding.UNEXPECTED: 1}
    assert found_in(before, pair, padding_ms=11) == {}
    assert found_in(behind, pair, padding_ms=11) == {}


def plan_of(rows: list[tuple[bool, int, int]]) -> Counter[str]:
    """Return the findings of all windows about records of one id: side, time and value each."""
    found: Counter[str] = Counter()
    for number in range(WINDOWS):
        window = TimeWindow(start_ms=number * LENGTH_MS, end_ms=(number + 1) * LENGTH_MS)
        found += findings(window, [(0, is_output, {"n": n, "at": at}) for is_output, at, n in rows], PADDING_MS)
    return found


INSIDE = st.integers(2 * PADDING_MS, LENGTH_MS * WINDOWS - 2 * PADDING_MS)


@given(INSIDE, NEAR, INSIDE)
@example(150, 0, 250)
@example(196, -27, 240)
def test_duplicate_beyond_the_padding_is_found_by_a_window(at_ms: int, first: int, second_ms: int) -> None:
    """Its record of the baseline lies beside that window, without the output that belongs to it."""
    found = plan_of([(False, at_ms, 1), (True, at_ms + first, 1), (True, second_ms, 1)])
    assert found[IdFinding.DUPLICATED] + found[IdFinding.UNEXPECTED] >= 1
    assert found.keys() <= {IdFinding.DUPLICATED, IdFinding.UNEXPECTED}


@given(st.lists(st.tuples(INSIDE, st.integers(1, 2)), min_size=1, max_size=8), st.integers(0, 7))
@example([(196, 1), (204, 1)], 0)
def test_one_record_less_is_found_among_repeated_ones(several: list[tuple[int, int]], missing: int) -> None:
    """Both sides have the same times. Equal records near a border do not take each other's output."""
    missing %= len(several)
    there = [(False, at_ms, n) for at_ms, n in several]
    here = [(True, at_ms, n) for at_ms, n in several]
    assert plan_of([*there, *here]) == {}
    assert plan_of([*there, *here[:missing], *here[missing + 1 :]]) != {}
    assert plan_of([*there[:missing], *there[missing + 1 :], *here]) != {}
