"""The Avro schema of a file from a shape."""

from __future__ import annotations

from typing import Any

from app.core.avro_schemas.names import COMPLEX, ENTRIES_FIELD, PRIMITIVES, avro_name
from app.core.avro_schemas.shape import Shape, ValueKind

AvroSchema = str | list[Any] | dict[str, Any]
"""An Avro schema as JSON: the name of a type, a union, or an object."""


def avro_schema(shape: Shape, name: str) -> dict[str, Any]:
    """Return the Avro record schema for all objects of `shape`; `name` is the record's, made valid.

    Fields are in the order of their names. A field that was null or missing is a union with null, first and as its
    default: Avro has no missing field, so both are read as null. A name that Avro does not allow is escaped, and the
    field's property `json` has the original. An object with more names than a record may have is a map. If that is the
    record itself, the map is its only field, whose property `json` is null.

    Schemas with the same Parsing Canonical Form are the same schema: they differ in nothing else.
    """
    if shape.kinds != ValueKind.OBJECT:
        raise ValueError("a file's records are objects: its shape has no other kind")
    record = avro_name(name)
    if record in PRIMITIVES | COMPLEX:
        record += "_"
    naming = _Naming()
    if shape.names is not None:
        return naming.record(shape, record)
    entries = {"name": ENTRIES_FIELD, "type": naming.type_of(shape, naming.unique(record)), "json": None}
    return {"type": "record", "name": record, "fields": [entries]}


class _Naming:
    """Gives each record a name from its place. Equal names are numbered, in the order of the fields."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self._taken:
            count += 1
            candidate = f"{name}_{count}"
        self._taken.add(candidate)
        return candidate

    def record(self, shape: Shape, name: str) -> dict[str, Any]:
        name = self.unique(name)
        fields: list[dict[str, Any]] = []
        for json, field, is_required in zip(shape.names or (), shape.fields, shape.required, strict=True):
            escaped = avro_name(json)
            type_ = self.type_of(field, f"{name}_{escaped}", is_nullable=not is_required)
            entry: dict[str, Any] = {"name": escaped, "type": type_}
            if type_ == "null" or (isinstance(type_, list) and type_[0] == "null"):
                entry["default"] = None
            if escaped != json:
                entry["json"] = json
            fields.append(entry)
        return {"type": "record", "name": name, "fields": fields}

    def type_of(self, shape: Shape, name: str, *, is_nullable: bool = False) -> AvroSchema:
        kinds = shape.kinds
        branches: list[AvroSchema] = []
        if kinds & ValueKind.NULL or is_nullable or not kinds:
            branches.append("null")
        if kinds & ValueKind.BOOLEAN:
            branches.append("boolean")
        if kinds & ValueKind.BIG or (kinds & ValueKind.INTEGER and not kinds & ValueKind.DOUBLE):
            branches.append("long")
        if kinds & ValueKind.DOUBLE:
            branches.append("double")
        if kinds & ValueKind.STRING:
            branches.append("string")
        if shape.items is not None:
            branches.append({"type": "array", "items": self.type_of(shape.items, f"{name}_item")})
        if shape.values is not None:
            branches.append({"type": "map", "values": self.type_of(shape.values, f"{name}_value")})
        if shape.names is not None:
            branches.append(self.record(shape, name))
        return branches[0] if len(branches) == 1 else branches
