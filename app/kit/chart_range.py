"""The time range of a page's charts: one choice for all of them, kept in the address as `range`."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple


class ChartRange(StrEnum):
    QUARTER = "15m"
    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]

    @property
    def words(self) -> str:
        """`15 min`, for a link and a heading."""
        return _WORDS[self]


_LENGTHS = {
    ChartRange.QUARTER: timedelta(minutes=15),
    ChartRange.HOUR: timedelta(hours=1),
    ChartRange.SIX_HOURS: timedelta(hours=6),
    ChartRange.DAY: timedelta(hours=24),
}
_WORDS = {
    ChartRange.QUARTER: "15 min",
    ChartRange.HOUR: "1 h",
    ChartRange.SIX_HOURS: "6 h",
    ChartRange.DAY: "24 h",
}
FINE_FOR = timedelta(hours=1)
"""Samples of each second are kept for this long, and the extremes of each minute after that."""
_COARSE_S = 60
# Seconds of one bucket: each has a lowest and a highest value, so a chart has 1,000 points at most.
_STEPS = {ChartRange.QUARTER: 1, ChartRange.HOUR: 10, ChartRange.SIX_HOURS: 60, ChartRange.DAY: 180}


class ChartWindow(NamedTuple):
    """The part of time on a page's charts: from `since` to `until`.

    step_s: the seconds of a bucket, a whole part of a minute or whole minutes. is_past: it ends before now.
    """

    chosen: ChartRange
    since: datetime
    until: datetime
    step_s: int
    is_past: bool

    def holds(self, at: datetime) -> bool:
        return self.since <= at <= self.until


def window_of(chosen: ChartRange, *, now: datetime, ended_at: datetime | None = None) -> ChartWindow:
    """Return the range that ends now, or with the last second of what has ended."""
    until = now if ended_at is None else min(now, ended_at + timedelta(seconds=1))
    since = until - chosen.length
    step_s = _STEPS[chosen] if since >= now - FINE_FOR else max(_STEPS[chosen], _COARSE_S)
    return ChartWindow(chosen, since, until, step_s, until < now)
