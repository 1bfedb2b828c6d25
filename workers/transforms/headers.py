"""Header names that are not UTF-8, as clients other than Java's may write them.

confluent-kafka decodes names and has no other way to read or to write one. At the first such name `Message.headers()`
raises SystemError. From the second call on it returns the list with a hole in the pair, and any use of that ends the
process (2.16.1, `c_headers_to_py`). So headers are read here first.

librdkafka, whose names are C strings, cuts a name at a zero byte without an error.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import Message

UNREADABLE_NAME = "fenceline.unreadable-header-"
"""With its number: stands for a header whose name cannot be read."""
Headers = list[tuple[str, bytes | None]] | None


class HeaderNameError(Exception):
    """A record with a header whose name is not UTF-8."""

    @classmethod
    def of(cls, nameless: Sequence[int]) -> HeaderNameError:
        """nameless: the numbers of its headers with such a name."""
        return cls(
            f"the client cannot carry header {', '.join(map(str, nameless))}, counted from 0: its name is not UTF-8"
        )


def read_headers(messages: Sequence[Message]) -> tuple[list[Headers], dict[int, HeaderNameError]]:
    """The headers of each, and those messages with such a name, by index.

    With one, the result has the readable headers, and names of Fenceline for the others. From here on `headers()` of
    each message returns the same, and can be called.
    """
    headers: list[Headers] = []
    found: dict[int, HeaderNameError] = {}
    rest = iter(messages)
    while not _are_read(rest, headers):
        index = len(headers)
        pairs, nameless = _readable(messages[index].headers())
        messages[index].set_headers([*pairs])
        headers.append(pairs)
        found[index] = HeaderNameError.of(nameless)
    return headers, found


def readable(message: Message) -> Headers:
    """The headers of one message, as `read_headers`."""
    # Other records (workers/native) have headers that can be read as they are.
    if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] - they have its methods alone
        return message.headers()
    return read_headers([message])[0][0]


def has_unreadable_name(headers: Iterable[tuple[str, object]] | None) -> bool:
    """True if one of these stands for a header whose name cannot be read."""
    return any(name.startswith(UNREADABLE_NAME) for name, _ in headers or ())


def _are_read(rest: Iterator[Message], headers: list[Any]) -> bool:
    """Add the headers of these, up to the first that cannot be read; False if there is one."""
    try:
        headers.extend(map(Message.headers, rest))
    except SystemError:
        return False
    return True


def _readable(pairs: Any) -> tuple[list[tuple[str, bytes | None]], list[int]]:
    """Return the pairs, and the numbers of those without a name.

    Not by index: a pair without a name cannot be read so. The garbage collector's view of it leaves the hole out.
    """
    found: list[tuple[str, bytes | None]] = []
    nameless: list[int] = []
    for number, pair in enumerate(pairs):
        parts = gc.get_referents(pair)
        names = [part for part in parts if isinstance(part, str)]
        if not names:
            nameless.append(number)
        value = next((part for part in parts if isinstance(part, bytes)), None)
        found.append((names[0] if names else f"{UNREADABLE_NAME}{number}", value))
    return found, nameless
