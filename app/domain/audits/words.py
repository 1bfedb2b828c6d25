"""Windows and ids as people type and read them: `json:order.id`, `90m`, `2026-01-31T12:00:00Z`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from app.domain.audits.specification import Header, IdPlace, JsonField, OffsetWindow, RecordKey, TimeWindow, Window
from app.domain.storable import moment_of_ms

_DAY = timedelta(days=1)
_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1), "d": _DAY}


class WordsError(Exception):
    """What was typed is none of it; the message says what is."""


def id_place_of(text: str) -> IdPlace:
    """`key`, `json:PATH` or `header:NAME`. Raises WordsError."""
    kind, _, name = text.strip().partition(":")
    if kind == "key" and not name:
        return RecordKey()
    if kind == "json" and name:
        return JsonField(path=name)
    if kind == "header" and name:
        return Header(name=name)
    raise WordsError(f"`{text}`: expected key, json:PATH or header:NAME")


def id_place_text(place: IdPlace) -> str:
    """The text that `id_place_of` reads as `place`."""
    match place:
        case JsonField():
            return f"json:{place.path}"
        case Header():
            return f"header:{place.name}"
        case RecordKey():
            return "key"


def id_place_words(place: IdPlace) -> str:
    match place:
        case JsonField():
            return f"the field {place.path}"
        case Header():
            return f"the header {place.name}"
        case RecordKey():
            return "the key"


def moment_of(text: str, *, now: datetime) -> datetime:
    """A time with its zone, a span before `now` such as `90m`, or `now`. Raises WordsError."""
    text = text.strip()
    if text == "now":
        return now
    try:
        return now - span_of(text)
    except WordsError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise WordsError(
            f"`{text}`: expected a time with its zone such as 2026-01-31T12:00:00Z, a span such as 90m, or now"
        )
    return at


def span_of(text: str) -> timedelta:
    """`90s`, `15m`, `2h` or `1d`. Raises WordsError."""
    number = text[:-1]
    if number.isascii() and number.isdecimal() and len(number) <= 6 and text[-1:] in _UNITS:
        return int(number) * _UNITS[text[-1]]
    raise WordsError(f"`{text}`: expected a span such as 90m, 2h or 1d")


def span_text(seconds: int) -> str:
    """The text that `span_of` reads as so many seconds, in the largest unit that divides them."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def window_words(window: Window) -> str:
    match window:
        case TimeWindow():
            begin, end = moment_of_ms(window.start_ms).astimezone(UTC), moment_of_ms(window.end_ms).astimezone(UTC)
            until = f"{end:%H:%M}" if begin.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"
            return f"{begin:%Y-%m-%d %H:%M} to {until} UTC"
        case OffsetWindow():
            number = len(window.ranges)
            return f"offsets of {number} partition{'' if number == 1 else 's'}"
        case _:
            return "everything"
