"""A killed worker whose next attempt is held back: the server ends what it left open, and fences nobody who lives."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.fault_figures import measured
from tests.support.running_pipeline import RunningPipeline, TaskNow, now
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.slow]

HELD_BACK_AFTER = 6
"""Failures within ten minutes, after which the next attempt waits for eight seconds."""
ENDED_WITHIN_S = 4.0
"""A look of the driver at its stage, a heartbeat, a turn of the server, each up to a second; and the brokers."""


@pytest.fixture(scope="module")
def more_fields() -> Mapping[str, Any]:
    # Something is open nearly all of the time, and no timeout of the brokers' ends it first.
    return {"commit_interval_ms": 1_000, "transaction_timeout_ms": 120_000, "session_timeout_ms": 6_000}


def kill(task: TaskNow) -> None:
    os.kill(task.pid, signal.SIGKILL)


def next_attempt(running: RunningPipeline, before: TaskNow) -> TaskNow:
    """The attempt that follows, as soon as it is heard."""
    seen: list[TaskNow] = []

    def is_there() -> bool:
        seen.append(running.tasks()[0])
        return seen[-1].attempt > before.attempt

    wait_for(is_there, 40, lambda: f"an attempt after {before}; last heard {seen[-1]}")
    return seen[-1]


def ends(running: RunningPipeline) -> list[dict[str, Any]]:
    return list(running.server.get(f"/fencing?pipeline={running.name}&cause=dead_task")["items"])


def test_what_a_killed_worker_left_open_is_ended_while_its_next_attempt_waits(running: RunningPipeline) -> None:
    with measured(running, "Python worker, its next attempt held back"):
        victim = running.tasks()[0]
        for _ in range(HELD_BACK_AFTER - 1):
            kill(victim)
            victim = next_attempt(running, victim)
        running.wait_until_all_have_committed(60)
        assert running.tasks()[0].attempt == victim.attempt
        told = {one["id"] for one in ends(running)}
        killed_at = now()
        kill(victim)
        found: list[dict[str, Any]] = []

        def is_ended() -> bool:
            found[:] = [one for one in ends(running) if one["id"] not in told]
            return bool(found)

        wait_for(is_ended, 8, lambda: f"the end of what {victim} left open; heard {running.tasks()[0]}")
        took_s = now() - killed_at
        waiting = running.tasks()[0]
        assert (waiting.attempt, waiting.state) == (victim.attempt + 1, "backing_off"), waiting
        assert took_s < ENDED_WITHIN_S, found
        assert found[0]["place"]["attempt"] == victim.attempt, found
        successor = running.wait_until_another_attempt_committed(victim, 40)
        assert successor.attempt == victim.attempt + 1, "nobody fenced it"
