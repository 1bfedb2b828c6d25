"""One page of a long list, with the cursor to the next."""

from __future__ import annotations

import base64
import binascii
from typing import Generic, TypeVar

import msgspec

from app.kit.errors import InvalidError

T = TypeVar("T")

MAX_LIMIT = 500
LONGEST_CURSOR = 50_000
"""The longest name in Kafka, 32,767 bytes, in base64."""


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`next_cursor` is opaque and None on the last page; it stays valid while rows come and go."""

    items: tuple[T, ...]
    next_cursor: str | None = None


def encode_cursor(*keys: str) -> str:
    """Encode the position after the row with these sort keys, as an opaque word for URLs."""
    return base64.urlsafe_b64encode(msgspec.json.encode(keys)).decode("ascii").rstrip("=")


def decode_cursor(cursor: str, *, keys: int) -> tuple[str, ...]:
    """Decode the sort keys of a cursor. Raises InvalidError at field `after` for one not from `encode_cursor`."""
    try:
        decoded = msgspec.json.decode(
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True), type=tuple[str, ...]
        )
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidError("this cursor is not valid: take it from next_cursor unchanged", field="after") from error
    if len(decoded) != keys:
        raise InvalidError("this cursor belongs to another list: take it from next_cursor unchanged", field="after")
    return decoded


def checked_limit(limit: int) -> int:
    """Return `limit` if it is from 1 to MAX_LIMIT; raises InvalidError at field `limit` otherwise."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidError(f"limit is {limit}; it must be from 1 to {MAX_LIMIT}", field="limit")
    return limit
