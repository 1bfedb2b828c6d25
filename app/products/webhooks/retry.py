"""When a delivery is tried again."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from app.kit.back_off import BackOff


class DeliveryPace(msgspec.Struct, frozen=True, kw_only=True):
    """The retries and limits of a sender.

    first_s, longest_s: the pause after the first failure; it grows by a factor of 2, up to the longest.
    give_up_after: the age after which a delivery is not retried.
    timeout_s: of one complete attempt.
    lease_s: of one attempt; longer than any attempt takes.
    """

    first_s: float = 5.0
    longest_s: float = 900.0
    give_up_after: timedelta = timedelta(hours=24)
    timeout_s: float = 10.0
    lease_s: float = 30.0

    def pause_s(self, *, attempts: int, chance: float) -> float:
        """Return the pause after this number of failed attempts; `chance` from 0 to 1 spreads it by a quarter."""
        pause = BackOff(self.first_s, self.longest_s).wait_s(attempts)
        return pause * (0.75 + chance / 2)
