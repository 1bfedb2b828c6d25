"""The end of a task's own process is evidence only after it was found, below its own application."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from app.core.runs.observation import ReportedProcess
from app.edges.spark.task_processes import TaskProcesses
from tests.support.waiting import wait_for

APPLICATION = "app-20260101000000-0007"
_DEADLINE_S = 20.0
# An executor that starts a worker and never waits for it, as PySpark's daemon does for a moment.
_EXECUTOR = """\
import subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *sys.argv[2:]])
print(worker.pid, flush=True)
time.sleep(600)
"""

StartWorker = Callable[..., ReportedProcess]


@pytest.fixture
def start_worker() -> Generator[StartWorker]:
    """A worker below an executor whose arguments have `above`; a heartbeat of this moment names it."""
    executors: list[subprocess.Popen[bytes]] = []

    def start(*, above: str = APPLICATION, module: str = "pyspark.daemon") -> ReportedProcess:
        command = [sys.executable, "-c", _EXECUTOR, above, module]
        executor = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        executors.append(executor)
        assert executor.stdout is not None
        pid = int(executor.stdout.readline())
        process = psutil.Process(pid)
        wait_for(lambda: module in process.cmdline(), _DEADLINE_S, "the worker's own arguments")
        return ReportedProcess(
            run_id="r",
            ordinal=0,
            lease=1,
            task=0,
            attempt=0,
            pid=pid,
            sent_at_ms=time.time_ns() // 1_000_000,
            application_id=APPLICATION,
            log_path=None,
        )

    yield start
    for executor in executors:
        os.killpg(executor.pid, signal.SIGKILL)
        executor.communicate()


@pytest.fixture
def processes(tmp_path: Path) -> Callable[..., list[ReportedProcess]]:
    known = TaskProcesses()
    return lambda *reported: known.ended(reported, folder_of=lambda _: tmp_path / "lease")


Processes = Callable[..., list[ReportedProcess]]


def kill(worker: ReportedProcess) -> None:
    """It stays as a zombie: its parent does not wait for it."""
    os.kill(worker.pid, signal.SIGKILL)
    process = psutil.Process(worker.pid)
    wait_for(lambda: process.status() == psutil.STATUS_ZOMBIE, _DEADLINE_S, "the end of the worker")


def test_end_of_a_found_process_is_returned_once(start_worker: StartWorker, processes: Processes) -> None:
    worker = start_worker()
    assert processes(worker) == []
    assert processes(replace(worker, sent_at_ms=worker.sent_at_ms + 500)) == []
    kill(worker)
    # Its last heartbeat is the newest report still; or its lease has ended meanwhile.
    assert processes(worker) == [worker]
    assert (processes(worker), processes()) == ([], [])


def test_process_that_was_never_found_has_not_ended(start_worker: StartWorker, processes: Processes) -> None:
    worker = start_worker()
    kill(worker)
    assert (processes(worker), processes(worker)) == ([], [])


def test_frozen_process_has_not_ended(start_worker: StartWorker, processes: Processes) -> None:
    worker = start_worker()
    processes(worker)
    os.kill(worker.pid, signal.SIGSTOP)
    wait_for(
        lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED, _DEADLINE_S, "the freeze of the worker"
    )
    assert processes(worker) == []
    kill(worker)
    assert processes(worker) == [worker]


@pytest.mark.parametrize(
    ("above", "module"),
    [("app-20260101000000-0008", "pyspark.daemon"), (APPLICATION, "other.daemon")],
    ids=["another application", "no PySpark worker"],
)
def test_process_that_is_not_certainly_the_senders_is_not_watched(
    start_worker: StartWorker, processes: Processes, above: str, module: str
) -> None:
    """The pid of the report may be one of another namespace."""
    worker = start_worker(above=above, module=module)
    processes(worker)
    kill(worker)
    assert processes(worker) == []


def test_process_that_is_younger_than_the_heartbeat_is_another_one(
    start_worker: StartWorker, processes: Processes
) -> None:
    worker = start_worker()
    earlier = replace(worker, sent_at_ms=worker.sent_at_ms - 60_000)
    processes(earlier)
    kill(worker)
    assert processes(earlier) == []


def test_worker_below_the_leases_own_driver_is_watched(
    start_worker: StartWorker, processes: Processes, tmp_path: Path
) -> None:
    """With a local master the driver's JVM is the executor."""
    worker = start_worker(above=str(tmp_path / "lease" / "specification.json"))
    processes(worker)
    kill(worker)
    assert processes(worker) == [worker]


def test_process_that_serves_the_next_attempt_ends_that_one_only(
    start_worker: StartWorker, processes: Processes
) -> None:
    worker = start_worker()
    processes(worker)
    processes(replace(worker, attempt=1))
    kill(worker)
    assert processes() == [replace(worker, attempt=1)]


def test_both_attempts_are_watched_while_the_earlier_process_lives(
    start_worker: StartWorker, processes: Processes
) -> None:
    first, second = start_worker(), replace(start_worker(), attempt=1)
    processes(first)
    processes(second)
    kill(first)
    assert processes(second) == [first]
    kill(second)
    assert processes(second) == [second]
