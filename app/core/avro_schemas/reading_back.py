"""The way back from the values of an Avro reader to the JSON values that were written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, cast

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.fitting import branches_of
from app.core.avro_schemas.names import is_entries, json_name

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)

_Conversion = Callable[[Any], Any]


def json_values(schema: AvroSchema) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """Return a function from a record, as fastavro reads it with this schema, to the JSON object that was written.

    None if the record is that object already: no name was escaped, and no logical type makes a date of a number. A
    field that was missing is null, and an integer among `double` values is a `double` of the same value.
    """
    return _conversion(expanded(schema))


def _conversion(schema: AvroSchema) -> _Conversion | None:
    if isinstance(schema, str):
        return None
    if isinstance(schema, list):
        return _of_union(branches_of(schema))
    match schema:
        case {"type": "array", "items": items}:
            return _of_items(_conversion(items))
        case {"type": "map", "values": values}:
            return _of_values(_conversion(values))
        case {"type": "record"}:
            return _of_record(schema)
        case {"logicalType": "timestamp-millis"}:
            return lambda value: (value - _EPOCH) // _MILLISECOND
        case {"logicalType": "timestamp-micros"}:
            return lambda value: (value - _EPOCH) // _MICROSECOND
        case {"logicalType": "date"}:
            return lambda value: value.toordinal() - _EPOCH_DAY
        case _:
            return None


def _of_union(branches: list[AvroSchema]) -> _Conversion | None:
    by_type: dict[type, _Conversion] = {}
    for branch in branches:
        conversion = _conversion(branch)
        if conversion is not None:
            by_type[_python_type(branch)] = conversion
    if not by_type:
        return None

    def convert(value: Any) -> Any:
        conversion = by_type.get(cast("type[Any]", type(value)))
        return value if conversion is None else conversion(value)

    return convert


def _python_type(branch: AvroSchema) -> type:
    """Return the Python type of a branch with a conversion; no two branches of a union share one."""
    match branch:
        case {"type": "array"}:
            return list
        case {"type": "record" | "map"}:
            return dict
        case {"logicalType": "date"}:
            return date
        case _:
            return datetime


def _of_items(conversion: _Conversion | None) -> _Conversion | None:
    return None if conversion is None else lambda items: [conversion(item) for item in items]


def _of_values(conversion: _Conversion | None) -> _Conversion | None:
    return None if conversion is None else lambda values: {name: conversion(value) for name, value in values.items()}


def _of_record(record: dict[str, Any]) -> _Conversion | None:
    if is_entries(record):
        (entries,) = record["fields"]
        of_map = _conversion(entries["type"])
        name = entries["name"]
        return (lambda value: value[name]) if of_map is None else (lambda value: of_map(value[name]))
    fields = [(field["name"], json_name(field), _conversion(field["type"])) for field in record["fields"]]
    if all(name == json and conversion is None for name, json, conversion in fields):
        return None

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {
            json: value[name] if conversion is None else conversion(value[name]) for name, json, conversion in fields
        }

    return convert
