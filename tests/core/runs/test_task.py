"""The effect of tasks on the state of their instance."""

from __future__ import annotations

import pytest

from app.core.runs.instance import TRANSITIONS, InstanceState, advance
from app.core.runs.task import TaskState, instance_state_by_tasks

S, T = InstanceState, TaskState


@pytest.mark.parametrize(
    ("current", "tasks", "after"),
    [
        (S.STARTING, [], S.STARTING),
        (S.STARTING, [T.STARTING, T.STARTING], S.STARTING),
        (S.STARTING, [T.STARTING, T.RUNNING], S.RUNNING),
        (S.STARTING, [T.BACKING_OFF], S.STARTING),
        (S.RUNNING, [T.BACKING_OFF], S.RUNNING),
        (S.UNREACHABLE, [T.BACKING_OFF], S.RUNNING),
        (S.RUNNING, [T.FENCED], S.RUNNING),
        (S.RUNNING, [T.PAUSED, T.PAUSED], S.PAUSED),
        (S.RUNNING, [T.PAUSED, T.STARTING], S.PAUSED),
        (S.PAUSED, [T.PAUSED, T.RUNNING], S.RUNNING),
        (S.RUNNING, [T.DRAINING, T.RUNNING], S.RUNNING),
        (S.RUNNING, [T.DRAINED, T.SUPERSEDED, T.FAILED], S.RUNNING),
        (S.DRAINING, [T.RUNNING], S.DRAINING),
        (S.UNREACHABLE, [T.RUNNING], S.RUNNING),
        (S.UNREACHABLE, [T.PAUSED], S.PAUSED),
        (S.UNREACHABLE, [T.STARTING], S.STARTING),
        (S.UNREACHABLE, [T.DRAINING, T.RUNNING], S.DRAINING),
        (S.UNREACHABLE, [T.DRAINED], S.UNREACHABLE),
        (S.SUBMITTING, [T.RUNNING], S.SUBMITTING),
        (S.STOPPED, [T.RUNNING], S.STOPPED),
    ],
)
def test_the_table_of_instances_and_their_tasks(
    current: InstanceState, tasks: list[TaskState], after: InstanceState
) -> None:
    assert instance_state_by_tasks(current, tasks) is after


@pytest.mark.parametrize("current", TRANSITIONS)
@pytest.mark.parametrize("task", TaskState)
def test_tasks_never_ask_for_an_illegal_move(current: InstanceState, task: TaskState) -> None:
    after = instance_state_by_tasks(current, [task])
    assert advance(current, after) is after
