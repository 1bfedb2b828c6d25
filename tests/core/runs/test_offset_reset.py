"""The changes of an offset reset."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.core.clusters.partition import Partition
from app.core.runs.offset_reset import (
    OffsetChange,
    OffsetTarget,
    OffsetTargetKind,
    PartitionOffset,
    ResetBounds,
    effects_of,
    plan,
)
from app.kit.errors import Problem

BOUNDS = {
    Partition("b", 0): ResetBounds(earliest=5, end=9),
    Partition("a", 1): ResetBounds(earliest=0, end=3),
    Partition("a", 0): ResetBounds(earliest=2, end=2),
}
K = OffsetTargetKind


def changes(target: OffsetTarget) -> list[tuple[str, int, int, int]]:
    planned = plan(target, committed={Partition("b", 0): 7}, bounds=BOUNDS, at_timestamp={Partition("b", 0): 6})
    return [(c.topic, c.partition, c.target, c.records) for c in planned if isinstance(c, OffsetChange)]


def test_every_partition_by_topic_and_number() -> None:
    assert changes(OffsetTarget(kind=K.EARLIEST)) == [("a", 0, 2, 0), ("a", 1, 0, 3), ("b", 0, 5, 2)]
    assert changes(OffsetTarget(kind=K.LATEST)) == [("a", 0, 2, 0), ("a", 1, 3, 0), ("b", 0, 9, -2)]


def test_a_moment_after_the_last_record_is_the_end() -> None:
    target = OffsetTarget(kind=K.TIMESTAMP, timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    assert [row[2] for row in changes(target)] == [2, 3, 6]


def test_named_offsets_move_nothing_else() -> None:
    target = OffsetTarget(kind=K.OFFSETS, offsets=(PartitionOffset(topic="a", partition=1, offset=2),))
    assert changes(target) == [("a", 1, 2, 1)]


def resumed(committed: dict[Partition, int]) -> list[OffsetChange] | list[Problem]:
    return plan(
        OffsetTarget(kind=K.RECORDED),
        committed=committed,
        bounds=BOUNDS,
        at_timestamp={},
        recorded={Partition("b", 0): 6, Partition("a", 1): 3},
    )


@pytest.mark.parametrize("kept", [5, 8], ids=["set back on purpose", "committed after the last report"])
def test_a_resume_moves_only_partitions_without_a_committed_offset(kept: int) -> None:
    [change] = resumed({Partition("b", 0): kept})
    assert isinstance(change, OffsetChange)
    assert (change.topic, change.partition, change.target) == ("a", 1, 3)


def test_a_resume_of_a_group_that_has_lost_nothing_is_refused() -> None:
    [problem] = resumed({Partition("b", 0): 5, Partition("a", 1): 1})
    assert isinstance(problem, Problem)
    assert "has a committed offset for each recorded partition" in problem.message


@pytest.mark.parametrize(
    ("target", "field"),
    [
        (OffsetTarget(kind=K.TIMESTAMP), "timestamp"),
        (OffsetTarget(kind=K.OFFSETS), "offsets"),
        (
            OffsetTarget(kind=K.OFFSETS, offsets=(PartitionOffset(topic="z", partition=0, offset=0),)),
            "offsets.0",
        ),
        (
            OffsetTarget(kind=K.OFFSETS, offsets=(PartitionOffset(topic="b", partition=0, offset=4),)),
            "offsets.0.offset",
        ),
    ],
)
def test_a_target_that_means_nothing_is_a_problem_at_its_field(target: OffsetTarget, field: str) -> None:
    (problem,) = plan(target, committed={}, bounds=BOUNDS, at_timestamp={})
    assert isinstance(problem, Problem)
    assert problem.field == field


def change(committed: int | None, target: int) -> OffsetChange:
    return OffsetChange(topic="in", partition=0, committed=committed, target=target, earliest=0, end=100)


def test_effects_are_told_for_outputs() -> None:
    assert effects_of([change(7, 7)]) == effects_of([]) == ["No offset changes."]
    again, never, unknown = effects_of([change(7, 4), change(9, 8), change(5, 6), change(None, 90)])
    assert again == "Up to 4 records of 2 partitions are read again: their outputs will be written twice."
    assert never == "Up to 1 record of 1 partition is skipped: it is never processed, without any output."
    assert unknown.startswith("1 partition without a committed offset: up to 10 records are there to be read.")
