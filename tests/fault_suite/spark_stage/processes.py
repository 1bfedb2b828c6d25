"""The processes that run a pipeline on Spark now, found on this machine without a request: any of them may be away."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

import psutil

from app.edges.embedded.spark import Executor, SparkCluster
from app.edges.spark import driver_processes
from tests.fault_suite.plan import NotDoneError
from tests.support.waiting import wait_for

T = TypeVar("T")

_ABSENT_S = 120.0
"""A driver that is killed is back after 40 s on two cores, and the one after it waits longer."""


class Task(NamedTuple):
    """The attempt of a task that runs now: the Python worker, the daemon that forked it, and their executor."""

    worker: int
    daemon: int
    executor: Executor

    def __str__(self) -> str:
        return f"worker {self.worker} of executor {self.executor.executor_id} of {self.executor.application_id}"


class Driver(NamedTuple):
    """spark-submit's JVM and its child."""

    jvm: int
    python: int


class SparkProcesses:
    """The processes of the applications on one cluster, and of the drivers with files in one folder of state."""

    def __init__(self, cluster: SparkCluster, state_dir: Path) -> None:
        self._cluster = cluster
        self._state_dir = state_dir
        self._told_to_end: set[int] = set()

    def tell_to_end(self, task: Task) -> None:
        """SIGTERM. Its process may outlive its attempt by seconds, and is no task any more. NotDoneError."""
        hit([task.worker], signal.SIGTERM)
        self._told_to_end.add(task.worker)

    def tasks(self) -> list[Task]:
        """Those that have a daemon and an executor: an orphan is none any more."""
        return [
            Task(worker.pid, daemon.pid, executor)
            for executor in self._cluster.executors()
            for daemon in _children(executor.pid)
            for worker in _children(daemon.pid)
            if worker.pid not in self._told_to_end
        ]

    def end_tasks(self) -> None:
        """SIGKILL for each with its daemon and its executor."""
        for task in self.tasks():
            send([task.worker, task.daemon, task.executor.pid], signal.SIGKILL)

    def drivers(self) -> list[Driver]:
        found = driver_processes.search(self._state_dir)
        return [Driver(one.ppid(), one.pid) for one in found if driver_processes.is_python(one)]

    def wait_for_tasks(self, least: int = 1) -> list[Task]:
        return self._wait_for(self.tasks, least, "tasks")

    def wait_for_working_drivers(self, least: int = 1) -> list[Driver]:
        """Those with a task: one that only starts, or that ends already, is not worth a fault."""

        def working() -> list[Driver]:
            found = [driver for task in self.tasks() if (driver := self.driver_of(task)) is not None]
            return list(dict.fromkeys(found))

        return self._wait_for(working, least, "drivers with a task")

    def driver_of(self, task: Task) -> Driver | None:
        """By the port at which the executor's driver listens; None if it is gone."""
        try:
            options = dict(pairwise(psutil.Process(task.executor.pid).cmdline()))
        except psutil.Error:
            return None
        port = int(options.get("--driver-url", ":0").rpartition(":")[2])
        return next((driver for driver in self.drivers() if port in _listening_ports(driver.jvm)), None)

    def _wait_for(self, find: Callable[[], list[T]], least: int, what: str) -> list[T]:
        def enough() -> list[T] | None:
            found = find()
            return found if len(found) >= least else None

        found = wait_for(enough, _ABSENT_S, lambda: f"{least} {what}; there are {find()}")
        assert found is not None
        return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """In this order; to those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def hit(pids: Sequence[int], number: signal.Signals) -> None:
    """As `send`. NotDoneError where the first of them, who is meant, is gone."""
    with suppress(psutil.NoSuchProcess):
        if psutil.Process(pids[0]).status() != psutil.STATUS_ZOMBIE:
            send(pids, number)
            return
    raise NotDoneError(f"process {pids[0]} is gone")


def chosen(which: float, those: Sequence[T]) -> T:
    """As Fault.of, of anything."""
    return those[int(which * len(those))]


def _children(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return sorted(psutil.Process(pid).children(), key=lambda child: child.pid)
    return []


def _listening_ports(pid: int) -> set[int]:
    with suppress(psutil.Error):
        found = psutil.Process(pid).net_connections("inet")
        return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN and one.laddr}
    return set()
