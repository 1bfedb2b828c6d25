"""The judge's input from the journals and the logs."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fault_suite.consumed import GroupJournal
from tests.fault_suite.decided import DecidedLog, UnreadableLogError, Writer
from tests.fault_suite.judging import Input, Judge, identity_of
from tests.fault_suite.logs_as_written import (
    ABORT,
    COMMIT,
    FIRST,
    GROUP,
    SECOND,
    SOURCE,
    World,
    ids,
    whole,
    wrong,
)


def test_a_commit_of_an_older_offset_is_reported() -> None:
    world = whole()
    world.offsets(SECOND, {0: 1})
    world.end(SECOND, COMMIT)
    world.offsets(SECOND, {0: 4})
    world.end(SECOND, COMMIT)
    verdict = world.verdict()
    # Once: to come forward again consumes nothing that was not consumed before.
    assert (wrong(verdict), verdict.went_back.count) == ({"went_back"}, 1)


def test_commits_of_starts_and_of_positions_behind_markers_consume_nothing() -> None:
    world = World()
    world.offsets(FIRST, {0: 0, 1: 0})
    world.end(FIRST, COMMIT)
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, ids(0, 0, 4), {0: 4})
    world.offsets(FIRST, {0: 4, 1: 4})
    world.end(FIRST, COMMIT)
    assert world.verdict().is_exact


def test_a_source_with_an_id_missing_or_twice_is_refused() -> None:
    judge = Judge()
    judge.input(Input(0, 0), 0, b"")
    with pytest.raises(ValueError, match="where 1 should follow"):
        judge.input(Input(0, 2), 1, b"")
    with pytest.raises(ValueError, match="where 1 should follow"):
        judge.input(Input(0, 0), 1, b"")


def test_the_journal_shows_open_and_aborted_offsets_and_those_outside_of_a_transaction() -> None:
    world = World()
    world.transaction(FIRST, [], {0: 1}, ABORT)
    world.offsets(FIRST, {0: 1})
    world.offsets(Writer(-1, -1), {1: 2}, is_transactional=False)
    journal, other = GroupJournal(GROUP, SOURCE), GroupJournal("another", SOURCE)
    for batch in world.journal:
        journal.batch(batch)
        other.batch(batch)
    assert (journal.open, journal.aborted, journal.consumed) == ([FIRST], 1, [])
    assert len(journal.untransacted) == 1
    assert (other.open, other.aborted, other.consumed, other.untransacted) == ([], 0, [], [])


def test_a_log_shows_transactions_without_a_marker() -> None:
    world = whole()
    world.write(SECOND, Input(0, 0))
    log = DecidedLog()
    for batch in world.sink[0]:
        log.batch(batch)
    assert log.open == [SECOND]
    assert log.committed_at(world.sink[0][-1].base_offset) is None
    assert log.committed_at(10_000) is None


def test_a_log_of_which_something_is_gone_is_refused() -> None:
    """Nothing that is not there can be judged: a compacted journal must not look like a short one."""
    world = whole()
    with pytest.raises(UnreadableLogError, match="records are gone"):
        DecidedLog().batch(world.sink[0][1])
    journal = GroupJournal(GROUP, SOURCE)
    journal.batch(world.journal[0])
    with pytest.raises(UnreadableLogError, match="records are gone"):
        journal.batch(world.journal[2])


def test_ten_million_ids_fit_into_a_few_hundred_megabytes() -> None:
    count = 100_000
    tracemalloc.start()
    try:
        judge = Judge()
        before, _ = tracemalloc.get_traced_memory()
        for sequence in range(count):
            judge.input(Input(0, sequence), sequence, b"")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / count < 15


@given(st.integers(0, 99), st.integers(0, 10**8 - 1), st.binary())
def test_ids_are_read_back(partition: int, sequence: int, rest: bytes) -> None:
    identity = Input(partition, sequence)
    assert identity_of(str(identity).encode() + b" " + rest) == identity
