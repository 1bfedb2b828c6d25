"""Attempts that are gone according to Spark; a driver reports them to the server in their place.

Spark reports every failed attempt with a sentence. Some sentences show that a process has ended. Others show only that
it does not answer: it may live, so its open transactions must not be touched.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.core.wire.heartbeat import GoneAttempt, GoneBy

TOLD_FOR_S = 60.0
"""A heartbeat may be lost, and the server that received it may die: it is repeated until then."""

_WORKER = "Python worker exited unexpectedly"
_EXECUTOR = "ExecutorLostFailure"
_EXITED = "Command exited with code"


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that failed, and Spark's sentence about it."""

    task: int
    attempt: int
    error: str


def gone_by(error: str) -> GoneBy | None:
    """The kind of process that is gone; None where the sentence does not show that a process is gone.

    | sentence of Spark                                                    | process                              |
    |----------------------------------------------------------------------|--------------------------------------|
    | Python worker exited unexpectedly (crashed)                          | gone: its socket has closed          |
    | ExecutorLostFailure (...) Reason: Command exited with code 137       | gone: the standalone worker saw it   |
    | ExecutorLostFailure (...) Reason: Executor heartbeat timed out ...   | does not answer                      |
    | ExecutorLostFailure (...) Reason: Remote RPC client disassociated    | does not answer: perhaps cut off     |
    | anything else                                                        | lives, and has reported its failure  |
    """
    if _EXECUTOR in error:
        return GoneBy.EXECUTOR if _EXITED in error else None
    return GoneBy.WORKER if _WORKER in error else None


class GoneBook:
    """Keeps for a while, for each task, the newest attempt that is known to be gone."""

    def __init__(self) -> None:
        self._gone: dict[int, tuple[GoneAttempt, float]] = {}

    def note(self, failed: Iterable[FailedAttempt], *, now_s: float) -> None:
        """Add Spark's present failures; known ones change nothing."""
        for one in failed:
            by = gone_by(one.error)
            known = self._gone.get(one.task)
            if by is not None and (known is None or known[0].attempt < one.attempt):
                self._gone[one.task] = GoneAttempt(task=one.task, attempt=one.attempt, by=by), now_s

    def told(self, *, now_s: float) -> tuple[GoneAttempt, ...]:
        return tuple(gone for _, (gone, at_s) in sorted(self._gone.items()) if now_s - at_s <= TOLD_FOR_S)
