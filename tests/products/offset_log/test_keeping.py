"""The number of kept contradictions has a bound, and the last one is the newest."""

from __future__ import annotations

from app.products.offset_log.check import OffsetFinding
from app.products.offset_log.keeping import MOST_FINDINGS, Keeping, KnownPartition, Place, keeping
from app.products.offset_log.verdict import ContradictionKind


def gap(start: int, *, partition: int = 0) -> OffsetFinding:
    return OffsetFinding(
        group="g",
        topic="in",
        partition=partition,
        kind=ContradictionKind.GAP,
        start=start,
        end=start + 1,
        message="x",
        sides=(),
    )


class Kept:
    """The kept contradictions, as in the database."""

    def __init__(self) -> None:
        self.rows: dict[Place, list[tuple[ContradictionKind, int]]] = {}

    def take(self, *found: OffsetFinding) -> Keeping:
        result = keeping(found, {place: KnownPartition(frozenset(rows), rows[-1]) for place, rows in self.rows.items()})
        for one in result.instead:
            self.rows[one.group, one.topic, one.partition].pop()
        for one in (*result.first, *result.instead):
            self.rows.setdefault((one.group, one.topic, one.partition), []).append((one.kind, one.start))
        return result

    def starts(self, partition: int = 0) -> list[int]:
        return [start for _, start in self.rows["g", "in", partition]]


def test_known_contradiction_is_not_reported_again() -> None:
    kept = Kept()
    assert [one.start for one in kept.take(gap(7), gap(3), gap(3)).first] == [3, 7]
    assert kept.take(gap(3), gap(7)) == ([], [])


def test_first_contradictions_and_the_newest_are_kept() -> None:
    kept = Kept()
    every_turn = [[gap(start) for start in range(turn * 50, turn * 50 + 100)] for turn in range(40)]
    told = [one.start for turn in every_turn for one in kept.take(*turn).first]
    assert told == list(range(MOST_FINDINGS))
    assert kept.starts() == [*range(MOST_FINDINGS - 1), 40 * 50 + 49]


def test_skipped_contradiction_that_is_found_again_is_not_newer() -> None:
    kept = Kept()
    many = [gap(start) for start in range(MOST_FINDINGS + 50)]
    kept.take(*many)
    assert [one.start for one in kept.take(*many).instead] == [MOST_FINDINGS + 49]
    assert kept.take(*many) == ([], [])


def test_partition_with_many_contradictions_leaves_room_for_others() -> None:
    kept = Kept()
    kept.take(*map(gap, range(MOST_FINDINGS)))
    assert [one.start for one in kept.take(gap(1, partition=1)).first] == [1]
