"""A task is `running` while its group has given it a generation; before and long after that it is `starting`."""

from __future__ import annotations

import pytest

from app.core.wire.heartbeat import DesiredTaskState, TaskState
from tests.workers.loop.many_lanes import Looks, Many
from tests.workers.loop.test_checkpoint import ScriptedProducer
from workers.loop.group.membership import Membership

STARTING, RUNNING = TaskState.STARTING, TaskState.RUNNING

# Each turn: seconds since the one before, the client's generation then, and the reported state.
TURNS: tuple[tuple[float, int | None, TaskState], ...] = (
    (0.0, None, STARTING),
    (60.0, -1, STARTING),
    (60.0, 0, STARTING),
    (1.0, 1, RUNNING),
    # A rebalance is no absence.
    (4.5, None, RUNNING),
    (0.5, None, STARTING),
    (60.0, None, STARTING),
    (1.0, 2, RUNNING),
    (4.0, 0, RUNNING),
    (0.5, 3, RUNNING),
    (4.5, None, RUNNING),
    (0.5, -1, STARTING),
)


def test_a_task_is_running_from_its_generation_on_and_for_five_seconds_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = Many(lambda _: ScriptedProducer())

    def no_look(_: Membership) -> None:
        """There is no consumer to read positions from."""

    monkeypatch.setattr(many.progress, "look", no_look)
    told: list[TaskState] = []
    turns = iter(TURNS)

    def next_turn() -> None:
        passed_s, many.group.generation_now, _ = next(turns)
        many.clock[0] += passed_s

    def polled() -> None:
        told.append(many.progress.state)
        if len(told) < len(TURNS):
            next_turn()
        else:
            many.control.wanted = DesiredTaskState.DRAIN

    many.group.polled = polled
    next_turn()
    many.loop(starting=Looks()).run(["t"])
    assert told[: len(TURNS)] == [state for _, _, state in TURNS]
