"""From Avro schemas of files to one Spark schema, and from the records of each file to its rows."""

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
"""The only column where records have too many names for columns: each is a map."""

_IS_ALL = "fenceline.is_record"
"""In the metadata of that column: it is no field of the record."""
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
    """The Spark schema that holds the records of files with these Avro schemas, in whatever order they come.

    A field that some have not is null there; all are nullable, and stand in the order of their names. Integers and
    doubles become doubles. An object that is a record here and a map there is a map. Types that have nothing in common
    become text: what is no string is JSON, as Spark's own reader of JSON does.
    """
    none: DataType = StructType([])
    merged = reduce(_merge, (_spark(expanded(schema)) for schema in schemas), none)
    found = _without_null(merged)
    return (
        found if isinstance(found, StructType) else StructType([StructField(RECORD, found, metadata={_IS_ALL: True})])
    )


def row_of(schema: StructType) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """A function from a record to its row. It raises OverflowError for an integer that no double holds exactly."""
    if schema.fieldNames() == [RECORD] and (schema[RECORD].metadata or {}).get(_IS_ALL):
        of_map = _converter(schema[RECORD].dataType)
        return lambda record: (of_map(record),)
    return _of_struct(schema)


def _spark(schema: AvroSchema) -> DataType:
    """Of the JSON values that were written with it: a time is the number that it was."""
    if isinstance(schema, str):
        return _PRIMITIVES[schema]
    if isinstance(schema, list):
        branches = [_spark(branch) for branch in schema]
        # Both in one file: there are integers that no double holds.
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
    """What was never anything but null is text."""
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
            f"{value} is no double exactly, and other files have doubles at its place; give a schema of your own, with "
            "a string there"
        )
    return None if value is None else float(value)
