"""Make data from outside storable in JSON and Postgres: no NUL, no lone surrogate, bounded; numbers of 64 bits.

An error's text may quote a record, and a host name may hold bytes that are no text. One text that cannot be stored
would be sent again forever, and would block every later heartbeat.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

LONGEST_TEXT = 4_000
LARGEST_NUMBER = 2**63 - 1
_LATEST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)

Message = TypeVar("Message", bound=msgspec.Struct)


def storable_text(text: str) -> str:
    """Return `text` if it is storable; else replace bad characters, and cut it to the limit."""
    whole = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return whole if len(whole) <= LONGEST_TEXT else whole[: LONGEST_TEXT - 1] + "…"


def storable(message: Message) -> Message:
    """Make every text and number of the message storable, also in its structs and tuples."""
    return cast(Message, _storable(message))


def moment_of_ms(at_ms: int) -> datetime:
    """Convert milliseconds since 1970 to a storable time: the clock of a worker may be wrong."""
    return datetime.fromtimestamp(min(max(at_ms, 0), _LATEST_MS) / 1000, UTC)


def _storable(value: Any) -> Any:
    # Enumerations are texts too, but safe ones.
    if type(value) is str:
        return storable_text(value)
    if type(value) is int:
        return min(max(value, -LARGEST_NUMBER), LARGEST_NUMBER)
    if isinstance(value, tuple):
        several = cast("tuple[Any, ...]", value)
        # A named tuple keeps its class.
        make: Any = getattr(several, "_make", tuple)
        return make(_storable(item) for item in several)
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: _storable(getattr(value, name)) for name in value.__struct_fields__})
    return value
