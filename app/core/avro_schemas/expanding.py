"""A valid schema with each name replaced by its definition, so that readers of it need no table of names."""

from __future__ import annotations

from typing import Any, Final, cast

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.canonical import full_name
from app.core.avro_schemas.names import PRIMITIVES
from app.core.avro_schemas.shape import MAX_DEPTH

MAX_TYPES: Final = 10_000
"""The largest number of types of an expanded schema; names that are used repeatedly multiply."""


class SchemaError(ValueError):
    """The text is not an Avro schema, or not a supported one; the message has the place and the reason."""


def expanded(schema: AvroSchema) -> AvroSchema:
    """Return the schema with its named types written out at each use.

    A primitive type is its name, or an object if it has a logical type; named types have full names. Raises SchemaError
    for an undefined or recursive name, for a value that is not a schema, and for more than MAX_TYPES types.
    """
    return _Expanding().expand(schema, "")


class _Expanding:
    def __init__(self) -> None:
        self._defined: dict[str, AvroSchema] = {}
        self._sizes: dict[str, int] = {}
        self._open: set[str] = set()
        self._size = 0
        self._depth = 0

    def expand(self, schema: object, namespace: str) -> AvroSchema:
        self._count(1)
        self._depth += 1
        if self._depth > 2 * MAX_DEPTH:
            raise SchemaError(f"types are nested deeper than {2 * MAX_DEPTH}")
        found = self._expand(schema, namespace)
        self._depth -= 1
        return found

    def _count(self, types: int) -> None:
        self._size += types
        if self._size > MAX_TYPES:
            raise SchemaError(f"the schema has more than {MAX_TYPES} types when it is written out")

    def _expand(self, schema: object, namespace: str) -> AvroSchema:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union([self.expand(branch, namespace) for branch in cast("list[object]", schema)])
        if not isinstance(schema, dict):
            raise SchemaError(f"{schema!r} is not a schema: one is a name, a list or an object")
        whole = cast("dict[str, Any]", schema)
        type_ = whole.get("type")
        match type_:
            case "array":
                return {"type": "array", "items": self.expand(whole.get("items"), namespace)}
            case "map":
                return {"type": "map", "values": self.expand(whole.get("values"), namespace)}
            case "record" | "error" | "enum" | "fixed":
                return self._definition(whole, type_, namespace)
            case str() if type_ in PRIMITIVES and "logicalType" in whole:
                return dict(whole)
            case str() if type_ in PRIMITIVES:
                return type_
            case None:
                raise SchemaError(f"a schema without a `type`: {str(whole)[:100]}")
            case _:
                raise SchemaError(f"the `type` of {str(whole)[:100]} is not one of Avro's; a name stands alone")

    def _named(self, name: str, namespace: str) -> AvroSchema:
        if name in PRIMITIVES:
            return name
        full = full_name(name, namespace)
        if full in self._open:
            raise SchemaError(f"`{name}` contains itself; a recursive type is not supported")
        if full not in self._defined:
            raise SchemaError(f"`{name}` is not a type of Avro, and not defined before it is used")
        self._count(self._sizes[full])
        return self._defined[full]

    def _union(self, branches: list[AvroSchema]) -> AvroSchema:
        if any(isinstance(branch, list) for branch in branches):
            raise SchemaError("a union directly within a union")
        return branches

    def _definition(self, schema: dict[str, Any], type_: str, namespace: str) -> AvroSchema:
        name = schema.get("name")
        if not isinstance(name, str):
            raise SchemaError(f"{type_} without a name")
        if not isinstance(schema.get("namespace", ""), str):
            raise SchemaError(f"the namespace of `{name}` is not text")
        full = full_name(name, schema.get("namespace", namespace))
        if full in self._defined or full in self._open:
            raise SchemaError(f"`{full}` is defined twice")
        whole = {**schema, "name": full}
        whole.pop("namespace", None)
        size_before = self._size
        if type_ in ("record", "error"):
            fields = schema.get("fields")
            if not isinstance(fields, list):
                raise SchemaError(f"`{full}` has no list of fields")
            self._open.add(full)
            whole["fields"] = [self._field(field, full) for field in cast("list[object]", fields)]
            self._open.discard(full)
        self._defined[full] = whole
        self._sizes[full] = self._size - size_before
        return whole

    def _field(self, field: object, record: str) -> dict[str, Any]:
        if not isinstance(field, dict):
            raise SchemaError(f"`{record}` has a field that is not an object")
        whole = cast("dict[str, Any]", field)
        if not isinstance(whole.get("name"), str):
            raise SchemaError(f"`{record}` has a field without a name")
        return {**whole, "type": self.expand(whole.get("type"), record.rpartition(".")[0])}
