"""How long something that only watches goes on though it is not answered: a server or a database is away for a minute.

Pure but for the clock. Whoever watches asks again by itself; a command that changes something is another matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable

AWAY_S = 180.0
"""A restart of the server, a failover of Postgres, a machine that swaps: longer than a minute, with room."""
ASK_AGAIN_AFTER_S = 1.0
BUSY_MACHINE_S = 600.0
"""For a step of the demo. The machine may be busy with something else; a process that ends is noticed at once."""
STARTING_S = 300.0
"""For a process of ours to answer for the first time, on such a machine."""


class Patience:
    """Counts from the first question without an answer until the next answer.

    Args:
        longest_s: how long it may go without an answer.
        deadline_s: when it is over in any case, on `clock`.
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
        """Whether to ask again after a question that was not answered."""
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
        return now - self._away_since < self._longest_s and now < self._deadline_s
