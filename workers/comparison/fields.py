"""The compared fields of a record, and their equality."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import msgspec

from app.core.transforms import field_path
from app.core.transforms.field_path import MISSING, is_inside
from app.products.audits.comparison import Comparison

Leaves = dict[str, Any]
"""The values of a record by the path of their field; an object is not a value, but its fields are."""

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = {"true": True, "false": False, "": None}
_INTEGER = re.compile(r"-?\d{1,4000}", re.ASCII)
"""Python converts no longer texts; they are no numbers of any system."""
_LONGEST_SHOWN = 200
_MOST_LEVELS = 100
"""Values below a field; equality of deeper ones would exceed Python's recursion limit."""


def leaves_of(comparison: Comparison, *, found: set[str]) -> Callable[[dict[str, Any]], Leaves]:
    """Return the function from a record to its compared fields. It adds those to `found` that the comparison names.

    A missing field equals null, unless both sides are topics: files and tables have null for a missing field. With CSV
    a text that is written as a number, true or false is that value, and an empty text is null, on both sides.

    The function raises ValueError for values that are nested too deeply.
    """
    drops_null = not comparison.is_of_records
    is_text = comparison.is_text
    wanted = {path: field_path.parse(path) for path in comparison.fields}
    ignored = tuple(field_path.parse(path) for path in comparison.ignored_fields)

    def is_compared(path: tuple[str, ...]) -> bool:
        if any(is_inside(path, one) for one in ignored):
            return False
        named = [name for name, one in wanted.items() if is_inside(path, one)]
        found.update(named)
        return not wanted or bool(named)

    known: dict[tuple[str, ...], str | None] = {}

    def name_of(path: tuple[str, ...]) -> str | None:
        if path not in known:
            if len(known) > _MOST_KNOWN:
                known.clear()
            known[path] = field_path.render(path) if is_compared(path) else None
        return known[path]

    def leaves(record: dict[str, Any]) -> Leaves:
        values: Leaves = {}
        for path, value in _walk(record, ()):
            name = name_of(path)
            if name is not None:
                value = _plain(value, is_text=is_text, drops_null=drops_null)
                if value is not None or not drops_null:
                    values[name] = value
        return values

    return leaves


_MOST_KNOWN = 10_000
"""Paths kept for speed; records with keys that never repeat have more."""


def differing(baseline: Leaves, output: Leaves, *, tolerance: float) -> list[str]:
    """Return the paths of the fields that differ, in order."""
    return sorted(
        name
        for name in baseline.keys() | output.keys()
        if not same(baseline.get(name, MISSING), output.get(name, MISSING), tolerance=tolerance)
    )


def same(one: Any, other: Any, *, tolerance: float) -> bool:
    """Return whether two values are equal: numbers by value, so 1 is 1.0; true is not 1, and null is not missing."""
    if type(one) is bool or type(other) is bool:
        return type(one) is type(other) and one == other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or (tolerance > 0 and _distance(one, other) <= tolerance)
    if type(one) is not type(other):
        return False
    if type(one) is list:
        items, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(others) and all(
            same(a, b, tolerance=tolerance) for a, b in zip(items, others, strict=True)
        )
    if type(one) is dict:
        fields, beside = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return fields.keys() == beside.keys() and all(
            same(fields[name], beside[name], tolerance=tolerance) for name in fields
        )
    return bool(one == other)


def canonical(leaves: Leaves) -> bytes:
    """Return equal bytes for equal fields, without tolerance."""
    return msgspec.json.encode(leaves, order="sorted")


def shown_name(name: str) -> str:
    """Return a field's path, cut if it is long."""
    return name if len(name) <= _LONGEST_SHOWN else name[: _LONGEST_SHOWN - 1] + "…"


def shown_value(leaves: Leaves, name: str) -> str | None:
    """Return a field's value as JSON, cut if it is long; None if it is missing."""
    if name not in leaves:
        return None
    text = msgspec.json.encode(leaves[name]).decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def time_ms_of(value: Any) -> int | None:
    """Return milliseconds since 1970 of a time as a number, its digits, or ISO 8601 (without a zone: UTC).

    None: it is no time, or beyond FIRST_MS and LAST_MS.
    """
    if type(value) is int or type(value) is float:
        return int(value) if FIRST_MS <= value <= LAST_MS else None
    if type(value) is datetime:
        return _ms_of(value)
    if type(value) is not str:
        return None
    if _NUMBER.fullmatch(value):
        return time_ms_of(float(value))
    try:
        return _ms_of(datetime.fromisoformat(value.strip()))
    except ValueError:
        return None


def _ms_of(at: datetime) -> int:
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (at - _EPOCH) // _MILLISECOND


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = datetime.resolution * 1000
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last millisecond of the years 1 to 9999; other numbers are no times, or have another unit."""


def _distance(one: float, other: float) -> float:
    try:
        return float(abs(one - other))
    except OverflowError:
        return math.inf


def _walk(record: dict[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if len(above) > _MOST_LEVELS:
        raise ValueError("the fields are nested too deeply")
    for name, value in record.items():
        path = (*above, name)
        if type(value) is dict and value:
            yield from _walk(cast("dict[str, Any]", value), path)
        else:
            yield path, value


def _plain(value: Any, *, is_text: bool, drops_null: bool, level: int = 0) -> Any:
    """Return the value as JSON has it, with one notation for equal numbers. Raises ValueError."""
    if level > _MOST_LEVELS:
        raise ValueError("the values are nested too deeply")
    match value:
        case bool() | int() | None:
            return value
        case float():
            return _number(value)
        case str():
            return _meant(value) if is_text else value
        case Decimal():
            # Not by `%`, which fails beyond the precision of the context.
            return int(value) if value == value.to_integral_value() else _number(float(value))
        case list() | tuple():
            items = cast("list[Any]", value)
            return [_plain(one, is_text=is_text, drops_null=drops_null, level=level + 1) for one in items]
        case dict():
            fields = cast("dict[str, Any]", value)
            plain = {
                name: _plain(one, is_text=is_text, drops_null=drops_null, level=level + 1)
                for name, one in fields.items()
            }
            return {name: one for name, one in plain.items() if one is not None} if drops_null else plain
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date():
            return value.isoformat()
        case _:
            return str(value)


def _number(value: float) -> Any:
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() else value


def _meant(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and _NUMBER.fullmatch(text):
        # Not through a double: account numbers may have 18 digits.
        return int(text)
    return _number(float(text)) if _NUMBER.fullmatch(text) else text
