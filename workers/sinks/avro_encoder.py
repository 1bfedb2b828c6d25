"""From the bytes of a JSON object to the bytes of an Avro record, for one schema.

fastavro's writer is used only for a file's header, not for records. It tries the branches of each union one after the
other on each value, and needs dictionaries. Here msgspec decodes straight into structs, checks types on the way, and
the functions of avro_binary.py are put together once for a schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple, Union

import msgspec
from msgspec import Meta

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.fitting import branches_of, integer_range, is_nullable, misfit, type_of
from app.core.avro_schemas.names import is_entries, json_name
from app.core.avro_schemas.shape import MAX_LONG, BadValueError
from workers.sinks import avro_binary
from workers.sinks.avro_binary import Coding, varint
from workers.sinks.json_records import UNREADABLE, decode
from workers.sinks.shape_types import is_nameable


class AvroEncoder:
    """Checks and encodes the values of files with one schema, inferred or given."""

    def __init__(self, schema: AvroSchema) -> None:
        """schema: one without problems (app/core/avro_schemas/given.py), expanded or not."""
        self._schema = expanded(schema)
        has_structs = all(map(is_nameable, _names_of(self._schema)))
        part = _Building(has_structs=has_structs).part(self._schema, b"")
        self._encode = part.coding.encode
        self._typed = msgspec.json.Decoder(part.type_).decode if has_structs else None

    def check(self, value: bytes, record: Any = None) -> None:
        """Raises BadValueError with the place and the reason for a value that does not fit the schema.

        record: the value decoded by json_records, if it is already.
        """
        if self._typed is not None:
            try:
                self._typed(value)
            except UNREADABLE:
                pass
            else:
                return
        self._explain(decode(value) if record is None else record)

    def encode(self, value: bytes) -> bytes:
        """The record's binary encoding. Raises BadValueError for a value that does not fit."""
        if self._typed is not None:
            try:
                found = self._typed(value)
            except UNREADABLE as error:
                self._explain(decode(value))
                raise BadValueError(str(error)) from error
            return self._encode(found)
        found = decode(value)
        self._explain(found)
        return self._encode(found)

    def _explain(self, record: Any) -> None:
        reason = misfit(self._schema, record)
        if reason is not None:
            raise BadValueError(reason)


class _Part(NamedTuple):
    """The two parts of a schema: the type of its decoded values, and their encoding."""

    type_: Any
    coding: Coding


_PYTHON_TYPES: Final[dict[str, type]] = {
    "null": type(None),
    "boolean": bool,
    "string": str,
    "enum": str,
    "array": list,
    "map": dict,
}
_OR_NULL: Final = {
    "long": avro_binary.long_or_null,
    "double": avro_binary.double_or_null,
    "string": avro_binary.string_or_null,
}


