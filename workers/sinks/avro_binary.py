"""The binary encoding of Avro for single values, as functions from a value to bytes.

https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, cast

Encode = Callable[[Any], bytes]


class Coding(NamedTuple):
    """The encoding of a schema's values: by a function, and within a record by an expression, which saves a call.

    expression: source of one or more bytes, separated by commas. `{value}` stands for the value, once, `{text}` for a
        variable to use, and the names of constants for those. None: the function is called.
    """

    encode: Encode
    expression: str | None = None
    constants: Mapping[str, Any] = {}


_END: Final = b"\x00"
"""Ends the items of an array and the entries of a map."""
_DIGITS: Final = 14
_MASK: Final = (1 << _DIGITS) - 1
_MORE: Final = tuple(bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in range(1 << _DIGITS))
_LAST: Final = tuple(
    bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80, number >> 7)) for number in range(1 << _DIGITS)
)
_pack_double: Final = struct.Struct("<d").pack


def varint(number: int) -> bytes:
    """An integer of 64 bits, zigzag and in groups of 7 bits: the form of int, long, counts, and indices."""
    zigzag = (number << 1) ^ (number >> 63)
    out = b""
    while zigzag > _MASK:
        out += _MORE[zigzag & _MASK]
        zigzag >>= _DIGITS
    return out + _LAST[zigzag]


class _Numbers(dict[Any, bytes]):
    """The encodings of small integers after a prefix; others are made on request, and not kept."""

    def __init__(self, prefix: bytes) -> None:
        super().__init__({number: prefix + varint(number) for number in range(-256, 4096)})
        self._prefix = prefix

    def __missing__(self, number: int) -> bytes:
        return self._prefix + varint(number)


# One table for each branch of a union that may hold an integer or a length: there are few.
@cache
def _numbers(prefix: bytes) -> _Numbers:
    return _Numbers(prefix)


@cache
def _numbers_or_null(prefix: bytes, of_null: bytes) -> _Numbers:
    numbers = _Numbers(prefix)
    numbers[None] = of_null
    return numbers


def _looked_up(table: dict[Any, bytes]) -> Coding:
    return Coding(table.__getitem__, "{table}[{value}]", {"table": table})


def null(prefix: bytes) -> Coding:
    """prefix: the index of the branch of a union, here and below; empty outside of one."""
    return _looked_up({None: prefix})


def boolean(prefix: bytes) -> Coding:
    return _looked_up({False: prefix + b"\x00", True: prefix + b"\x01"})


def long(prefix: bytes) -> Coding:
    """int and long."""
    return _looked_up(_numbers(prefix))


def long_or_null(prefix: bytes, of_null: bytes) -> Coding:
    """A union of a long and null: like those below, in most files and on every value, so in one step."""
    return _looked_up(_numbers_or_null(prefix, of_null))


def enum(prefix: bytes, symbols: Sequence[str]) -> Coding:
    return _looked_up({symbol: prefix + varint(index) for index, symbol in enumerate(symbols)})


def double(prefix: bytes) -> Coding:
    if not prefix:
        return Coding(_pack_double, "{pack}({value})", {"pack": _pack_double})

    def encode(value: float) -> bytes:
        return prefix + _pack_double(value)

    return Coding(encode)


def double_or_null(prefix: bytes, of_null: bytes) -> Coding:
    def encode(value: float | None) -> bytes:
        return of_null if value is None else prefix + _pack_double(value)

    expression = "{of_null} if ({text} := {value}) is None else {prefix} + {pack}({text})"
    return Coding(encode, expression, {"of_null": of_null, "prefix": prefix, "pack": _pack_double})


def string(prefix: bytes) -> Coding:
    lengths = _numbers(prefix)

    def encode(value: str) -> bytes:
        text = value.encode()
        return lengths[len(text)] + text

    return Coding(encode, "{lengths}[len({text} := {value}.encode())], {text}", {"lengths": lengths})


def string_or_null(prefix: bytes, of_null: bytes) -> Coding:
    of_string = string(prefix).encode

    def encode(value: str | None) -> bytes:
        return of_null if value is None else of_string(value)

    expression = "{of_null} if ({text} := {value}) is None else {lengths}[len({text} := {text}.encode())] + {text}"
    return Coding(encode, expression, {"of_null": of_null, "lengths": _numbers(prefix)})


def array(prefix: bytes, items: Coding) -> Coding:
    counts, empty, item = _numbers(prefix), prefix + _END, items.encode

    def encode(values: list[Any]) -> bytes:
        return b"".join([counts[len(values)], *map(item, values), _END]) if values else empty

    return Coding(encode)


def map_(prefix: bytes, values: Coding) -> Coding:
    counts, empty, name_of, value_of = _numbers(prefix), prefix + _END, string(b"").encode, values.encode

    def encode(entries: dict[str, Any]) -> bytes:
        if not entries:
            return empty
        parts = [name_of(name) + value_of(value) for name, value in entries.items()]
        return b"".join([counts[len(entries)], *parts, _END])

    return Coding(encode)


def union(branches: Mapping[type, Coding]) -> Coding:
    """branches: by the type of the values that they take, each with its index as prefix."""
    encoders = {type_: branch.encode for type_, branch in branches.items()}
    others = {id(branch): branch.encode for type_, branch in branches.items() if type_ is not type(None)}
    if len(others) == 1 and type(None) in encoders:
        of_null = encoders[type(None)](None)
        (other,) = others.values()

        def encode_or_null(value: Any) -> bytes:
            return of_null if value is None else other(value)

        return Coding(encode_or_null)

    def encode(value: Any) -> bytes:
        return encoders[cast("type[Any]", type(value))](value)

    return Coding(encode)


def record_of_attributes(prefix: bytes, fields: Sequence[Coding]) -> Coding:
    """A record of objects that have the fields as attributes `f0`, `f1`, and so on."""
    return _record(prefix, [(f"record.f{index}", field) for index, field in enumerate(fields)], {})


def record_of_names(prefix: bytes, names: Sequence[str], fields: Sequence[Coding]) -> Coding:
    """A record of dictionaries, in which a field that is null may be missing."""
    constants = {f"name_{index}": name for index, name in enumerate(names)}
    return _record(prefix, [(f"record.get(name_{index})", field) for index, field in enumerate(fields)], constants)


def _record(prefix: bytes, fields: Sequence[tuple[str, Coding]], constants: dict[str, Any]) -> Coding:
    # A loop over the fields would take twice the time of the encoding itself. The source has no text of the schema.
    parts = ["prefix"] if prefix else []
    names: dict[str, Any] = {**constants, "prefix": prefix, "join": b"".join}
    for index, (value, field) in enumerate(fields):
        own = {name: f"{name}_of_{index}" for name in ("call", "text", *field.constants)}
        expression = "{call}({value})" if field.expression is None else field.expression
        part = expression.format_map({**own, "value": value})
        parts.append(f"({part})" if " if " in part else part)
        names[own["call"]] = field.encode
        names |= {own[name]: constant for name, constant in field.constants.items()}
    source = f"def encode(record): return join(({', '.join(parts)}{',' if parts else ''}))"
    exec(source, names)  # noqa: S102 - put together from the expressions above
    return Coding(cast(Encode, names["encode"]))
