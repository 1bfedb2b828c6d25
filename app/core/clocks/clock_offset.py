"""The offset of a broker's clock as two bounds, and ages that are computed with it.

A broker's timestamp is never compared with this server's clock directly: with 300 s between the clocks a transaction of
one second would look old. Without a measured offset an age is not known (ADR 0018).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from app.kit.words import duration

_CLOSE_ENOUGH_MS = 250
_FIRST_GUESS_MS = 500
_MOST_QUESTIONS = 60


class Age(msgspec.Struct, frozen=True, kw_only=True):
    """An age is between two bounds; a condition for ending something must hold for the smaller one."""

    least_ms: int
    most_ms: int


class ClockOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's clock is behind this server's by `least_ms` to `most_ms`; below zero: ahead. measured_ms: by this
    clock.
    """

    least_ms: int
    most_ms: int
    measured_ms: int

    @property
    def middle_ms(self) -> int:
        return (self.least_ms + self.most_ms) // 2

    @property
    def distance(self) -> str:
        """Return `5 min behind`, `2 s ahead`."""
        return f"{duration(abs(self.middle_ms))} {'behind' if self.middle_ms > 0 else 'ahead'}"

    def age_of(self, stamped_ms: int, *, now_ms: int) -> Age:
        """Return the age of the broker's timestamp `stamped_ms`."""
        naive_ms = now_ms - stamped_ms
        least_ms = max(0, naive_ms - self.most_ms)
        return Age(least_ms=least_ms, most_ms=max(least_ms, naive_ms - self.least_ms))

    def ours(self, stamped_ms: int) -> int:
        """Return the same time by this server's clock, in the middle of its bounds."""
        return stamped_ms + self.middle_ms


def search_offset(
    is_older_than: Callable[[int], bool | None], *, stamped_ms: int, now_ms: Callable[[], int]
) -> ClockOffset | None:
    """Measure a broker's clock by questions whether something with its timestamp is older than some milliseconds.

    Args:
        is_older_than: the broker's answer by its own clock; None without an answer, and then there is no result.
        stamped_ms: the broker's timestamp, not newer than now.
        now_ms: this server's clock.
    """
    # The broker's now is stamped_ms + age. If the answer is "older", age > duration at that moment. So its clock is
    # behind by less than (now - stamped - duration); otherwise by that much at least.
    least_ms = most_ms = None
    low_ms, high_ms, step_ms = 0, None, _FIRST_GUESS_MS
    guess_ms = max(0, now_ms() - stamped_ms - _FIRST_GUESS_MS)
    for _ in range(_MOST_QUESTIONS):
        asked_ms = now_ms()
        answer = is_older_than(guess_ms)
        heard_ms = now_ms()
        if answer is None:
            return None
        if answer:
            low_ms = guess_ms
            bound_ms = heard_ms - stamped_ms - guess_ms
            most_ms = bound_ms if most_ms is None else min(most_ms, bound_ms)
        else:
            high_ms = guess_ms
            bound_ms = asked_ms - stamped_ms - guess_ms
            least_ms = bound_ms if least_ms is None else max(least_ms, bound_ms)
        if least_ms is not None and most_ms is not None and (high_ms or 0) - low_ms <= 2 * _CLOSE_ENOUGH_MS:
            break
        if high_ms is None:
            guess_ms, step_ms = low_ms + 2 * step_ms, 2 * step_ms
        elif high_ms == 0:
            # It is not older than 0 ms: stamped just now, or ahead of the broker's own clock.
            most_ms = heard_ms - stamped_ms if most_ms is None else most_ms
            break
        else:
            guess_ms = (low_ms + high_ms) // 2
    if least_ms is None or most_ms is None:
        return None
    return ClockOffset(least_ms=min(least_ms, most_ms), most_ms=max(least_ms, most_ms), measured_ms=now_ms())
