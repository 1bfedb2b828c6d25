"""Time limits of read-only requests: a server or database may not answer for a minute.

Pure but for the clock. Commands that change something have other rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable

AWAY_S = 180.0
"""Covers a restart of the server, a failover of Postgres, or a machine that swaps."""
ASK_AGAIN_AFTER_S = 1.0
BUSY_MACHINE_S = 600.0
"""For a step of the demo on a busy machine. A process that ends is noticed at once."""
STARTING_S = 300.0
"""For the first answer of a process that Fenceline starts, on such a machine."""


class Patience:
    """Counts from the first request without an answer until the next answer.

    Args:
        longest_s: the longest time without an answer.
        deadline_s: the end in any case, on `clock`.
    """

    def __init__(
        self,
        *,
        longest_s: float = AWAY_S,
        deadline_s: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._longest_s = longest_s
        self._deadline_s = deadline_s
        self._clock = clock
        self._away_since: float | None = None

    def answered(self) -> None:
        self._away_since = None

    def lasts(self) -> bool:
        """Return whether to repeat a request that had no answer."""
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
        return now - self._away_since < self._longest_s and now < self._deadline_s
