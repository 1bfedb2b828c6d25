"""Convert the Avro schemas of files into one Spark schema, and the records of each file into rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, cast

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.names import is_entries, json_name

RECORD = "record"
"""The only column if records have too many names for columns: each record is a map."""

_IS_ALL = "fenceline.is_record"
"""Metadata key of that column, which is no field of the record."""
_PRIMITIVES: Mapping[str, DataType] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": LongType(),
    "long": LongType(),
    "float": DoubleType(),
    "double": DoubleType(),
    "string": StringType(),
    "enum": StringType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
}


def merged_schema(schemas: Iterable[dict[str, Any]]) -> StructType:
    """Return the Spark schema for the records of files with these Avro schemas, independent of their order.

    All fields are nullable and ordered by name; missing ones are null. Integer and double become double. A record in
    one schema and a map in another become a map. Types without a common one become text: values other than strings are
    JSON, as in Spark's JSON reader.
    """
    none: DataType = StructType([])
    merged = reduce(_merge, (_spark(expanded(schema)) for schema in schemas), none)
    found = _without_null(merged)
    return (
        found if isinstance(found, StructType) else StructType([StructField(RECORD, found, metadata={_IS_ALL: True})])
    )


def row_of(schema: StructType) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a function from a record to its row. It raises OverflowError for an integer without an exact double."""
    if schema.fieldNames() == [RECORD] and (schema[RECORD].metadata or {}).get(_IS_ALL):
        of_map = _converter(schema[RECORD].dataType)
        return lambda record: (of_map(record),)
    return _of_struct(schema)


def _spark(schema: AvroSchema) -> DataType:
    """Return the Spark type of the JSON values of a schema: a time is the number that was written."""
    if isinstance(schema, str):
        return _PRIMITIVES[schema]
    if isinstance(schema, list):
        branches = [_spark(branch) for branch in schema]
        # Both in one file: some integers have no exact double.
        if {LongType, DoubleType} <= {type(branch) for branch in branches}:
            return StringType()
        return reduce(_merge, branches)
    match schema:
        case {"type": "array", "items": items}:
            return ArrayType(_spark(items))
        case {"type": "map", "values": values}:
            return MapType(StringType(), _spark(values))
        case {"type": "record", "fields": fields}:
            if is_entries(schema):
                return _spark(fields[0]["type"])
            return StructType([StructField(json_name(field), _spark(field["type"])) for field in fields])
        case _:
            return _PRIMITIVES[schema["type"]]


def _merge(one: DataType, other: DataType) -> DataType:
    if isinstance(one, NullType) or one == other:
        return other
    if isinstance(other, NullType):
        return one
    match one, other:
        case (LongType(), DoubleType()) | (DoubleType(), LongType()):
            return DoubleType()
        case ArrayType(), ArrayType():
            return ArrayType(_merge(one.elementType, other.elementType))
        case MapType(), MapType():
            return MapType(StringType(), _merge(one.valueType, other.valueType))
        case StructType(), StructType():
            fields = {field.name: field.dataType for field in one.fields}
            for field in other.fields:
                fields[field.name] = _merge(fields.get(field.name, NullType()), field.dataType)
            return StructType([StructField(name, fields[name]) for name in sorted(fields)])
        case (StructType(), MapType()) | (MapType(), StructType()):
            struct, of_map = (one, other) if isinstance(one, StructType) else (other, one)
            values = [field.dataType for field in cast(StructType, struct).fields]
            return MapType(StringType(), reduce(_merge, values, cast(MapType, of_map).valueType))
        case _:
            return StringType()


def _without_null(kind: DataType) -> DataType:
    """Replace types that are always null by text."""
    match kind:
        case NullType():
            return StringType()
        case ArrayType():
            return ArrayType(_without_null(kind.elementType))
        case MapType():
            return MapType(StringType(), _without_null(kind.valueType))
        case StructType():
            fields = sorted(kind.fields, key=lambda field: field.name)
            return StructType([StructField(field.name, _without_null(field.dataType)) for field in fields])
        case _:
            return kind


def _converter(kind: DataType) -> Callable[[Any], Any]:
    match kind:
        case StructType():
            of_struct = _of_struct(kind)
            return lambda value: None if value is None else of_struct(value)
        case ArrayType():
            of_item = _converter(kind.elementType)
            return lambda value: None if value is None else [of_item(item) for item in value]
        case MapType():
            of_value = _converter(kind.valueType)
            return lambda value: None if value is None else {name: of_value(one) for name, one in value.items()}
        case StringType():
            return _text
        case DoubleType():
            return _double
        case _:
            return lambda value: value


def _of_struct(struct: StructType) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    fields = [(field.name, _converter(field.dataType)) for field in struct.fields]
    return lambda value: tuple([convert(value.get(name)) for name, convert in fields])


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _double(value: Any) -> float | None:
    if type(value) is int and int(float(value)) != value:
        raise OverflowError(
            f"{value} has no exact double, but the field is a double in other files; specify a schema with a string"
        )
    return None if value is None else float(value)
