"""Which attempts are gone, by Spark's word: what a driver tells the server of those who cannot tell it themselves.

Spark reports every failed attempt with a sentence. Some of them say that a process has ended; others only that nobody
hears it, and it may live, so that nothing must be done to what it has open.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.core.wire.heartbeat import GoneAttempt, GoneBy

TOLD_FOR_S = 60.0
"""A heartbeat may not arrive, and the server that heard it may die: it is said again until then."""

_WORKER = "Python worker exited unexpectedly"
_EXECUTOR = "ExecutorLostFailure"
_EXITED = "Command exited with code"


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that failed, and what Spark says of it."""

    task: int
    attempt: int
    error: str


def gone_by(error: str) -> GoneBy | None:
    """Whose end it was; None where the sentence does not say that a process is gone.

    | Spark says                                                           | process                              |
    |----------------------------------------------------------------------|--------------------------------------|
    | Python worker exited unexpectedly (crashed)                          | gone: its socket has closed          |
    | ExecutorLostFailure (...) Reason: Command exited with code 137       | gone: the standalone worker saw it   |
    | ExecutorLostFailure (...) Reason: Executor heartbeat timed out ...   | silent                               |
    | ExecutorLostFailure (...) Reason: Remote RPC client disassociated    | silent: perhaps only cut off         |
    | anything else                                                        | lives, and has said how it failed    |
    """
    if _EXECUTOR in error:
        return GoneBy.EXECUTOR if _EXITED in error else None
    return GoneBy.WORKER if _WORKER in error else None


class GoneBook:
    """Remembers for a while, of each task, the newest attempt that is known to be gone."""

    def __init__(self) -> None:
        self._gone: dict[int, tuple[GoneAttempt, float]] = {}

    def note(self, failed: Iterable[FailedAttempt], *, now_s: float) -> None:
        """What Spark has said by now; the same again is no news."""
        for one in failed:
            by = gone_by(one.error)
            known = self._gone.get(one.task)
            if by is not None and (known is None or known[0].attempt < one.attempt):
                self._gone[one.task] = GoneAttempt(task=one.task, attempt=one.attempt, by=by), now_s

    def told(self, *, now_s: float) -> tuple[GoneAttempt, ...]:
        return tuple(gone for _, (gone, at_s) in sorted(self._gone.items()) if now_s - at_s <= TOLD_FOR_S)
