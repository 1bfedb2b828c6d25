"""The retries of deliveries, and the meaning of answers."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from app.kit.back_off import BackOff

_GONE = 410
# Not about the message: the receiver was too slow, not ready, or got too many requests.
_TEMPORARY = frozenset({408, 425, 429})

_CLOCKS_AGREE_S = 60


class Pace(msgspec.Struct, frozen=True, kw_only=True):
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


class Answered(msgspec.Struct, frozen=True):
    """The receiver's answer; text is the start of its body.

    clock_ahead_s: its clock against the server's, by the Date of its answer; 0 without one.
    """

    status: int
    text: str
    clock_ahead_s: int = 0

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """The receiver wants no more deliveries at all."""
        return self.status == _GONE

    @property
    def is_refusal(self) -> bool:
        """The receiver works but rejects this message, so others need not wait for it."""
        return 400 <= self.status < 500 and self.status not in _TEMPORARY

    @property
    def problem(self) -> str:
        """Return why it was not delivered, as a sentence."""
        if 300 <= self.status < 400:
            return f"the receiver redirects with {self.status}, which Fenceline does not follow: correct the address"
        if self.is_gone:
            return "the receiver answers 410: it wants no more, so the webhook is paused"
        if self.is_refusal:
            return f"the receiver rejects it with {self.status}{self._clocks}"
        return f"the receiver answers {self.status}"

    @property
    def _clocks(self) -> str:
        """The difference of the clocks, as receivers reject signatures whose time is five minutes off."""
        if abs(self.clock_ahead_s) < _CLOCKS_AGREE_S:
            return ""
        way = "ahead of" if self.clock_ahead_s > 0 else "behind"
        return f"; its clock is {abs(self.clock_ahead_s)} s {way} the server's, and it may reject signatures for that"
