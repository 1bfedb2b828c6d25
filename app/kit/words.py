"""How counts and durations are written: the same on pages, in the command line and in sentences."""

from __future__ import annotations

NOTHING = "–"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number(value: float | None) -> str:
    """A whole number with thousands separated; a dash when it is not known."""
    return NOTHING if value is None else f"{round(value):,}"


def span(duration_ms: int) -> str:
    """`0.3 s`, `12 s`, `5 min`; never less than nothing, since two clocks may differ."""
    seconds = max(0, duration_ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.0f} h"
