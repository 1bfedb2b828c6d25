"""The place and reason if a JSON value does not fit an Avro schema.

A value fits if reading returns it unchanged. An integer fits a `double` up to ±2^53 only. A field that is not in the
schema does not fit, as it would be lost. A field may be missing only if it can be null, as which it is read.
All schemas here are expanded (expanding.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.names import ITEMS, Place, is_entries, json_name, place_text
from app.core.avro_schemas.shape import MAX_EXACT, MAX_LONG, MIN_LONG
from app.core.transforms.comparison import kind_of

_MAX_INT: Final = (1 << 31) - 1
_DAY_MS: Final = 86_400_000
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""The days of the years 1 to 9999, counted from 1970: the range of Python."""

RANGES: Final = {
    ("int", None): (-_MAX_INT - 1, _MAX_INT),
    ("long", None): (MIN_LONG, MAX_LONG),
    ("double", None): (-MAX_EXACT, MAX_EXACT),
    ("int", "date"): (_FIRST_DAY, _LAST_DAY),
    ("long", "timestamp-millis"): (_FIRST_DAY * _DAY_MS, (_LAST_DAY + 1) * _DAY_MS - 1),
    ("long", "timestamp-micros"): (_FIRST_DAY * _DAY_MS * 1000, (_LAST_DAY + 1) * _DAY_MS * 1000 - 1),
}
"""The integers that a type with a logical type, or None, represents exactly."""
KINDS: Final = {
    **{name: name for name in ("null", "boolean", "array", "double")},
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("string", "enum"), "text"),
    **dict.fromkeys(("record", "map"), "object"),
}
"""Types that a JSON value does not distinguish, under one name. Types that are not listed cannot come from JSON."""


def type_of(schema: AvroSchema) -> str:
    """Return the type of an expanded schema; a list of branches is `union`."""
    return schema if isinstance(schema, str) else "union" if isinstance(schema, list) else cast(str, schema["type"])


def branches_of(schema: AvroSchema) -> list[AvroSchema]:
    """Return the branches of a union; for another schema, the schema itself."""
    return cast("list[AvroSchema]", schema) if isinstance(schema, list) else [schema]


def is_nullable(schema: AvroSchema) -> bool:
    return "null" in branches_of(schema)


def integer_range(schema: AvroSchema) -> tuple[int, int]:
    """Return the smallest and the largest integer that `int`, `long` or `double`, with a logical type or not,
    represents.

    Raises KeyError for another type.
    """
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    return RANGES[type_of(schema), logical]


def misfit(schema: AvroSchema, value: Any, place: Place = ()) -> str | None:
    """Return where and why a decoded JSON value does not fit a schema without problems (given.py); None if it fits.

    place: of the value in its record.
    """
    if isinstance(schema, list):
        return _union_misfit(schema, value, place)
    match type_of(schema), value:
        case ("null", None) | ("boolean", bool()) | ("string", str()) | ("double", float()):
            return None
        case "int" | "long" | "double", int() if not isinstance(value, bool):
            lowest, highest = integer_range(schema)
            if lowest <= value <= highest:
                return None
            return f"{place_text(place)} is {value}, and {_words(schema)} has {lowest} to {highest}"
        case "enum", str():
            symbols = cast("dict[str, Any]", schema)["symbols"]
            return None if value in symbols else f"{place_text(place)} is none of {', '.join(symbols)[:200]}"
        case "array", list():
            items = cast("dict[str, Any]", schema)["items"]
            reasons = (misfit(items, item, (*place, ITEMS)) for item in cast("list[Any]", value))
        case "map", dict():
            values = cast("dict[str, Any]", schema)["values"]
            members = cast("dict[str, Any]", value).items()
            reasons = (misfit(values, member, (*place, name)) for name, member in members)
        case "record", dict():
            reasons = _record_misfits(cast("dict[str, Any]", schema), cast("dict[str, Any]", value), place)
        case "double", _:
            return f"{place_text(place)} is {kind_of(value)}, not a number"
        case _:
            return f"{place_text(place)} is {_found(value)}, not {_words(schema)}"
    return next((reason for reason in reasons if reason is not None), None)


def _union_misfit(branches: list[AvroSchema], value: Any, place: Place) -> str | None:
    reasons: list[str] = []
    for branch in branches:
        reason = misfit(branch, value, place)
        if reason is None:
            return None
        if _accepts_kind(branch, value):
            reasons.append(reason)
    return reasons[-1] if reasons else f"{place_text(place)} is {_found(value)}, not {_words(branches)}"


def _record_misfits(record: dict[str, Any], value: dict[str, Any], place: Place) -> Iterator[str | None]:
    if is_entries(record):
        yield misfit(record["fields"][0]["type"], value, place)
        return
    names: set[str] = set()
    for field in record["fields"]:
        name = json_name(field)
        names.add(name)
        if name in value:
            yield misfit(field["type"], value[name], (*place, name))
        elif not is_nullable(field["type"]):
            yield f"{place_text((*place, name))} is missing, and {_words(field['type'])} cannot be null"
    for name in value:
        if name not in names:
            yield f"{place_text((*place, name))} is not in the schema"


def _accepts_kind(schema: AvroSchema, value: Any) -> bool:
    """Return whether a misfit is inside the value, or in its size, rather than in its type."""
    match KINDS[type_of(schema)], value:
        case ("array", list()) | ("object", dict()) | ("text", str()):
            return True
        case "integer" | "double", int():
            return not isinstance(value, bool)
        case _:
            return False


def _found(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case int():
            return "an integer"
        case float():
            return "a number with a fraction"
        case _:
            return kind_of(value)


def _words(schema: AvroSchema) -> str:
    if isinstance(schema, list):
        return " or ".join(_words(branch) for branch in cast("list[AvroSchema]", schema))
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    return f"{type_of(schema)} ({logical})" if logical else type_of(schema)
