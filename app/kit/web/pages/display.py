"""Format values for pages: numbers, sizes, times and states. Pure; the template engine's filters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from markupsafe import Markup, escape

from app.kit.words import NOTHING

SHORT_ID_CHARS = 8

_GRAVITY = ("idle", "good", "busy", "warn", "bad")
# By their type, since members of two enums with one value are equal: a lost instance is worse than lost partitions.
_OF_NOUN: dict[tuple[type, str], str] = {}
_OF_WORD: dict[str, str] = {}


def register_tones(tones: Iterable[tuple[str, str]]) -> None:
    """Set the colours of a noun's states. Raises ValueError for a second colour of one state."""
    for state, of_it in tones:
        key, word = (type(state), str(state)), str(state)
        if _OF_NOUN.setdefault(key, of_it) != of_it:
            raise ValueError(f"{key[0].__name__} {word} is {_OF_NOUN[key]} already, and cannot be {of_it}")
        _OF_WORD[word] = max(_OF_WORD.get(word, of_it), of_it, key=_GRAVITY.index)


def tone(state: str) -> str:
    """Return the colour of a state: good, busy, warn, bad or idle; plain text has the gravest of its nouns."""
    return _OF_NOUN.get((type(state), str(state))) or _OF_WORD[state]


def rate(value: float | None) -> str:
    """Format a rate per second: one decimal below ten, none above; two digits below a tenth."""
    if value is None:
        return NOTHING
    if 0 < value < 0.1:
        return f"{value:.2g}" if value >= 0.001 else "< 0.001"
    return f"{value:.1f}" if 0 < value < 10 else f"{round(value):,}"


def absolute(at: datetime) -> str:
    """Format the time in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def prose(sentence: str) -> Markup:
    """Render a sentence whose `names` are in backticks, with those as code; all of it is escaped."""
    parts = sentence.split("`")
    if len(parts) % 2 == 0:
        return escape(sentence)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def short(identifier: str) -> str:
    """Shorten a long id; the complete one is in the title and under the copy button."""
    return identifier[:SHORT_ID_CHARS]
