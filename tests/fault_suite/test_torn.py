"""A checkpoint of which one part came out and another did not, or not as one transaction: each way is reported."""

from __future__ import annotations

from app.core.journals.transaction_state import TransactionStatus
from tests.fault_suite.decided import Writer
from tests.fault_suite.judging import Input
from tests.fault_suite.logs_as_written import (
    ABORT,
    COMMIT,
    ENDS,
    FIRST,
    SECOND,
    World,
    ids,
    whole,
    wrong,
)


def test_one_partition_committed_and_the_other_aborted_is_torn() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.offsets(FIRST, {0: 4})
    world.end(FIRST, COMMIT, partitions=[0, 1])
    world.end(FIRST, ABORT, partitions=[2])
    verdict = world.verdict()
    assert wrong(verdict) == {"lost", "torn"}
    assert verdict.torn.count == 1
    assert "offsets without all of their outputs" in verdict.torn.examples[0]


def test_outputs_that_came_without_their_offsets_are_torn_though_every_id_is_there_once() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.end(FIRST, COMMIT)
    assert wrong(world.verdict()) == {"torn"}


def test_outputs_of_one_producer_and_offsets_of_another_are_torn() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.end(FIRST, COMMIT)
    world.offsets(SECOND, {0: 4})
    world.end(SECOND, COMMIT)
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert "outputs of another producer than the offsets" in verdict.torn.examples[0]


def test_an_older_epoch_of_the_same_producer_is_another_writer() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(Writer(1, 0), *ids(0, 0, 4))
    world.offsets(Writer(1, 1), {0: 4})
    world.end(Writer(1, 1), COMMIT)
    assert wrong(world.verdict()) == {"torn"}


def test_outputs_that_were_visible_a_transaction_before_their_offsets_are_torn() -> None:
    """The same producer commits outputs, then more of them with the offsets of both."""
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 1))
    world.end(FIRST, COMMIT)
    world.transaction(FIRST, ids(0, 1, 4), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert "two transactions of one partition" in verdict.torn.examples[1]


def test_outputs_of_an_earlier_transaction_are_torn_also_in_a_partition_that_the_next_one_does_not_have() -> None:
    """The outputs of both lie in partitions of their own, and the offsets came with the second."""
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(SECOND, [], {0: 0})
    world.transaction(FIRST, [], {0: 0})
    world.write(FIRST, Input(0, 0), Input(0, 3))
    world.end(FIRST, COMMIT)
    world.transaction(FIRST, ids(0, 1, 3), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    without, moved = verdict.torn.examples
    assert moved.startswith("outputs in partitions that are not those of its transaction")
    assert without.startswith("committed without offsets: transaction 1 of producer 1")


def test_outputs_that_were_committed_when_their_offsets_were_refused_are_torn() -> None:
    """The group's journal is named, but holds nothing of the first transaction: the second one brings its offsets."""
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, [Input(0, 0), Input(0, 3)], {0: 0})
    world.journal = world.journal[:-2]
    world.transaction(FIRST, ids(0, 1, 3), {0: 4})
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert verdict.torn.examples[0] == f"1 commits of offsets in 2 transactions of {FIRST} that have them"


def test_a_transaction_that_lacks_its_offsets_shifts_those_of_its_own_epoch_only() -> None:
    """The sink's partitions of the next one under that epoch are not those that are expected; a later epoch's are."""
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.transaction(FIRST, [], {0: 0})
    world.journal = world.journal[:-2]
    world.transaction(FIRST, ids(0, 0, 2), {0: 2})
    world.transaction(Writer(1, 1), ids(0, 2, 4), {0: 4})
    examples = world.verdict().torn.examples
    assert len(examples) == 2
    assert examples[0] == f"1 commits of offsets in 2 transactions of {FIRST} that have them"
    assert examples[1].startswith("outputs in partitions that are not those of its transaction, which are []: ")


def test_records_behind_an_open_transaction_are_neither_lost_nor_torn() -> None:
    world = World()
    world.write(Writer(9, 0), Input(0, 0))
    world.transaction(FIRST, ids(0, 0, 3), {0: 3})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    assert wrong(world.verdict()) == {"lost", "torn"}
    held_back = world.verdict(is_decided=False)
    assert (held_back.lost, wrong(held_back)) == (None, set())
    assert not held_back.is_exact


def test_before_all_has_come_out_only_missing_records_are_not_judged() -> None:
    world = whole()
    world.inputs.append(Input(1, 4))
    world.transaction(Writer(9, 0), ids(0, 2, 4), {0: 4})
    verdict = world.verdict(is_through=False)
    assert (verdict.lost, wrong(verdict)) == (None, {"duplicated"})


def test_a_transaction_that_is_not_complete_may_lack_its_markers() -> None:
    world = whole()
    world.write(FIRST, *ids(0, 0, 1))
    world.offsets(FIRST, {0: 4})
    world.coordinate(FIRST, TransactionStatus.PREPARE_COMMIT)
    assert world.verdict().is_exact
    assert [one.is_complete for one in world.coordinated()[FIRST.producer_id]] == [True, True, False]


def test_a_coordinators_last_record_before_the_end_is_its_decision() -> None:
    """An append that was not confirmed in time stays in the log beside the one that was."""
    world = whole()
    known = world.coordinated()
    world.coordinate(FIRST, TransactionStatus.PREPARE_COMMIT, *ENDS[ABORT])
    assert world.coordinated() == known
    world.coordinate(FIRST, TransactionStatus.PREPARE_COMMIT, *ENDS[COMMIT], TransactionStatus.COMPLETE_COMMIT)
    assert len(world.coordinated()[FIRST.producer_id]) == len(known[FIRST.producer_id]) + 1


def test_offsets_of_two_commits_over_one_transaction_of_the_sink_are_torn() -> None:
    world = World()
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.write(FIRST, *ids(0, 0, 4))
    world.offsets(FIRST, {0: 2})
    world.end(FIRST, COMMIT)
    world.offsets(FIRST, {0: 4})
    world.end(FIRST, COMMIT)
    verdict = world.verdict()
    assert wrong(verdict) == {"torn"}
    assert "those of another commit" in verdict.torn.examples[0]
