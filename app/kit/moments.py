"""Times and spans as a person types them: `90m`, `2026-01-31T12:00:00Z`, `now`."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class WordsError(Exception):
    """The typed text is not valid; the message names the expected form."""


def moment_of(text: str, *, now: datetime) -> datetime:
    """Return a time with its zone, a span before `now` such as `90m`, or `now`. Raises WordsError."""
    text = text.strip()
    if text == "now":
        return now
    with suppress(WordsError, OverflowError):
        return now - span_of(text)
    at: datetime | None = None
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
    if at is None or at.tzinfo is None:
        raise WordsError(
            f"`{text}`: expected a time with its zone such as 2026-01-31T12:00:00Z, a span such as 90m, or now"
        )
    return at


def span_of(text: str) -> timedelta:
    """Return the span of `90s`, `15m`, `2h` or `1d`. Raises WordsError."""
    number = text[:-1]
    if number.isascii() and number.isdecimal() and len(number) <= 6 and text[-1:] in _UNITS:
        return int(number) * _UNITS[text[-1]]
    raise WordsError(f"`{text}`: expected a span such as 90m, 2h or 1d")


def span_text(seconds: int) -> str:
    """Return the text that `span_of` reads as this number of seconds, in the largest unit that divides it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
