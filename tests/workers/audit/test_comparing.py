"""The comparison against one that is too simple to be wrong; the order of rows and their pieces do not matter."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.products.audits.result import IdFinding
from workers.audit.comparing import BucketReport, compare
from workers.audit.rows import EXPECTED, FOUND, PADDING, WINDOW, Pieces, TooLargeError, base_of, place_of, sink_bytes


class Row(NamedTuple):
    id: str
    side: int
    zone: int
    sink: int = 0


ROWS = st.lists(
    st.builds(
        Row,
        id=st.sampled_from("abcd"),
        side=st.sampled_from([EXPECTED, FOUND]),
        zone=st.sampled_from([PADDING, WINDOW]),
        sink=st.integers(0, 1),
    ),
    max_size=30,
)


def packed(rows: list[Row]) -> list[bytes]:
    """Each row in a piece of its own, the place of input N being N, that of output N too, in another partition."""
    pieces: list[bytes] = []
    for offset, row in enumerate(rows):
        piece = Pieces(1)
        piece.add(row.id.encode(), sink_bytes(row.sink), base_of(row.side) | offset << 2 | row.side | row.zone)
        pieces += [data for _, data in piece.by_bucket()]
    return pieces


def report(rows: list[Row], *, letters: int | None = None) -> BucketReport:
    return compare(packed(rows), letters=letters, examples=100, places=100)


def asked(id_: str, zone: int = WINDOW, sink: int = 0) -> Row:
    return Row(id_, EXPECTED, zone, sink)


def found(id_: str, zone: int = WINDOW, sink: int = 0) -> Row:
    return Row(id_, FOUND, zone, sink)


@given(rows=ROWS)
def test_the_report_equals_a_simple_count(rows: list[Row]) -> None:
    expected: Counter[IdFinding] = Counter()
    for key in {(row.id, row.sink) for row in rows}:
        own = [row for row in rows if (row.id, row.sink) == key]
        in_window = sum(row.side == EXPECTED and row.zone == WINDOW for row in own)
        in_all = sum(row.side == EXPECTED for row in own)
        out_window = sum(row.side == FOUND and row.zone == WINDOW for row in own)
        out_all = sum(row.side == FOUND for row in own)
        expected[IdFinding.LOST] += max(0, in_window - out_all)
        if in_window:
            expected[IdFinding.DUPLICATED] += max(0, out_all - in_all)
        if not in_all:
            expected[IdFinding.UNEXPECTED] += out_window
        expected[IdFinding.LATE] += max(0, min(in_window, out_all) - out_window)
    said = report(rows)
    assert Counter({IdFinding(name): number for name, number in said.records.items()}) == +expected
    assert {IdFinding(name): sum(numbers.values()) for name, numbers in said.partitions.items()} == dict(+expected)


@given(rows=ROWS, seed=st.integers())
def test_the_order_and_the_size_of_pieces_do_not_matter(rows: list[Row], seed: int) -> None:
    pieces = packed(rows)
    shuffled = pieces[:]
    random.Random(seed).shuffle(shuffled)
    whole = [b"".join(shuffled)]
    of_pieces, of_whole = (compare(one, letters=None, examples=100, places=100) for one in (pieces, whole))
    of_pieces.deviations.sort(key=lambda one: (one.finding, one.key))
    of_whole.deviations.sort(key=lambda one: (one.finding, one.key))
    assert of_pieces == of_whole


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([asked("a"), found("a")], {}),
        ([asked("a")], {IdFinding.LOST: 1}),
        ([asked("a"), found("a", PADDING)], {IdFinding.LATE: 1}),
        ([asked("a"), found("a"), found("a", PADDING)], {IdFinding.DUPLICATED: 1}),
        ([found("a")], {IdFinding.UNEXPECTED: 1}),
        # Their other side belongs to a neighbouring window.
        ([asked("a", PADDING)], {}),
        ([found("a", PADDING)], {}),
        ([asked("a", PADDING), found("a"), found("a")], {}),
        ([asked("a", PADDING), found("a")], {}),
        # In the wrong sink it is missing in the right one.
        ([asked("a", sink=0), found("a", sink=1)], {IdFinding.LOST: 1, IdFinding.UNEXPECTED: 1}),
    ],
)
def test_the_place_of_an_output_decides_its_finding(rows: list[Row], says: dict[IdFinding, int]) -> None:
    assert report(rows).records == says


def test_outputs_that_brokers_refused_are_among_the_dead_letters_and_not_lost() -> None:
    said = report([asked("a"), found("a", sink=1), asked("b"), found("c", sink=1)], letters=1)
    assert said.undelivered == 1
    assert said.records == {IdFinding.LOST: 1, IdFinding.UNEXPECTED: 1}


def test_a_dead_letter_in_the_padding_explains_a_missing_output_too() -> None:
    said = report([asked("a"), found("a", PADDING, sink=1)], letters=1)
    assert (said.undelivered, said.records) == (1, {})


def test_of_many_findings_the_first_are_kept_and_all_are_counted() -> None:
    rows = [asked(f"id-{number}") for number in range(50)]
    said = compare(packed(rows), letters=None, examples=3, places=1)
    assert said.ids == {IdFinding.LOST: 50}
    assert [place_of(one.inputs[0])[1] for one in said.deviations] == [0, 1, 2]


def test_more_partitions_than_a_row_has_bits_for_are_refused() -> None:
    assert place_of(base_of(65_535) | 7 << 2 | FOUND) == (65_535, 7)
    with pytest.raises(TooLargeError, match="at most 65536 partitions"):
        base_of(65_536)
