"""The end of one partition over the last 24 hours, and the time at which it passed an offset.

Lag in seconds is found as kafka-lag-exporter finds it (its LookupTable): by interpolation between samples of the end,
so that no record is read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

KEPT_MS = 24 * 3_600_000
_PRECISION = 8
"""A point may go if its neighbours are closer than an eighth of their age."""
_NEWEST_MS = 120_000
"""Points of this time are not thinned, and the file of an idle cluster stays small."""
_THIN_FROM = 96


class PassedAt(NamedTuple):
    """When the end passed an offset. is_bound: it was at that time or earlier, since the history begins there."""

    at_ms: int
    is_bound: bool


class EndHistory:
    """Samples of a partition's high watermark, oldest first; about 100 at most, with any period.

    An error by thinning is at most an eighth of the result. An end that does not move has two points: of its begin and
    its newest sample.
    """

    __slots__ = ("ends", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.ends = array("q")

    def note(self, at_ms: int, end: int) -> bool:
        """Add a sample. Return False if the history began again: the end or the clock went back.

        The end goes back if a topic is recreated or an unclean election truncates its log. A recreated topic that has
        grown beyond the last sample is not recognised.
        """
        is_continued = not self.times or (at_ms > self.times[-1] and end >= self.ends[-1])
        if not is_continued:
            self.times, self.ends = array("q"), array("q")
        if len(self.ends) > 1 and self.ends[-1] == self.ends[-2] == end:
            self.times[-1] = at_ms
        else:
            self.times.append(at_ms)
            self.ends.append(end)
        if len(self.times) > _THIN_FROM or at_ms - self.times[0] > KEPT_MS:
            self._thin(at_ms)
        return is_continued

    def passed(self, offset: int) -> PassedAt | None:
        """Return when the end passed `offset`, so that its record was there; None if it has not."""
        index = bisect_right(self.ends, offset)
        if index == len(self.ends):
            return None
        if index == 0:
            return PassedAt(self.times[0], is_bound=True)
        since, until = self.times[index - 1], self.times[index]
        before, after = self.ends[index - 1], self.ends[index]
        # The middle of the record's share of the interval.
        share = (offset - before + 0.5) / (after - before)
        return PassedAt(since + round(share * (until - since)), is_bound=False)

    def _thin(self, now_ms: int) -> None:
        times, ends = array("q"), array("q")
        last = len(self.times) - 1
        for index, at_ms in enumerate(self.times):
            following = self.times[index + 1] if index < last else now_ms
            if index < last and following <= now_ms - KEPT_MS:
                continue
            if times and index < last:
                allowed = max(_NEWEST_MS // 4, (now_ms - following) // _PRECISION)
                if following - times[-1] <= allowed and now_ms - following > _NEWEST_MS:
                    continue
            times.append(at_ms)
            ends.append(self.ends[index])
        self.times, self.ends = times, ends
