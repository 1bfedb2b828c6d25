"""The processes that count as tasks, and their drivers; with processes that only wait in place of Spark's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import psutil
import pytest

from app.edges.embedded.ports import free_ports
from app.edges.embedded.spark import Executor, SparkCluster
from tests.fault_suite.plan import NotDoneError
from tests.fault_suite.spark_stage.processes import Driver, SparkProcesses, chosen, hit, send
from tests.support.waiting import wait_for

_WITHIN_S = 30.0
# Each starts the next one; the last one waits.
_FAMILY = """
import subprocess, sys, time
left = int(sys.argv[1])
if left:
    subprocess.Popen([sys.executable, "-c", sys.argv[2], str(left - 1), *sys.argv[2:]])
time.sleep(600)
"""
# The Python driver is the child of a process that listens, as the JVM does.
_DRIVER = """
import socket, subprocess, sys, time
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[2]])
time.sleep(600)
"""


@dataclass
class Cluster:
    """As much of a Spark cluster as is asked."""

    running: list[Executor]

    def executors(self) -> list[Executor]:
        return self.running


@pytest.fixture
def free_port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def family() -> Generator[list[int]]:
    """Executor, daemon, worker."""
    root = subprocess.Popen([sys.executable, "-c", _FAMILY, "2", _FAMILY])
    found: list[int] = []

    def is_complete() -> bool:
        found[:] = [root.pid, *(child.pid for child in psutil.Process(root.pid).children(recursive=True))]
        return len(found) == 3

    wait_for(is_complete, _WITHIN_S, lambda: f"three generations; there are {found}")
    yield found
    send(found, signal.SIGKILL)
    root.wait(_WITHIN_S)


def of(running: list[Executor], state_dir: Path) -> SparkProcesses:
    return SparkProcesses(cast(SparkCluster, Cluster(running)), state_dir)


def test_a_task_has_a_daemon_and_an_executor_and_an_orphan_is_none(family: list[int], tmp_path: Path) -> None:
    executor, daemon, worker = family
    processes = of([Executor(executor, "app-1", "0")], tmp_path)
    (task,) = processes.tasks()
    assert (task.worker, task.daemon, task.executor.pid) == (worker, daemon, executor)
    os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: not processes.tasks(), _WITHIN_S, lambda: f"no task; {processes.tasks()}")
    assert psutil.pid_exists(worker)


def test_a_worker_that_was_asked_to_end_is_no_task_any_more_though_it_lingers(
    family: list[int], tmp_path: Path
) -> None:
    executor, _, worker = family
    processes = of([Executor(executor, "app-1", "0")], tmp_path)
    (task,) = processes.tasks()
    os.kill(worker, signal.SIGSTOP)
    processes.tell_to_end(task)
    assert psutil.pid_exists(worker)
    assert processes.tasks() == []


def test_the_driver_of_a_task_is_the_one_that_listens_at_its_executors_address(tmp_path: Path, free_port: int) -> None:
    executor = subprocess.Popen(
        [sys.executable, "-c", _FAMILY, "2", _FAMILY, "--driver-url", f"spark://Scheduler@127.0.0.1:{free_port}"]
    )
    jvm = subprocess.Popen([sys.executable, "-c", _DRIVER, str(free_port), f"{tmp_path}/driver.log"])
    processes = of([Executor(executor.pid, "app-1", "0")], tmp_path)
    try:
        (task,) = processes.wait_for_tasks()
        driver = wait_for(lambda: processes.driver_of(task), _WITHIN_S, lambda: f"a driver; {processes.drivers()}")
        assert driver is not None
        assert driver.jvm == jvm.pid
        assert processes.wait_for_working_drivers() == [driver]
        others = of([Executor(executor.pid, "app-1", "0")], tmp_path / "elsewhere")
        assert others.driver_of(task) is None, "its files lie elsewhere"
    finally:
        for root in (jvm, executor):
            send(
                [*(child.pid for child in psutil.Process(root.pid).children(recursive=True)), root.pid], signal.SIGKILL
            )
            root.wait(_WITHIN_S)


def test_a_process_that_is_gone_is_not_hit_nor_another_in_its_place() -> None:
    gone, other = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
    try:
        gone.kill()
        wait_for(lambda: psutil.Process(gone.pid).status() == psutil.STATUS_ZOMBIE, _WITHIN_S, "its end")
        with pytest.raises(NotDoneError, match=f"process {gone.pid} is gone"):
            hit([gone.pid, other.pid], signal.SIGKILL)
        gone.wait(_WITHIN_S)
        with pytest.raises(NotDoneError, match=f"process {gone.pid} is gone"):
            hit([gone.pid, other.pid], signal.SIGKILL)
        assert other.poll() is None
        hit([other.pid, gone.pid], signal.SIGKILL)
        assert other.wait(_WITHIN_S) == -signal.SIGKILL
    finally:
        other.kill()
        other.wait(_WITHIN_S)


def test_whom_a_fault_hits_is_one_of_those_that_are_there() -> None:
    drivers = [Driver(1, 2), Driver(3, 4)]
    assert [chosen(which, drivers) for which in (0.0, 0.49, 0.5, 0.999)] == [*drivers[:1] * 2, *drivers[1:] * 2]
