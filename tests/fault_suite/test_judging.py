"""The verdict on logs as brokers write them: exact where all is well, and each kind of wrong seen for what it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fault_suite.decided import Writer
from tests.fault_suite.judging import Input
from tests.fault_suite.logs_as_written import (
    ABORT,
    COMMIT,
    FIRST,
    SECOND,
    World,
    ids,
    whole,
    wrong,
)

ROOT = Path(__file__).parents[2]


def test_well_nothing_is_wrong() -> None:
    verdict = whole().verdict()
    assert verdict.is_exact, str(verdict)
    assert (verdict.expected, verdict.found, verdict.transactions) == (8, 8, 3)


Round = tuple[int, int, bool, bool]
ROUND = st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.booleans())


@given(rounds=st.lists(ROUND, max_size=12), bumps=st.booleans())
def test_every_order_of_commits_and_aborts_is_exact(rounds: list[Round], bumps: bool) -> None:
    """Two workers write at once, a partition each, which they swap now and then. bumps: epochs as since KIP-890."""
    world, reached = World(ids=20), [0, 0]
    for number, (one, other, commits, swap) in enumerate([*rounds, (40, 40, True, False)]):
        epoch = number if bumps else 0
        first, second = (Writer(1, epoch), Writer(2, epoch)) if swap else (Writer(2, epoch), Writer(1, epoch))
        ends = [min(20, reached[0] + one), min(20, reached[1] + other)]
        world.write(first, *ids(0, reached[0], ends[0]))
        world.write(second, *ids(1, reached[1], ends[1]))
        world.offsets(second, {1: ends[1]})
        world.offsets(first, {0: ends[0]})
        world.end(first, COMMIT if commits else ABORT)
        world.end(second, COMMIT)
        reached = [ends[0] if commits else reached[0], ends[1]]
    verdict = world.verdict()
    assert verdict.is_exact, str(verdict)
    assert verdict.found == 40


def test_offsets_that_came_without_an_output_are_a_loss() -> None:
    world = World()
    world.transaction(FIRST, [*ids(0, 0, 1), *ids(0, 2, 4)], {0: 4})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    verdict = world.verdict()
    assert verdict.lost is not None
    assert verdict.lost.examples == ("0:00000001, offset 3 of the source",)
    # From outside it cannot be distinguished from a transaction of which one output was not returned.
    assert wrong(verdict) == {"lost", "torn"}


def test_an_input_that_is_not_consumed_is_lost_and_not_torn() -> None:
    world = World()
    world.transaction(FIRST, ids(0, 0, 3), {0: 3})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"lost"}
    assert verdict.lost is not None
    assert verdict.lost.examples == ("0:00000003, offset 7 of the source",)


def test_a_zombie_that_commits_the_same_once_more_duplicates() -> None:
    world = whole()
    world.transaction(Writer(9, 0), ids(0, 2, 4), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"duplicated"}
    again = [example.partition(" again at ") for example in verdict.duplicated.examples]
    # The first partition that is read has every third id: it shows where the second one lies.
    assert [(identity, place.rpartition(" of ")[2]) for identity, _, place in again] == [
        ("0:00000003", "partition 0"),
        ("0:00000002", "partition 2"),
    ]


def test_an_id_that_comes_three_times_is_one_duplicate() -> None:
    world = whole()
    for pid in (8, 9):
        world.write(Writer(pid, 0), Input(0, 3))
        world.end(Writer(pid, 0), COMMIT)
    assert world.verdict().duplicated.count == 1


def test_an_output_outside_of_a_transaction_counts_as_returned_without_a_commit() -> None:
    world = whole()
    world.write(FIRST, Input(1, 0), is_transactional=False)
    assert wrong(world.verdict()) == {"duplicated", "uncommitted"}


def test_aborted_records_that_a_consumer_gets_are_reported() -> None:
    world = whole()
    shown = {partition: list(world.shown(partition)) for partition in world.sink}
    aborted = world.sink[0][0]
    shown[0].insert(0, (aborted.base_offset, b"0:00000000 padding"))
    assert wrong(world.verdict(shown)) == {"duplicated", "uncommitted", "torn"}


def test_ids_of_a_source_partition_that_changed_places_are_out_of_order() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, [Input(0, 3), Input(0, 0), Input(0, 1), Input(0, 2)], {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"out_of_order"}
    assert verdict.out_of_order.count == 1
    assert verdict.out_of_order.examples[0].startswith("0:00000000 after 0:00000003")


@pytest.mark.parametrize("value", [b"2:00000000 x", b"0:00000004 x", b"hello", b"", b":1 x", b"1: x"])
def test_an_output_that_is_no_id_of_the_source_is_unexpected(value: bytes) -> None:
    world = whole()
    world.append(0, FIRST, [value], is_transactional=True)
    world.end(FIRST, COMMIT)
    assert wrong(world.verdict()) == {"unexpected"}


def test_an_output_with_the_id_of_its_input_and_other_bytes_is_altered() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 3))
    world.append(0, FIRST, [b"0:00000003 of another record"], is_transactional=True)
    world.offsets(FIRST, {0: 4})
    world.end(FIRST, COMMIT)
    verdict = world.verdict()
    assert wrong(verdict) == {"altered"}
    assert verdict.altered.examples[0].startswith("0:00000003 at offset")


def test_the_verdict_is_made_without_a_module_of_the_loop() -> None:
    """A judge of its own output would be believed in its mistakes."""
    asked = "import sys, tests.fault_suite.reading; print([name for name in sys.modules if name.startswith('workers')])"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "[]"
