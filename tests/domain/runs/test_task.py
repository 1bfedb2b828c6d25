"""Rates from two reports, and what tasks make of their instance."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.runs.instance import TRANSITIONS, InstanceState, advance
from app.domain.runs.task import Counters, TaskRates, TaskReport, TaskState, instance_state_by_tasks, rates_between

S, T = InstanceState, TaskState


def report(*, at_ms: int, attempt: int = 0, lease: int = 1, **counters: Any) -> TaskReport:
    return TaskReport(
        run_id="r",
        ordinal=0,
        lease=lease,
        task=0,
        attempt=attempt,
        sequence=at_ms,
        sent_at_ms=at_ms,
        host="h",
        pid=1,
        state=T.RUNNING,
        counters=Counters(**counters),
    )


def test_rates_are_per_second_between_two_reports() -> None:
    rates = rates_between(
        report(at_ms=1000, records_in=10, bytes_out=0), report(at_ms=1500, records_in=20, bytes_out=6)
    )
    assert (rates.records_in_per_s, rates.bytes_out_per_s, rates.aborts_per_s) == (20, 12, 0)


@pytest.mark.parametrize(
    "before",
    [
        None,
        report(at_ms=2000),
        report(at_ms=3000),
        report(at_ms=1000, attempt=1),
        report(at_ms=1000, lease=2),
    ],
    ids=["the first", "no time passed", "time went back", "another attempt", "another lease"],
)
def test_without_two_reports_of_one_attempt_there_is_no_rate(before: TaskReport | None) -> None:
    assert rates_between(before, report(at_ms=2000, records_in=5)) == TaskRates()


@pytest.mark.parametrize(
    ("current", "tasks", "after"),
    [
        (S.STARTING, [], S.STARTING),
        (S.STARTING, [T.STARTING, T.STARTING], S.STARTING),
        (S.STARTING, [T.STARTING, T.RUNNING], S.RUNNING),
        (S.STARTING, [T.BACKING_OFF], S.RUNNING),
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
