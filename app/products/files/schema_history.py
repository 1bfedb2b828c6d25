"""The schemas of a pipeline's files, with the changes from one to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

KEPT_FOR = timedelta(days=90)
"""Retention of a schema after its last file."""
MOST_SCHEMAS = 1_000
"""Most schemas of one pipeline; the least recently used are deleted first."""
_DEEPEST = 32


class FileSchema(msgspec.Struct, frozen=True, kw_only=True):
    """schema: Avro as JSON. files: number of its files that were read. first_at, last_at: their `referenced_at`."""

    fingerprint: str
    schema: dict[str, Any]
    files: int
    first_at: datetime
    last_at: datetime


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """field: a path such as `user.id`, `items[].price`. before, after: its type as text; None: it does not exist."""

    field: str
    before: str | None
    after: str | None


class SchemaInHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A schema with its changes since the previous one; None: no previous one is kept."""

    schema: FileSchema
    changes: tuple[FieldChange, ...] | None


def history_of(schemas: Sequence[FileSchema]) -> list[SchemaInHistory]:
    """Compare each schema with the next one. `schemas`: by first file, newest first."""
    found: list[SchemaInHistory] = []
    for index, one in enumerate(schemas):
        before = schemas[index + 1] if index + 1 < len(schemas) else None
        changes = None if before is None else tuple(compare(before.schema, one.schema))
        found.append(SchemaInHistory(schema=one, changes=changes))
    return found


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[FieldChange]:
    """Return the added, removed and changed fields of two Avro schemas, by name."""
    old, new = dict(fields_of(before)), dict(fields_of(after))
    return [
        FieldChange(field=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def fields_of(schema: object) -> Iterator[tuple[str, str]]:
    """Return every field of an Avro schema by its path, with its type as text; `[]` for arrays, `{}` for maps."""
    yield from _within(schema, "", 0)


def type_words(schema: object, depth: int = 0) -> str:
    """Return a text such as `null | string`, `array of int`, `long (timestamp-millis)`, or a type's name."""
    if isinstance(schema, str):
        return schema
    if depth > _DEEPEST:
        return "…"
    if isinstance(schema, list):
        return " | ".join(type_words(one, depth + 1) for one in cast("list[object]", schema))
    if not isinstance(schema, dict):
        return "?"
    told = cast("dict[str, object]", schema)
    kind = told.get("type")
    if kind == "array":
        return f"array of {type_words(told.get('items'), depth + 1)}"
    if kind == "map":
        return f"map of {type_words(told.get('values'), depth + 1)}"
    words = kind if isinstance(kind, str) else type_words(kind, depth + 1)
    logical = told.get("logicalType")
    return f"{words} ({logical})" if isinstance(logical, str) else words


def _within(schema: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        return
    if isinstance(schema, list):
        for one in cast("list[object]", schema):
            yield from _within(one, path, depth + 1)
        return
    if not isinstance(schema, dict):
        return
    told = cast("dict[str, object]", schema)
    kind = told.get("type")
    if kind == "record":
        fields = told.get("fields")
        for field in cast("list[object]", fields) if isinstance(fields, list) else []:
            if isinstance(field, dict):
                yield from _field(cast("dict[str, object]", field), path, depth)
    elif kind == "array":
        yield from _within(told.get("items"), f"{path}[]", depth + 1)
    elif kind == "map":
        yield from _within(told.get("values"), f"{path}{{}}", depth + 1)
    elif not isinstance(kind, str):
        yield from _within(kind, path, depth + 1)


def _field(field: dict[str, object], path: str, depth: int) -> Iterator[tuple[str, str]]:
    name = field.get("name")
    if not isinstance(name, str):
        return
    here = f"{path}.{name}" if path else name
    yield here, type_words(field.get("type"))
    yield from _within(field.get("type"), here, depth + 1)
