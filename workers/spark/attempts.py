"""The driver's book of attempts: which is the newest of each task, how long the next one waits, when to give up.

Pure: time comes in as an argument. Spark retries a failed task after 0.2 s, for ever, and counts over the life of the
stage; so waiting and giving up are decided here, over a sliding window, and done by the tasks before they initialize
their producer (a wait after that would hold a transactional id and partitions).
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

import msgspec

from workers.spark.messages import AttemptEnd


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How failures of one task are answered.

    The first failure within `window_s` is retried at once: a killed worker should be back as fast as Spark can fork.
    Then the wait doubles from `first_wait_s` to `longest_wait_s`; the failure number `failures` ends the instance.
    """

    window_s: float = 600.0
    failures: int = 10
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0

    def wait_s(self, failures: int) -> float:
        """How long an attempt waits that comes after `failures` failures of its task within the window."""
        if failures <= 1:
            return 0.0
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** (failures - 2))


class VerdictKind(StrEnum):
    """Why the driver should end the instance though nobody asked for it."""

    FAILED = "failed"
    HOPELESS = "hopeless"
    SUPERSEDED = "superseded"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    kind: VerdictKind
    message: str


class AttemptBook:
    """Keeps what tasks told the driver. Not thread-safe; the coordination server serializes access.

    A stage lives for months, so of each task only the newest attempt, the newest that has ended, and the failures
    within the window are kept.
    """

    def __init__(self, *, tasks: int, patience: Patience | None = None) -> None:
        self._tasks = tasks
        self._patience = patience or Patience()
        self._current: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._failures: dict[int, deque[tuple[float, str]]] = {task: deque() for task in range(tasks)}
        self._attempts_begun = 0
        self._verdict: Verdict | None = None

    @property
    def attempts_begun(self) -> int:
        """How many attempts have reached our code so far; what Spark counts beyond that failed before it."""
        return self._attempts_begun

    @property
    def active(self) -> int:
        """How many tasks have an attempt that has begun and not said how it ended; a killed one counts as well."""
        return sum(self._ended.get(task) != attempt for task, attempt in self._current.items())

    def begin(self, task: int, attempt: int, *, now_s: float) -> float | None:
        """Enter a new attempt; return how long it waits, or None if a later attempt of the task has begun already.

        An earlier attempt that never said how it ended was killed, or its executor is gone: that is a failure too.
        """
        self._attempts_begun += 1
        known = self._current.get(task)
        if known is not None and attempt < known:
            return None
        if known is not None and attempt > known and self._ended.get(task) != known:
            self._fail(
                task, now_s, f"attempt {known} ended without a word (its process was killed or its executor died)"
            )
        self._current[task] = attempt
        return self._patience.wait_s(len(self._recent(task, now_s)))

    def is_current(self, task: int, attempt: int) -> bool:
        """Whether no later attempt of `task` has begun."""
        return attempt >= self._current.get(task, attempt)

    def end(self, task: int, attempt: int, end: AttemptEnd, message: str, *, now_s: float) -> None:
        """Enter how an attempt ended. What a zombie says about itself changes nothing."""
        if not self.is_current(task, attempt):
            return
        self._ended[task] = attempt
        if end is AttemptEnd.CRASHED:
            self._fail(task, now_s, message)
        elif end is AttemptEnd.HOPELESS:
            self._decide(VerdictKind.HOPELESS, f"task {task}: {message}")
        elif end is AttemptEnd.SUPERSEDED:
            # Its newest attempt here, so the successor is not one of ours: another application holds the ordinal.
            self._decide(VerdictKind.SUPERSEDED, f"task {task} was superseded: {message}")

    def verdict(self) -> Verdict | None:
        """Why this instance should end, once there is a reason; the first reason stays."""
        return self._verdict

    def _fail(self, task: int, now_s: float, message: str) -> None:
        self._failures[task].append((now_s, message))
        recent = self._recent(task, now_s)
        if len(recent) >= self._patience.failures:
            self._decide(
                VerdictKind.FAILED,
                f"task {task} failed {len(recent)} times in {self._patience.window_s:g} s; the last time: {message}",
            )

    def _recent(self, task: int, now_s: float) -> deque[tuple[float, str]]:
        failures = self._failures[task]
        while failures and failures[0][0] <= now_s - self._patience.window_s:
            failures.popleft()
        return failures

    def _decide(self, kind: VerdictKind, message: str) -> None:
        if self._verdict is None:
            self._verdict = Verdict(kind=kind, message=message)
