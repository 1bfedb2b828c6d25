"""The processes that are restarted, and those that are not; with processes that only wait."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator

import psutil
import pytest

from tests.fault_suite.freeze_points import is_stopped
from tests.fault_suite.plan import NotDoneError
from tests.fault_suite.workers import Workers
from tests.support.waiting import wait_for

_WITHIN_S = 10.0


class Sleeper:
    """Ends by SIGTERM as a drained task does."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["sleep", "600"])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_exit(self) -> int:
        return self._process.wait(_WITHIN_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(_WITHIN_S)


class Launched:
    def __init__(self) -> None:
        self.attempts: list[tuple[int, int]] = []
        self.sleepers: list[Sleeper] = []

    def __call__(self, task: int, attempt: int) -> Sleeper:
        self.attempts.append((task, attempt))
        self.sleepers.append(Sleeper())
        return self.sleepers[-1]


@pytest.fixture
def launched() -> Launched:
    return Launched()


@pytest.fixture
def workers(launched: Launched) -> Generator[Workers]:
    workers = Workers(2, launched)
    workers.start()
    yield workers
    workers.close()


def test_a_task_that_was_sent_away_is_restarted_only_when_brought_back(workers: Workers, launched: Launched) -> None:
    workers.send_away()
    assert not any(one.is_running for one in launched.sleepers)
    workers.replace(0)
    assert launched.attempts == [(0, 0), (1, 0), (0, 1)]
    workers.bring_back()
    wait_for(lambda: len(launched.attempts) == 4, _WITHIN_S, lambda: f"a start of the other; {launched.attempts}")
    assert launched.attempts[-1] == (1, 1)


def test_a_task_that_has_ended_is_started_again_with_the_next_attempt(workers: Workers, launched: Launched) -> None:
    first = workers.current(1).pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: len(launched.attempts) == 3, _WITHIN_S, lambda: f"a third start; {launched.attempts}")
    assert launched.attempts == [(0, 0), (1, 0), (1, 1)]
    assert workers.current(1).pid != first
    assert workers.task_of(first) == 1
    assert workers.name(1).startswith("task 1, attempt 1, pid ")


def test_a_frozen_worker_is_not_ended_and_a_replaced_one_is_not_restarted(workers: Workers, launched: Launched) -> None:
    frozen = workers.current(0)
    assert workers.send(0, signal.SIGSTOP) == frozen.pid
    wait_for(lambda: is_stopped(frozen.pid), _WITHIN_S, "a frozen process")
    workers.replace(0)
    assert launched.attempts == [(0, 0), (1, 0), (0, 1)]
    os.kill(frozen.pid, signal.SIGKILL)
    frozen.wait_for_exit()
    # The end of another one is seen; the one that was replaced has been passed by then.
    os.kill(workers.current(1).pid, signal.SIGKILL)
    wait_for(lambda: (1, 1) in launched.attempts, _WITHIN_S, lambda: f"another start; {launched.attempts}")
    assert launched.attempts == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_worker_that_has_ended_by_itself_cannot_be_hit(launched: Launched) -> None:
    """The kernel takes signals for it until its exit code was read."""
    untended = Workers(0, launched)
    task = untended.add()
    try:
        pid = untended.current(task).pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, _WITHIN_S, "its end")
        with pytest.raises(NotDoneError, match="task 0 has ended by itself"):
            untended.send(task, signal.SIGTERM)
        assert not is_stopped(pid)
    finally:
        untended.close()


def test_a_drain_ends_all_workers_and_starts_none(workers: Workers, launched: Launched) -> None:
    workers.drain()
    assert not any(sleeper.is_running for sleeper in launched.sleepers)
    assert len(launched.attempts) == 2


def test_a_start_that_fails_is_reported_when_it_is_drained(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_launched: Launched, _task: int, _attempt: int) -> Sleeper:
        raise OSError("no room")

    monkeypatch.setattr(Launched, "__call__", fail)
    os.kill(workers.current(0).pid, signal.SIGKILL)
    wait_for(lambda: not workers.is_tending, _WITHIN_S, "the end of the tending")
    with pytest.raises(OSError, match="no room"):
        workers.drain()


def test_a_task_that_is_retired_drains_and_is_the_first_to_be_added_again(workers: Workers, launched: Launched) -> None:
    assert workers.add() == 2
    workers.retire(1)
    wait_for(lambda: not launched.sleepers[1].is_running, _WITHIN_S, "the end of the one that was retired")
    assert workers.tasks == [0, 2]
    # The end of another one is seen; the one that was retired has been passed by then.
    os.kill(workers.current(2).pid, signal.SIGKILL)
    wait_for(lambda: (2, 1) in launched.attempts, _WITHIN_S, lambda: f"another start; {launched.attempts}")
    assert (1, 1) not in launched.attempts
    assert workers.add() == 1
    assert workers.name(1).startswith("task 1, attempt 1, pid ")
    assert workers.tasks == [0, 1, 2]


def test_an_attempt_that_was_replaced_while_it_lived_is_drained_once(workers: Workers, launched: Launched) -> None:
    former = workers.name(0)
    workers.replace(0)
    assert workers.end_former() == [former]
    assert workers.end_former() == []
    launched.sleepers[0].wait_for_exit()
    assert workers.current(0).is_running
    assert workers.current(1).is_running
    assert launched.attempts == [(0, 0), (1, 0), (0, 1)]
