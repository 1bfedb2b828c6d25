"""One format of counts, sizes, durations and times, for pages, the command line and sentences."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from datetime import UTC, datetime

NOTHING = "–"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def words(name: str) -> str:
    """Return an enum's value in plain words: `backing_off` → `backing off`."""
    return str(name).replace("_", " ")


def most_similar(name: str, names: Collection[str]) -> str | None:
    """Return the name that was probably meant; None if none of them is similar."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.7)
    return found[0] if found else None


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Return `; did you mean X?` with the similar one of the names, or nothing."""
    similar = most_similar(name, names)
    return "" if similar is None else f"; did you mean `{similar}`?"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number(value: float | None) -> str:
    """A whole number with thousands separated; a dash when it is not known."""
    return NOTHING if value is None else f"{round(value):,}"


def size(size_bytes: float | None) -> str:
    """Format a size in the decimal unit that reads best: 812 B, 1.2 kB, 34 MB."""
    if size_bytes is None:
        return NOTHING
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # A thousand of a unit is written as one of the next.
        if size_bytes >= length * 0.9995:
            value = size_bytes / length
            return f"{value:.1f} {unit}" if value < 9.95 else f"{round(value):,} {unit}"
    return f"{round(size_bytes):,} B"


def duration(duration_ms: float | None) -> str:
    """Format a duration: `90 ms`, `0.4 s`, `12 s`, `5 min`, `3 h`, `2 days`. A negative one (two clocks) is `0 s`."""
    if duration_ms is None:
        return NOTHING
    seconds = max(0.0, duration_ms / 1000)
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    for unit, length_s, below_s in (
        ("s", 1, 2 * _MINUTE_S),
        ("min", _MINUTE_S, 2 * _HOUR_S),
        ("h", _HOUR_S, 2 * _DAY_S),
        ("days", _DAY_S, float("inf")),
    ):
        if seconds < below_s:
            value = seconds / length_s
            return f"{_short(value)} {unit}"
    raise AssertionError(duration_ms)


def duration_s(duration_s: float | None) -> str:
    return duration(None if duration_s is None else duration_s * 1000)


def milliseconds(value: float | None) -> str:
    """Format a latency or a setting: exact below a second, and to a tenth of a second above."""
    if value is None:
        return NOTHING
    if 0 < value < 10:
        return f"{value:.1f} ms"
    return f"{round(value):,} ms" if value < 1_000 else f"{value / 1_000:,.1f}".removesuffix(".0") + " s"


def ago(at: datetime | None, now: datetime) -> str:
    """Format a time by its distance: `now`, `3 s ago`, `in 2 h`, `1 day ago`; app.js updates it in the same words."""
    if at is None:
        return NOTHING
    seconds = (now - at).total_seconds()
    length = abs(seconds)
    if length < 1:
        return "now"
    if length < _MINUTE_S:
        text = f"{length // 1:.0f} s"
    elif length < _HOUR_S:
        text = f"{length // _MINUTE_S:.0f} min"
    elif length < _DAY_S:
        text = f"{length // _HOUR_S:.0f} h"
    else:
        text = count(int(length // _DAY_S), "day")
    return f"{text} ago" if seconds > 0 else f"in {text}"


def moment(timestamp_ms: int | None) -> datetime | None:
    """Return the time of a timestamp; None for an unknown one (-1), or one that no calendar has."""
    try:
        return None if timestamp_ms is None or timestamp_ms < 0 else datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _short(value: float) -> str:
    """Format a number with one decimal below ten, unless it is 0."""
    return f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:.0f}"