class _Building:
    """Puts the parts of a schema together. Without structs records are dictionaries, and only the encoding counts."""

    def __init__(self, *, has_structs: bool) -> None:
        self._has_structs = has_structs

    def part(self, schema: AvroSchema, prefix: bytes) -> _Part:
        """prefix: the index of the branch that `schema` is of a union."""
        if isinstance(schema, list):
            return self._union(branches_of(schema))
        match type_of(schema), schema:
            case "null", _:
                return _Part(None, avro_binary.null(prefix))
            case "boolean", _:
                return _Part(bool, avro_binary.boolean(prefix))
            case "int" | "long", _:
                return _Part(_integers(schema), avro_binary.long(prefix))
            case "double", _:
                return _Part(_integers(schema) | float, avro_binary.double(prefix))
            case "string", _:
                return _Part(str, avro_binary.string(prefix))
            case "enum", {"symbols": symbols}:
                return _Part(Literal[tuple(symbols)], avro_binary.enum(prefix, symbols))
            case "array", {"items": items}:
                inner = self.part(items, b"")
                return _Part(list[inner.type_], avro_binary.array(prefix, inner.coding))
            case "map", {"values": values}:
                inner = self.part(values, b"")
                return _Part(dict[str, inner.type_], avro_binary.map_(prefix, inner.coding))
            case "record", dict():
                return self._record(schema, prefix)
            case _:
                raise ValueError(f"the schema has problems: `{type_of(schema)}`")

    def _record(self, schema: dict[str, Any], prefix: bytes) -> _Part:
        if is_entries(schema):
            return self.part(schema["fields"][0]["type"], prefix)
        names = [json_name(field) for field in schema["fields"]]
        parts = [self.part(field["type"], b"") for field in schema["fields"]]
        codings = [part.coding for part in parts]
        if not self._has_structs:
            return _Part(dict, avro_binary.record_of_names(prefix, names, codings))
        attributes = [f"f{index}" for index in range(len(names))]
        fields = [
            (attribute, part.type_, None) if is_nullable(field["type"]) else (attribute, part.type_)
            for attribute, part, field in zip(attributes, parts, schema["fields"], strict=True)
        ]
        struct = msgspec.defstruct(
            "Record",
            fields,
            rename=dict(zip(attributes, names, strict=True)),
            kw_only=True,
            forbid_unknown_fields=True,
            gc=False,
            frozen=True,
        )
        return _Part(struct, avro_binary.record_of_attributes(prefix, codings))

    def _union(self, branches: list[AvroSchema]) -> _Part:
        encoders: dict[type, Coding] = {}
        types: list[Any] = []
        numbers: dict[str, Coding] = {}
        for index, branch in enumerate(branches):
            part = self.part(branch, varint(index))
            kind = type_of(branch)
            if kind in ("int", "long", "double"):
                numbers[kind] = part.coding
            else:
                types.append(part.type_)
                encoders[part.type_ if kind == "record" else _PYTHON_TYPES[kind]] = part.coding
        if numbers:
            types.append(_number_type(branches))
            encoders |= _number_encoders(branches, numbers)
        other = _other_than_null(branches)
        if other in _OR_NULL:
            null, value = branches.index("null"), branches.index(other)
            return _Part(Union[tuple(types)], _OR_NULL[other](varint(value), varint(null)))  # noqa: UP007
        return _Part(Union[tuple(types)], avro_binary.union(encoders))  # noqa: UP007 - known only when it runs


def _other_than_null(branches: list[AvroSchema]) -> str:
    """The type of the one other branch, if it is a mere name; an empty text of other unions."""
    others = [branch for branch in branches if branch != "null"]
    return others[0] if len(others) == len(branches) - 1 == 1 and isinstance(others[0], str) else ""


def _integers(schema: AvroSchema) -> Any:
    lowest, highest = integer_range(schema)
    return Annotated[int, Meta(ge=lowest, le=highest)]


def _number_type(branches: list[AvroSchema]) -> Any:
    """The type of all numbers of a union: msgspec takes one range of integers only, and each of these has 0 in it."""
    ranges = [integer_range(branch) for branch in branches if type_of(branch) in ("int", "long", "double")]
    integers = Annotated[int, Meta(ge=min(low for low, _ in ranges), le=max(high for _, high in ranges))]
    return integers | float if any(type_of(branch) == "double" for branch in branches) else integers


def _number_encoders(branches: list[AvroSchema], encoders: dict[str, Coding]) -> dict[type, Coding]:
    as_double = encoders.get("double")
    integer = next((branch for branch in branches if type_of(branch) in ("int", "long")), None)
    if integer is None:
        return {float: encoders["double"], int: encoders["double"]}
    as_integer = encoders[type_of(integer)]
    if as_double is None:
        return {int: as_integer}
    lowest, highest = integer_range(integer)
    if highest == MAX_LONG:
        return {float: as_double, int: as_integer}
    of_integer, of_double = as_integer.encode, as_double.encode

    def encode(value: int) -> bytes:
        return of_integer(value) if lowest <= value <= highest else of_double(value)

    return {float: as_double, int: Coding(encode)}


def _names_of(schema: AvroSchema) -> Iterator[str]:
    """Every name of a field in JSON."""
    match schema:
        case list():
            for branch in branches_of(schema):
                yield from _names_of(branch)
        case {"type": "record", "fields": fields}:
            for field in fields:
                if not is_entries(schema):
                    yield json_name(field)
                yield from _names_of(field["type"])
        case {"items": inner} | {"values": inner}:
            yield from _names_of(inner)
        case _:
            pass
