"""The tasks of a pipeline as processes that are started again when they end, as Spark and the driver's book would."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Protocol

from tests.fault_suite.plan import NotDoneError
from tests.support.waiting import wait_for

_LOOK_S = 0.1
_DEADLINE_S = 30.0
_AWAY_WITHIN_S = 90.0


class Worker(Protocol):
    """A process of tests/support/tasks.py."""

    @property
    def pid(self) -> int: ...
    @property
    def is_running(self) -> bool: ...
    def wait_for_exit(self) -> int: ...
    def close(self) -> None: ...


Launch = Callable[[int, int], Worker]
"""Starts an attempt of a task; both count from 0."""


class Workers:
    """One living attempt of each task, those that were replaced while they lived, and those that need not come back."""

    def __init__(self, tasks: int, launch: Launch) -> None:
        self._launch = launch
        self._attempts: list[list[Worker]] = [[] for _ in range(tasks)]
        self._retired: set[int] = set()
        self._told: list[Worker] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._is_away = False
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._tend, name="workers", daemon=True)

    def start(self) -> None:
        for task in range(len(self._attempts)):
            self._start(task)
        self._thread.start()

    @property
    def tasks(self) -> list[int]:
        """Those that are to run now."""
        with self._lock:
            return [task for task in range(len(self._attempts)) if task not in self._retired]

    @property
    def is_tending(self) -> bool:
        """True if ended workers are restarted."""
        return self._thread.is_alive()

    def current(self, task: int) -> Worker:
        with self._lock:
            return self._attempts[task][-1]

    def send(self, task: int, number: signal.Signals) -> int:
        """To its attempt of now, whose pid it says. NotDoneError where that one has ended and is not replaced yet."""
        with self._lock:
            attempt = self._attempts[task][-1]
            if not attempt.is_running:
                raise NotDoneError(f"task {task} has ended by itself")
            os.kill(attempt.pid, number)
            return attempt.pid

    def replace(self, task: int) -> None:
        """Start the next attempt though the one before still runs, as Spark does when it has lost sight of it."""
        with self._lock:
            self._start(task)

    def end_former(self) -> list[str]:
        """Drain attempts that still live beside their task's next one; return the names of those that are asked now."""
        with self._lock:
            former = [one for attempts in self._attempts for one in attempts[:-1]]
            told = [one for one in former if one.is_running and one not in self._told]
            for worker in told:
                os.kill(worker.pid, signal.SIGTERM)
                self._told.append(worker)
        return [self.name_of(worker.pid) for worker in told]

    def add(self) -> int:
        """One more task: the first that was retired, else a new one. Says which."""
        with self._lock:
            task = min(self._retired, default=len(self._attempts))
            if task in self._retired:
                self._retired.remove(task)
            else:
                self._attempts.append([])
            self._start(task)
            return task

    def retire(self, task: int) -> None:
        """Its attempt drains, and no other one is started."""
        with self._lock:
            self._retired.add(task)
            attempt = self._attempts[task][-1]
            if attempt.is_running:
                os.kill(attempt.pid, signal.SIGTERM)

    def task_of(self, pid: int) -> int:
        """The attempt of this process."""
        with self._lock:
            return next(task for task, attempts in enumerate(self._attempts) for one in attempts if one.pid == pid)

    def name(self, task: int) -> str:
        return self.name_of(self.current(task).pid)

    def name_of(self, pid: int) -> str:
        """An attempt by its process."""
        task = self.task_of(pid)
        with self._lock:
            (attempt,) = (number for number, one in enumerate(self._attempts[task]) if one.pid == pid)
        return f"task {task}, attempt {attempt}, pid {pid}"

    def send_away(self) -> None:
        """Every attempt drains, and none is started until `bring_back`."""
        with self._lock:
            self._is_away = True
            living = [one for attempts in self._attempts for one in attempts if one.is_running]
            for worker in living:
                os.kill(worker.pid, signal.SIGTERM)
        # Behind a fault that was not awaited a drain takes as long as the brokers need for it.
        wait_for(
            lambda: not any(one.is_running for one in living),
            _AWAY_WITHIN_S,
            lambda: f"every drain; {[one.pid for one in living if one.is_running]} still run",
        )

    def bring_back(self) -> None:
        """Workers that should run are restarted."""
        with self._lock:
            self._is_away = False

    def drain(self) -> None:
        """No worker is restarted; every worker drains. Raises their errors, and those of the tending."""
        self._end_tending()
        living = [one for attempts in self._attempts for one in attempts if one.is_running]
        for worker in living:
            os.kill(worker.pid, signal.SIGTERM)
        for worker in living:
            worker.wait_for_exit()
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """SIGKILL for all that are left, frozen or not."""
        self._end_tending()
        for attempts in self._attempts:
            for worker in attempts:
                worker.close()

    def _end_tending(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_DEADLINE_S)

    def _tend(self) -> None:
        try:
            while not self._stopping.wait(_LOOK_S):
                with self._lock:
                    for task, attempts in enumerate(self._attempts) if not self._is_away else ():
                        if task not in self._retired and not attempts[-1].is_running:
                            self._start(task)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that drains
            self._failed = error

    def _start(self, task: int) -> None:
        self._attempts[task].append(self._launch(task, len(self._attempts[task])))
