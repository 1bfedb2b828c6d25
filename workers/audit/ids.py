"""The place of a record's id, and the id as bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from app.core.transforms import field_path
from app.core.transforms.field_path import MISSING
from app.products.audits.specification import HeaderId, IdPlace, JsonField, RecordKey

Headers = Sequence[tuple[str, str | bytes | None]] | None
IdOf = Callable[[bytes | None, bytes | None, Headers], bytes | None]
"""From value, key and headers to the id; None for a record that has none."""

_LONGEST_SHOWN = 200
_decode = msgspec.json.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def id_of(place: IdPlace) -> IdOf:
    """The function that finds ids at `place` of a Kafka record. Raises FieldPathError for an invalid path."""
    match place:
        case RecordKey():
            return lambda _value, key, _headers: key
        case HeaderId(name=name):
            return _header(name)
        case JsonField(path=path):
            return _field(field_path.parse(path))


def id_in_file(place: IdPlace) -> Callable[[dict[str, Any]], bytes | None]:
    """The function that finds ids in records of files.

    Raises FieldPathError for an invalid path, and for places that these records do not have.
    """
    if not isinstance(place, JsonField):
        raise field_path.FieldPathError(
            "records in files have neither a key nor headers; audit them by a field of the value"
        )
    get = field_path.getter(field_path.parse(place.path))
    return lambda record: _text_of(get(record))


def shown(id_: bytes) -> str:
    """The id as text, cut if it is long."""
    text = id_.decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _header(name: str) -> IdOf:
    def find(_value: bytes | None, _key: bytes | None, headers: Headers) -> bytes | None:
        for given, value in reversed(headers or ()):
            if given == name:
                return value.encode() if isinstance(value, str) else value
        return None

    return find


def _field(names: tuple[str, ...]) -> IdOf:
    get = field_path.getter(names)

    def find(value: bytes | None, _key: bytes | None, _headers: Headers) -> bytes | None:
        if value is None:
            return None
        try:
            record: Any = _decode(value)
        except _UNREADABLE:
            return None
        return _text_of(get(record)) if type(record) is dict else None  # pyright: ignore[reportUnknownArgumentType]

    return find


def _text_of(value: Any) -> bytes | None:
    """A text as it is, a number as JSON writes it (so 5 and "5" are one id); null and a missing field are none.

    A whole number is the same id in every notation: a file with floating-point numbers in its place has 5 as 5.0.
    Avro's logical types `uuid` and `decimal` are the text and the number.
    """
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass")
    if value is None or value is MISSING:
        return None
    if type(value) is UUID:
        return str(value).encode()
    if type(value) is float and not math.isfinite(value):
        # As JSON it would be the text `null`.
        return None
    if (type(value) is float and value.is_integer()) or (type(value) is Decimal and value == value.to_integral_value()):
        value = int(value)
    return msgspec.json.encode(value, order="sorted")
