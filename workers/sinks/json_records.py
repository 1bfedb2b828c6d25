"""A record's value as bytes of JSON, decoded; msgspec keeps every integer as it is, and refuses what is no JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.core.avro_schemas.shape import BadValueError

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for a value that is no JSON, or (msgspec.ValidationError) not of its type."""

_decode: Final = msgspec.json.Decoder().decode


def decode(value: bytes) -> Any:
    """The JSON value; of a name that is there twice, the last. Raises BadValueError."""
    try:
        return _decode(value)
    except UNREADABLE as error:
        raise BadValueError(f"the value cannot be read as JSON: {error}") from error
