"""Aborted records that a broker returns are counted apart where the broker's own index proves it, and nowhere else."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.record_batch import RecordBatch, read_records
from tests.fault_suite.decided import DecidedLog
from tests.fault_suite.judging import Judge, Verdict
from tests.fault_suite.logs_as_written import ABORT, COMMIT, FIRST, SECOND, World, ids, wrong
from tests.fault_suite.reading import judge_follower
from tests.fault_suite.trail import Trail
from tests.support.aborted_index import AbortedIndex, Entry, entries_of

RECORDED = Path(__file__).parent / "recorded_index"


def bytes_of(*found: Entry, version: int = 0) -> bytes:
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in found)


def index_of(*found: Entry) -> AbortedIndex:
    return AbortedIndex([(0, found)])


def hidden(index: AbortedIndex, producer_id: int, ends: int) -> list[int]:
    return [offset for offset in range(ends) if index.hides(producer_id, offset)]


def recorded(replica: str) -> AbortedIndex:
    """A partition of a run that returned 750 aborted records. Producer 1000 has aborted three times in a row there, and
    broker 1 has caught up with all three at once."""
    return index_of(*entries_of((RECORDED / f"{replica}.txnindex").read_bytes()))


def test_the_replica_that_showed_aborted_records_proves_it() -> None:
    assert hidden(recorded("broker-1"), 1000, 60_000) == [*range(9_467, 10_969)]
    assert hidden(recorded("broker-1"), 0, 60_000) == []


def test_the_replica_beside_it_proves_nothing() -> None:
    assert len(recorded("broker-2").entries) == len(recorded("broker-1").entries) == 25
    for producer_id in (0, 1000):
        assert hidden(recorded("broker-2"), producer_id, 60_000) == []


def test_only_records_before_the_noted_offset_are_hidden_by_it() -> None:
    first, second = Entry(1, 0, 4, 8), Entry(1, 5, 9, 10)
    assert hidden(index_of(first, second), 1, 12) == [5, 6, 7], "a fetch of what lies behind looks further"
    assert hidden(index_of(first, second), 2, 12) == [], "another producer's"
    assert hidden(index_of(second, first), 1, 12) == [0, 1, 2, 3, 4]
    assert hidden(index_of(first), 1, 12) == [], "the entry itself is found"
    assert hidden(index_of(Entry(1, 0, 4, 5), second), 1, 12) == [], "as it should be"


def test_each_segment_is_searched_from_its_own_beginning() -> None:
    first, second = Entry(1, 0, 4, 20), Entry(1, 11, 14, 15)
    assert hidden(AbortedIndex([(0, [first, second])]), 1, 30) == [11, 12, 13, 14]
    assert hidden(AbortedIndex([(0, [first]), (10, [second])]), 1, 30) == []
    assert hidden(AbortedIndex([(0, [first]), (12, [second])]), 1, 30) == [11]


def test_index_files_are_read_in_order_and_where_there_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "copies-0"
    folder.mkdir()
    for base in (0, 100, 20):
        (folder / f"{base:020d}.log").touch()
    half = bytes_of(Entry(1, 30, 33, 34))[:-1]
    (folder / f"{100:020d}.txnindex").write_bytes(bytes_of(Entry(1, 100, 104, 105)))
    (folder / f"{20:020d}.txnindex").write_bytes(bytes_of(Entry(1, 20, 24, 25)) + half)
    (index,) = AbortedIndex.of_replicas([tmp_path, tmp_path / "without"], "copies", 0)
    assert index.segments == [(0, ()), (20, [Entry(1, 20, 24, 25)]), (100, [Entry(1, 100, 104, 105)])]
    with pytest.raises(ValueError, match="version 1"):
        entries_of(bytes_of(Entry(1, 0, 4, 5), version=1))


Step = tuple[int, bool | None]


@given(steps=st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, None, True, False])), max_size=40))
def test_a_right_index_proves_nothing(steps: list[Step]) -> None:
    """Three producers write and end as they like; the index is written as each marker is appended."""
    began: dict[int, int] = {}
    found: list[Entry] = []
    for offset, (producer_id, commits) in enumerate(steps):
        if commits is None:
            began.setdefault(producer_id, offset)
        elif (first := began.pop(producer_id, None)) is not None and not commits:
            found.append(Entry(producer_id, first, offset, min(began.values(), default=offset + 1)))
    index = index_of(*found)
    assert [hidden(index, producer_id, len(steps)) for producer_id in (1, 2, 3)] == [[], [], []]


RIGHT = index_of(Entry(1, 0, 1, 2), Entry(1, 2, 3, 4))
WRONG = index_of(Entry(1, 0, 1, 6), Entry(1, 2, 3, 6))
"""The index of partition 0 of `scene`; offset 6 is where SECOND begins."""


def scene() -> World:
    """FIRST aborts at offsets 0 and 2 of partition 0, and commits the same at 4; then SECOND."""
    world = World(ids=1)
    for kind in (ABORT, ABORT, COMMIT):
        world.transaction(FIRST, ids(0, 0, 1), {0: 1}, kind)
    world.transaction(SECOND, ids(1, 0, 1), {1: 1})
    return world


def judged(world: World, *offsets: int, replicas: Sequence[AbortedIndex]) -> Verdict:
    """Where partition 0 shows exactly these offsets."""
    shown = {partition: list(world.shown(partition)) for partition in world.sink}
    shown[0] = [record for batch in world.sink[0] for record in read(batch) if record[0] in offsets]
    assert [offset for offset, _ in shown[0]] == list(offsets)
    return world.verdict(shown, replicas=replicas)


def read(batch: RecordBatch) -> list[tuple[int, bytes | None]]:
    found = [] if batch.is_control else read_records(batch)
    assert isinstance(found, list)
    return [(record.offset, record.value) for record in found]


@pytest.mark.parametrize("replicas", [[WRONG], [RIGHT, WRONG]])
def test_records_proven_by_an_index_are_counted_apart_and_the_rest_is_exact(replicas: list[AbortedIndex]) -> None:
    verdict = judged(scene(), 2, 4, 6, replicas=replicas)
    assert verdict.is_exact, str(verdict)
    assert verdict.shown_aborted.examples == ("0:00000000 at offset 2 of partition 0",)
    assert "shown though aborted, by brokers, 1" in str(verdict)


@pytest.mark.parametrize("replicas", [[], [RIGHT], [RIGHT, RIGHT]])
def test_without_a_proof_it_is_wrong_as_ever(replicas: list[AbortedIndex]) -> None:
    verdict = judged(scene(), 2, 4, 6, replicas=replicas)
    assert (wrong(verdict), verdict.shown_aborted.count) == ({"duplicated", "torn", "uncommitted"}, 0)


def test_a_proof_of_other_records_is_none() -> None:
    """The first entry is found by every fetch, with any content."""
    verdict = judged(scene(), 0, 4, 6, replicas=[WRONG])
    assert (wrong(verdict), verdict.shown_aborted.count) == ({"duplicated", "torn", "uncommitted"}, 0)


def test_a_record_returned_only_as_aborted_is_lost() -> None:
    verdict = judged(scene(), 2, 6, replicas=[WRONG])
    assert (wrong(verdict), verdict.shown_aborted.count) == ({"lost", "torn"}, 1)


def test_a_record_that_is_not_aborted_is_not_counted_apart_with_any_index() -> None:
    committed = index_of(Entry(1, 0, 1, 6), Entry(1, 4, 5, 6))
    assert judged(scene(), 4, 6, replicas=[committed]).shown_aborted.count == 0
    world = scene()
    world.write(FIRST, *ids(0, 0, 1))
    open_ = index_of(Entry(1, 0, 1, 20), Entry(1, 8, 9, 20))
    verdict = judged(world, 4, 6, 8, replicas=[open_])
    assert (wrong(verdict), verdict.shown_aborted.count) == ({"duplicated", "uncommitted"}, 0)


def test_bytes_that_are_not_those_of_the_input_are_altered_also_where_they_were_aborted() -> None:
    world = World(ids=1)
    world.transaction(FIRST, ids(0, 0, 1), {0: 1}, ABORT)
    world.append(0, FIRST, [b"0:00000000 other"], is_transactional=True)
    world.end(FIRST, ABORT)
    world.transaction(FIRST, ids(0, 0, 1), {0: 1})
    world.transaction(SECOND, ids(1, 0, 1), {1: 1})
    verdict = judged(world, 2, 4, 6, replicas=[WRONG])
    assert (wrong(verdict), verdict.shown_aborted.count) == ({"altered"}, 1)


@pytest.mark.parametrize(
    ("fresh", "followed", "replicas", "shown_to_another", "is_other"),
    [
        ([4, 6], [2, 4, 6], [WRONG], 1, False),
        ([2, 4, 6], [4, 6], [WRONG], 0, False),
        ([2, 4, 6], [2, 4, 6], [WRONG], 0, False),
        ([4, 6], [2, 4, 6], [RIGHT], 0, True),
        ([2, 4, 6], [4, 6], [], 0, True),
        ([4, 6], [0, 2, 4, 6], [WRONG], 1, True),
        ([2, 4, 6], [6], [WRONG], 0, True),
    ],
)
def test_two_consumers_may_differ_by_proven_records_and_by_nothing_else(
    fresh: list[int], followed: list[int], replicas: list[AbortedIndex], shown_to_another: int, is_other: bool
) -> None:
    log, judge = DecidedLog(replicas), Judge()
    for batch in scene().sink[0]:
        log.batch(batch)
    told = judge_follower(judge, trail_of(fresh), trail_of(followed), {0: log})
    assert ["was given something else" in one for one in told] == [True] * is_other
    assert judge.verdict([], {}).shown_aborted.count == shown_to_another


def trail_of(offsets: list[int]) -> Trail:
    trail = Trail()
    for offset in offsets:
        trail.saw(0, offset, b"0:00000000")
    return trail
