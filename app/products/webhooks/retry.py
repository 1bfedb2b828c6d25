"""When a delivery is tried again."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from app.kit.back_off import BackOff


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a sender is.

    first_s, longest_s: the pause after the first failure, doubled by each further one up to the longest.
    give_up_after: a delivery that was written longer ago is given up.
    timeout_s: for one attempt as a whole.
    lease_s: how long an attempt belongs to the server that began it; longer than any attempt takes.
    """

    first_s: float = 5.0
    longest_s: float = 900.0
    give_up_after: timedelta = timedelta(hours=24)
    timeout_s: float = 10.0
    lease_s: float = 30.0

    def pause_s(self, *, attempts: int, chance: float) -> float:
        """After so many failed attempts; `chance` from 0 to 1 spreads it by a quarter to either side."""
        pause = BackOff(self.first_s, self.longest_s).wait_s(attempts)
        return pause * (0.75 + chance / 2)
