"""The driver's book of attempts: the newest of each task, and the wait of the next one.

Pure: time comes in as an argument. Spark retries a failed task after 0.2 s, for ever, and counts over the life of the
stage. So waits are decided here, by the failures in a row. The tasks wait before they initialize their producer: a wait
after that would hold a transactional id and partitions.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.kit.back_off import BackOff
from workers.spark.messages import AttemptEnd


class AttemptPatience(msgspec.Struct, frozen=True, kw_only=True):
    """The response to failures of one task.

    The first failure in a row is retried at once: a killed worker should be back as fast as Spark can fork. Then the
    wait grows by a factor of two from `first_wait_s` to `longest_wait_s`. An attempt that worked for `healthy_s` ends
    the row.
    crashing_after: failures in a row after which they are reported. new_application_after: failures in a row after
    which the instance is started again, which brings other executors (after about an hour).
    """

    healthy_s: float = 60.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 300.0
    crashing_after: int = 3
    new_application_after: int = 20

    def wait_s(self, failures: int) -> float:
        """The wait of an attempt that comes after `failures` failures of its task in a row."""
        return BackOff(self.first_wait_s, self.longest_wait_s).wait_s(failures - 1)


class VerdictKind(StrEnum):
    """The reason why the driver should end the instance without a request."""

    FAILED = "failed"
    HOPELESS = "hopeless"
    SUPERSEDED = "superseded"


class AttemptVerdict(msgspec.Struct, frozen=True, kw_only=True):
    kind: VerdictKind
    message: str


class _Task(msgspec.Struct):
    """attempt: the newest. works_since_s: when its wait is over. failures: in a row, as of the attempts before it."""

    attempt: int = -1
    ended: int = -1
    works_since_s: float = 0.0
    failures: int = 0
    last_failure: str = ""


class AttemptBook:
    """Keeps the tasks' reports to the driver. Not thread-safe; the coordination server serializes access.

    A stage lives for months. So of each task only the newest attempt, the newest ended one, the failures in a row and
    the last failure are kept.
    """

    def __init__(self, *, tasks: int, patience: AttemptPatience | None = None) -> None:
        self._patience = patience or AttemptPatience()
        self._tasks = {task: _Task() for task in range(tasks)}
        self._attempts_begun = 0
        self._verdict: AttemptVerdict | None = None

    @property
    def attempts_begun(self) -> int:
        """The number of attempts that have reached our code; others that Spark counts failed before it."""
        return self._attempts_begun

    @property
    def active(self) -> int:
        """The number of tasks with an attempt that has begun and not reported its end; a killed one counts as well."""
        return sum(one.ended != one.attempt for one in self._tasks.values())

    def crashing(self, *, now_s: float) -> int:
        """The number of tasks that have failed several times in a row, and were not healthy for a while since."""
        return sum(
            one.failures >= self._patience.crashing_after and not self._is_healthy(one, now_s)
            for one in self._tasks.values()
        )

    def begin(self, task: int, attempt: int, *, now_s: float) -> float | None:
        """Enter a new attempt; return how long it waits, or None if a later attempt of the task has begun already.

        An earlier attempt that never reported its end was killed, or its executor is gone: that is a failure too.
        """
        self._attempts_begun += 1
        known = self._tasks[task]
        if attempt < known.attempt:
            return None
        if attempt > known.attempt and known.ended != known.attempt:
            self._fail(
                task, now_s, f"attempt {known.attempt} ended without a report (its process or executor was killed)"
            )
        known.attempt = attempt
        wait_s = self._patience.wait_s(known.failures)
        known.works_since_s = now_s + wait_s
        return wait_s

    def why_waits(self, task: int) -> str:
        """The reason and the length of the newest attempt's wait."""
        known = self._tasks[task]
        wait_s = self._patience.wait_s(known.failures)
        return f"failed {known.failures} times in a row, next attempt after {wait_s:g} s: {known.last_failure}"

    def is_current(self, task: int, attempt: int) -> bool:
        """True if no later attempt of `task` has begun."""
        return attempt >= self._tasks[task].attempt

    def end(self, task: int, attempt: int, end: AttemptEnd, message: str, *, now_s: float) -> None:
        """Enter the end of an attempt. The report of a zombie changes nothing."""
        if not self.is_current(task, attempt):
            return
        if end is AttemptEnd.CRASHED:
            self._fail(task, now_s, message)
        elif end is AttemptEnd.HOPELESS:
            self._decide(VerdictKind.HOPELESS, f"task {task}: {message}")
        elif end is AttemptEnd.SUPERSEDED:
            # Its newest attempt here, so the successor belongs to another application, which holds the ordinal.
            self._decide(VerdictKind.SUPERSEDED, f"task {task} was superseded: {message}")
        self._tasks[task].ended = attempt

    def verdict(self) -> AttemptVerdict | None:
        """The reason to end this instance, once there is one; the first reason stays."""
        return self._verdict

    def _is_healthy(self, known: _Task, now_s: float) -> bool:
        """True if its newest attempt works, and has done so for long enough."""
        return known.ended != known.attempt and now_s - known.works_since_s >= self._patience.healthy_s

    def _fail(self, task: int, now_s: float, message: str) -> None:
        known = self._tasks[task]
        known.failures = 1 if self._is_healthy(known, now_s) else known.failures + 1
        known.last_failure = message
        if known.failures >= self._patience.new_application_after:
            self._decide(
                VerdictKind.FAILED, f"task {task} failed {known.failures} times in a row; the last time: {message}"
            )

    def _decide(self, kind: VerdictKind, message: str) -> None:
        if self._verdict is None:
            self._verdict = AttemptVerdict(kind=kind, message=message)
