"""A killed worker with a delayed next attempt: the server ends its open transaction, and fences no living producer.

A killed instance: the server removes its task's member before its session ends.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest

from app.core.blocked.facts import ONGOING, KnownTransaction
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.transactions.client import TransactionClient
from tests.support.fault_figures import measured
from tests.support.running_pipeline import RunningPipeline, TaskNow, frozen
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.slow]

HELD_BACK_AFTER = 6
"""Failures within ten minutes, after which the next attempt waits for eight seconds."""
ASKED_FOR_S = 5.0
SESSION_S = 6
BEFORE_IT_BEGINS = frozenset({"starting", "backing_off"})


@pytest.fixture(scope="module")
def more_fields() -> Mapping[str, Any]:
    # Something is open nearly all of the time, and no timeout of the brokers' ends it first.
    return {"commit_interval_ms": 1_000, "transaction_timeout_ms": 120_000, "session_timeout_ms": SESSION_S * 1_000}


def kill(task: TaskNow) -> None:
    os.kill(task.pid, signal.SIGKILL)


def kill_with_something_open(running: RunningPipeline) -> None:
    """Kill the first task where its coordinator has a transaction open at the producer that the server knows.

    It is frozen during the request: between two transactions there would be nothing to end.
    """
    bootstrap_servers = running.pipeline.bootstrap_servers
    asked: list[object] = []

    def is_killed() -> bool:
        items = running.server.get(f"/runs/{running.run_id}/tasks")["items"]
        told = next(one["last"] for one in items if one["last"]["ordinal"] == 0)
        name, process = str(told["transactional_id"]), psutil.Process(told["pid"])
        with frozen([process]):
            attempt = ConnectionAttempt(bootstrap_servers, ASKED_FOR_S)
            with TransactionClient({"bootstrap.servers": bootstrap_servers}, attempt) as client:
                known = client.describe_transactions([name])[name]
            asked[:] = [known, told]
            if not isinstance(known, KnownTransaction) or known.state != ONGOING:
                return False
            if (known.producer_id, known.producer_epoch) != (told["producer_id"], told["producer_epoch"]):
                return False
            process.kill()
            return True

    wait_for(is_killed, 20, lambda: f"an open transaction of a reported producer; last {asked}")


def next_attempt(running: RunningPipeline, before: TaskNow) -> TaskNow:
    """The next attempt, after its first heartbeat."""
    seen: list[TaskNow] = []

    def is_there() -> bool:
        seen.append(running.tasks()[0])
        return seen[-1].attempt > before.attempt

    wait_for(is_there, 40, lambda: f"an attempt after {before}; last reported {seen[-1]}")
    return seen[-1]


def ends(running: RunningPipeline) -> list[dict[str, Any]]:
    return list(running.server.get(f"/fencing?pipeline={running.name}&cause=dead_task")["items"])


def test_open_transaction_of_a_killed_worker_is_ended_while_its_next_attempt_waits(running: RunningPipeline) -> None:
    with measured(running, "Python worker, its next attempt held back"):
        victim = running.tasks()[0]
        for _ in range(HELD_BACK_AFTER - 1):
            kill(victim)
            victim = next_attempt(running, victim)
        running.wait_until_all_have_committed(60)
        assert running.tasks()[0].attempt == victim.attempt
        kill_with_something_open(running)
        found: list[dict[str, Any]] = []
        heard: set[str] = set()

        def is_decided() -> bool:
            """Either it is ended and the next attempt was reported, or that one has continued: its init ends it then.

            The server may learn of the death, and act, before Spark has started the next attempt. That time depends on
            the machine. `dead_task` shows that our act came first: an id at another epoch is left alone.
            """
            task = running.tasks()[0]
            if task.attempt > victim.attempt:
                heard.add(task.state)
            found[:] = [one for one in ends(running) if one["place"] and one["place"]["attempt"] == victim.attempt]
            return bool(heard - {"starting"}) and (bool(found) or not heard <= BEFORE_IT_BEGINS)

        wait_for(is_decided, 60, lambda: f"the end of the transaction of {victim}; reported {running.tasks()[0]}")
        assert found, heard
        assert "backing_off" in heard, heard
        successor = running.wait_until_another_attempt_committed(victim, 40)
        assert successor.attempt == victim.attempt + 1, "it was not fenced"


def kill_instance(running: RunningPipeline, task: TaskNow) -> datetime:
    """SIGKILL to worker, daemon, executor and driver, so that no process leaves the group; returns the time."""
    instance, executor = running.instance(task.ordinal), running.executor(task.ordinal)
    daemon = psutil.Process(task.pid).ppid()
    began = datetime.now(UTC)
    for pid in (task.pid, daemon, executor.pid, instance["python_pid"], instance["jvm_pid"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return began


def test_member_of_a_killed_instance_is_removed_once_its_own_process_has_ended(running: RunningPipeline) -> None:
    running.wait_until_all_have_committed(60)
    victim = running.tasks()[0]
    began = kill_instance(running, victim)
    found: list[dict[str, Any]] = []

    def is_removed() -> bool:
        commands = running.server.get("/commands?limit=200")["items"]
        found[:] = [
            one
            for one in commands
            if one["verb"] == "evict_dead_member"
            and datetime.fromisoformat(one["at"]) >= began
            and one["details"]["ordinal"] == victim.ordinal
        ]
        return bool(found)

    wait_for(is_removed, 20, lambda: f"the removal of the member of {victim}")
    assert [one["why"] for one in found] == ["its own process on this host has ended"]
    assert (found[0]["details"]["lease"], found[0]["details"]["attempt"]) == (victim.lease, victim.attempt)
    assert (datetime.fromisoformat(found[0]["at"]) - began).total_seconds() < SESSION_S
    running.wait_until_another_attempt_committed(victim, 90)
    running.assert_nothing_lost_nothing_double()
