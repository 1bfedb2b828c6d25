"""The server's word on an attempt, asked for once for all who want it at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable

_HOLDS_S = 1.0
_SILENCE_HOLDS_S = 5.0


class SharedWord:
    """What the server has said holds a second, and its silence five: with a producer for each partition many may ask.

    Each would wait for seconds where the server does not answer, one after the other, and nothing is polled meanwhile.
    Only for ids of partitions: that a word is a second old does not matter there, since who initialises an id last is
    the one who may commit under it (rule 5).
    """

    def __init__(self, ask: Callable[[float], bool | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._word: bool | None = None
        self._holds_until = clock()

    def __call__(self, timeout_s: float) -> bool | None:
        """True: this attempt is the current one; None: it was not said within `timeout_s`."""
        if self._clock() >= self._holds_until:
            self._word = self._ask(timeout_s)
            self._holds_until = self._clock() + (_SILENCE_HOLDS_S if self._word is None else _HOLDS_S)
        return self._word
