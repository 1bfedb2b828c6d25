"""Long Kafka calls in short slices, so that a bound holds and the task can be heard meanwhile (rule 6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from workers.transactional.errors import RetriableError

SLICE_S = 1.0


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
    call: Callable[[float], None], patience: Patience, *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Call `call(slice in seconds)` until it returns, repeating it while it raises RetriableError.

    librdkafka's transaction calls are resumable: repeated after a timeout they wait on for the same answer.

    Raises:
        RetriableError: the last one, when patience has ended.
    """
    deadline = clock() + patience.bound_s
    while True:
        left_s = deadline - clock()
        try:
            return call(max(0.05, min(SLICE_S, left_s)))
        except RetriableError:
            patience.between()
            if clock() >= deadline:
                raise
