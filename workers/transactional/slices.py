"""Long Kafka calls in short slices, so that a bound holds and the task can be heard meanwhile (rule 6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from workers.transactional.errors import RetriableError

SLICE_S = 1.0
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.2


def _nothing() -> None:
    """What is done between slices when nothing is to be done."""


class Patience(NamedTuple):
    """How long a call may take in all.

    bound_s: no slice begins after it.
    between: called after each slice that did not suffice; it must not touch the consumer, whose callbacks could run.
    """

    bound_s: float
    between: Callable[[], None] = _nothing

    def until(self, deadline: float, *, clock: Callable[[], float] = time.monotonic) -> Patience:
        """The part of it that is left until `deadline`."""
        return self._replace(bound_s=max(0.0, deadline - clock()))


def in_slices(
    call: Callable[[float], None],
    patience: Patience,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call `call(slice in seconds)` until it returns, repeating it while it raises RetriableError.

    librdkafka's transaction calls are resumable: repeated after a timeout they wait on for the same answer. Some
    errors come at once (a coordinator that moves); then it pauses, longer each time, at most until the slice is over.

    Raises:
        RetriableError: the last one, when patience has ended.
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
