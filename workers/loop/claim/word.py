"""The server's answer for an attempt, requested once for all lanes that need it at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable

_HOLDS_S = 1.0
_SILENCE_HOLDS_S = 5.0


class SharedWord:
    """Keeps an answer for one second, and a missing answer for five: with a producer for each partition, many may ask.

    Without a server each would wait for seconds, one after the other, and nothing is polled meanwhile. Only for ids of
    partitions: an answer may be a second old there, since the last client that initialised an id may commit under it
    (rule 5).
    """

    def __init__(self, ask: Callable[[float], bool | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._word: bool | None = None
        self._holds_until = clock()

    def __call__(self, timeout_s: float) -> bool | None:
        """True: this attempt is the current one; None: no answer within `timeout_s`."""
        if self._clock() >= self._holds_until:
            self._word = self._ask(timeout_s)
            self._holds_until = self._clock() + (_SILENCE_HOLDS_S if self._word is None else _HOLDS_S)
        return self._word
