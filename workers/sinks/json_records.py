"""A record's value as bytes of JSON, decoded; msgspec keeps every integer as it is, and refuses other values."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.core.avro_schemas.shape import BadValueError

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""A decoder's errors for a value that is no JSON, or (msgspec.ValidationError) not of its type."""

_decode: Final = msgspec.json.Decoder().decode


def decode(value: bytes) -> Any:
    """The JSON value; of duplicate names, the last counts. Raises BadValueError."""
    try:
        return _decode(value)
    except UNREADABLE as error:
        raise BadValueError(f"the value cannot be read as JSON: {error}") from error
