"""Long Kafka calls in short slices, so that a bound holds and the task can report meanwhile (rule 6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from workers.loop.errors import RetriableError

SLICE_S = 1.0
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.2


def _nothing() -> None:
    """The default between slices: do nothing."""


class CallPatience(NamedTuple):
    """The bound of a call, slices included.

    bound_s: no slice begins after it.
    between: called after each slice that did not suffice; it must not touch the consumer, whose callbacks could run.
    """

    bound_s: float
    between: Callable[[], None] = _nothing

    def until(self, deadline: float, *, clock: Callable[[], float] = time.monotonic) -> CallPatience:
        """The rest of it until `deadline`."""
        return self._replace(bound_s=max(0.0, deadline - clock()))


class CommitBounds:
    """The bounds for the end of a checkpoint.

    At most a transaction timeout: the coordinator aborts after that in any case. Inside a revoke callback at most a
    third of the rest of `max.poll.interval.ms`, after which the group would continue without this member.

    Args:
        before_s: the bound for the work before the transaction: the uploads of a file pipeline.
        abort_s: the bound of an abort; None: a transaction timeout.
    """

    def __init__(
        self,
        *,
        transaction_timeout_s: float,
        max_poll_interval_s: float,
        before_s: float = 0.0,
        abort_s: float | None = None,
    ) -> None:
        self.usual_s = before_s + transaction_timeout_s
        self.abort_s = transaction_timeout_s if abort_s is None else abort_s
        self._max_poll_interval_s = max_poll_interval_s

    def on_revoke_s(self, *, since_poll_s: float) -> float:
        return max(SLICE_S, min(self.usual_s, (self._max_poll_interval_s - since_poll_s) / 3))


def in_slices(
    call: Callable[[float], None],
    patience: CallPatience,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call `call(slice in seconds)` until it returns, repeating it while it raises RetriableError.

    librdkafka's transaction calls are resumable: repeated after a timeout they wait on for the same answer. Some
    errors come at once (a coordinator that moves); then it pauses, longer each time, at most until the slice is over.

    Raises:
        RetriableError: the last one, when `patience` has ended.
    """
    deadline = clock() + patience.bound_s
    pause_s = _FIRST_PAUSE_S
    while True:
        began_at = clock()
        slice_s = max(0.05, min(SLICE_S, deadline - began_at))
        try:
            return call(slice_s)
        except RetriableError:
            patience.between()
            now = clock()
            if now >= deadline:
                raise
            sleep(max(0.0, min(pause_s, began_at + slice_s - now, deadline - now)))
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
