"""When a delivery is tried again, and what an answer means."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from app.kit.back_off import BackOff
from app.kit.words import duration_s

_GONE = 410
# Not a word about the message: the receiver was too slow, not ready, or asked too often.
_TEMPORARY = frozenset({408, 425, 429})

_CLOCKS_AGREE_S = 60


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


class Answered(msgspec.Struct, frozen=True):
    """What the receiver said; text is the beginning of its body.

    clock_ahead_s: its clock against ours, by the Date of its answer; 0 when it gave none.
    """

    status: int
    text: str
    clock_ahead_s: int = 0

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """The receiver wants nothing more, ever."""
        return self.status == _GONE

    @property
    def is_refusal(self) -> bool:
        """The receiver is well and will not have this message: others need not wait for it."""
        return 400 <= self.status < 500 and self.status not in _TEMPORARY

    @property
    def problem(self) -> str:
        """Why it was not delivered, as a sentence."""
        if 300 <= self.status < 400:
            return f"the receiver answers {self.status} and sends us elsewhere, where we do not go: correct the address"
        if self.is_gone:
            return "the receiver answers 410: it wants no more, so the webhook is paused"
        if self.is_refusal:
            return f"the receiver refuses it with {self.status}{self._clocks}"
        return f"the receiver answers {self.status}"

    @property
    def _clocks(self) -> str:
        """A signature carries our time, and receivers refuse one that is five minutes off."""
        if abs(self.clock_ahead_s) < _CLOCKS_AGREE_S:
            return ""
        way = "ahead of" if self.clock_ahead_s > 0 else "behind"
        apart = f"its clock is {duration_s(abs(self.clock_ahead_s))} {way} ours"
        return f"; {apart}, and a receiver may refuse a signature for that"
