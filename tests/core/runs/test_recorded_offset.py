"""Confirmed offsets compared with those of the group: lost, moved, or equal."""

from __future__ import annotations

import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import StartPosition
from app.core.runs.offset_reset import ResetBounds
from app.core.runs.recorded_offset import (
    Compared,
    LostOffset,
    MovedOffset,
    RecordedOffset,
    StaleOffset,
    TruncatedOffset,
    UnansweredOffset,
    compare,
    is_same_topic,
    lost_sentence,
    problems,
)

BOUNDS: dict[Partition, ResetBounds | str] = {
    Partition("in", number): ResetBounds(earliest=2, end=10) for number in range(3)
}


def of(
    committed: dict[int, int],
    *recorded: RecordedOffset,
    start: StartPosition = StartPosition.EARLIEST,
    topic_id: str | None = "a",
    bounds: dict[Partition, ResetBounds | str] | None = None,
) -> Compared:
    return compare(
        recorded,
        committed={Partition("in", number): offset for number, offset in committed.items()},
        partitions=BOUNDS.keys(),
        bounds=BOUNDS if bounds is None else bounds,
        topic_ids={"in": topic_id},
        start_position=start,
    )


def at(partition: int, offset: int, *, topic_id: str | None = "a", is_final: bool = False) -> RecordedOffset:
    return RecordedOffset(topic="in", partition=partition, offset=offset, topic_id=topic_id, is_final=is_final)


@pytest.mark.parametrize(("start", "begins"), [(StartPosition.EARLIEST, 2), (StartPosition.LATEST, 10)])
def test_a_lost_offset_names_where_a_start_would_begin(start: StartPosition, begins: int) -> None:
    assert of({}, at(0, 7), start=start).lost == (LostOffset(topic="in", partition=0, recorded=7, begins=begins),)


@pytest.mark.parametrize(
    ("begins", "is_final", "said"),
    [
        (2, True, "in-0 was committed at 7 and would begin at 2 (5 offsets processed again)"),
        (2, False, "in-0 was committed at 7 or later and would begin at 2 (at least 5 offsets processed again)"),
        (10, True, "in-0 was committed at 7 and would begin at 10 (3 offsets skipped)"),
        (10, False, "in-0 was committed at 7 or later and would begin at 10 (at most 3 offsets skipped)"),
    ],
)
def test_a_loss_is_exact_only_where_the_record_is_final(begins: int, is_final: bool, said: str) -> None:
    start = StartPosition.EARLIEST if begins == 2 else StartPosition.LATEST
    assert [str(one) for one in of({}, at(0, 7, is_final=is_final), start=start).lost] == [said]


def test_latest_in_a_group_that_has_begun_reads_a_partition_from_its_beginning() -> None:
    [lost] = of({0: 7}, at(0, 7), at(1, 7), start=StartPosition.LATEST).lost
    assert (lost.partition, lost.begins) == (1, 2)


@pytest.mark.parametrize(
    "recorded",
    [
        at(0, 2),
        at(0, 7, topic_id="b"),
        at(9, 7),
    ],
    ids=["it begins there anyway", "a topic made anew", "a partition that is not read"],
)
def test_equal_offsets_are_not_a_loss(recorded: RecordedOffset) -> None:
    assert of({}, recorded) == Compared()


@pytest.mark.parametrize(
    ("committed", "is_final", "is_moved"), [(5, False, True), (9, True, True), (9, False, False), (7, True, False)]
)
def test_an_offset_ahead_has_been_moved_only_where_nothing_was_committed_after_the_report(
    committed: int, is_final: bool, is_moved: bool
) -> None:
    moved = (MovedOffset(topic="in", partition=0, recorded=7, committed=committed),) if is_moved else ()
    assert of({0: committed}, at(0, 7, is_final=is_final)) == Compared(moved=moved)


def test_an_offset_that_the_group_still_has_of_a_deleted_topic_is_not_read_from() -> None:
    stale = (StaleOffset(topic="in", partition=0, committed=7),)
    assert of({0: 7}, at(0, 9, topic_id="b", is_final=True)) == Compared(stale=stale)


def test_a_partition_without_a_leader_says_so_and_hides_nothing_of_the_others() -> None:
    bounds: dict[Partition, ResetBounds | str] = {
        Partition("in", 1): "no leader",
        Partition("in", 2): ResetBounds(earliest=2, end=10),
    }
    found = of({0: 7}, at(0, 7), at(1, 8), at(2, 9), bounds=bounds)
    assert found == Compared(
        lost=(LostOffset(topic="in", partition=2, recorded=9, begins=2),),
        unanswered=(UnansweredOffset(topic="in", partition=1, recorded=8, reason="no leader"),),
    )


def test_ids_are_the_same_in_either_alphabet_and_where_one_is_not_known() -> None:
    assert is_same_topic(at(0, 1, topic_id="a+b/c"), "a-b_c")
    assert is_same_topic(at(0, 1, topic_id=None), "x")
    assert is_same_topic(at(0, 1), None)
    assert not is_same_topic(at(0, 1), "x")


def test_a_sentence_names_three_and_counts_the_rest() -> None:
    lost = of({}, *(at(number, 7) for number in range(3))).lost
    many = (*lost, *lost)
    said = lost_sentence("g", many)
    assert said.count("would begin at") == 3
    assert said.endswith("and 3 more partitions")


@pytest.mark.parametrize("is_query", [False, True])
def test_only_commands_with_an_effect_are_named(is_query: bool) -> None:
    """A query begins at its checkpoint: another offset of its group would change nothing."""
    found = Compared(
        lost=of({}, at(0, 7)).lost,
        stale=(StaleOffset(topic="in", partition=0, committed=7),),
        truncated=(TruncatedOffset(topic="in", partition=0, committed=7, epoch=1, end=5),),
    )
    said = [problem.message for problem in problems("flights", "g", found, is_query=is_query)]
    assert len(said) == 3
    assert all(("fenceline new-checkpoint flights" in each) is is_query for each in said), said
    assert any("--to earliest" in each or "--set" in each for each in said) is not is_query
    assert "fenceline runs offsets flights --to recorded" in said[0]
