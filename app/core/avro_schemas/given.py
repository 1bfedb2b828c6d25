"""Checks of a given schema: whether JSON values can be written with it.

Reading must return a fitting value unchanged. So `float`, which would round most numbers, and `bytes` and `fixed`,
which JSON does not have, are refused. fitting.py decides which values fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.expanding import SchemaError, expanded
from app.core.avro_schemas.fitting import KINDS, RANGES, misfit, type_of
from app.core.avro_schemas.names import ITEMS, VALUES, Place, is_entries, place_text

_UNUSABLE: Final = {
    "float": "`float` rounds most numbers to 32 bits; use `double`",
    "bytes": "`bytes` cannot come from JSON; use `string`",
    "fixed": "`fixed` cannot come from JSON; use `string`",
    "error": "`error` is for protocols; use `record`",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)


def problems(schema: Any) -> list[str]:
    """Return all reasons why this cannot be the schema of a file sink's records; empty if it can."""
    try:
        whole = expanded(schema)
    except SchemaError as error:
        return [str(error)]
    if type_of(whole) != "record":
        return [f"a file's records need a schema of type `record`; this one is `{type_of(whole)}`"]
    return list(_problems(whole, ()))


def _problems(schema: AvroSchema, place: Place) -> Iterator[str]:
    type_ = type_of(schema)
    where = place_text(place)
    if type_ in _UNUSABLE:
        yield f"{where}: {_UNUSABLE[type_]}"
    match schema:
        case list():
            yield from _union_problems(schema, place)
        case {"type": "array", "items": items}:
            yield from _problems(items, (*place, ITEMS))
        case {"type": "map", "values": values}:
            yield from _problems(values, (*place, VALUES))
        case {"type": "record", "name": str(name)}:
            yield from _name_problem(name, where)
            yield from _record_problems(schema, place)
        case {"type": "enum", "name": str(name)}:
            yield from _name_problem(name, where)
            yield from _symbol_problems(schema, where)
        case {"logicalType": logical} if (type_, str(logical)) not in RANGES:
            known = ", ".join(f"`{name}` of `{of}`" for of, name in RANGES if name is not None)
            yield f"{where}: the logical type `{logical}` of `{type_}` is not supported; leave it out ({known} are)"
        case _:
            pass


def _union_problems(branches: list[AvroSchema], place: Place) -> Iterator[str]:
    if not branches:
        yield f"{place_text(place)}: a union without types"
    seen: dict[str, str] = {}
    for branch in branches:
        type_ = type_of(branch)
        kind = KINDS.get(type_)
        if kind is not None and kind in seen:
            yield f"{place_text(place)}: a value from JSON does not distinguish `{seen[kind]}` and `{type_}` of a union"
        elif kind is not None:
            seen[kind] = type_
        yield from _problems(branch, place)


def _record_problems(record: dict[str, Any], place: Place) -> Iterator[str]:
    if is_entries(record):
        entries = record["fields"][0]["type"]
        if place or type_of(entries) != "map":
            yield f"{place_text(place)}: only the map of all names of a whole record can have the property `json` null"
        else:
            yield from _problems(entries["values"], (*place, VALUES))
        return
    names: set[str] = set()
    json_names: set[str] = set()
    for field in record["fields"]:
        name = field["name"]
        json: object = field.get("json", name)
        if not isinstance(json, str):
            yield f"{place_text((*place, name))}: the property `json` is the name of the field in JSON, so it is text"
            continue
        here = (*place, json)
        yield from _name_problem(name, place_text(here), is_field=True)
        if name in names or json in json_names:
            yield f"{place_text(here)}: there is another field of that name"
        names.add(name)
        json_names.add(json)
        found = list(_problems(field["type"], here))
        yield from found
        if not found and "default" in field and (reason := misfit(field["type"], field["default"], here)) is not None:
            yield f"the default does not fit: {reason}"


def _name_problem(name: str, where: str, *, is_field: bool = False) -> Iterator[str]:
    if not _NAME.fullmatch(name) or (is_field and "." in name):
        yield f"{where}: `{name}` is not a name that Avro allows: letters, digits and `_`, not beginning with a digit"


def _symbol_problems(enum: dict[str, Any], where: str) -> Iterator[str]:
    symbols: object = enum.get("symbols")
    if not isinstance(symbols, list) or not symbols:
        yield f"{where}: an enum needs a list of symbols"
        return
    texts = [symbol for symbol in cast("list[object]", symbols) if isinstance(symbol, str)]
    if len(texts) != len(cast("list[object]", symbols)):
        yield f"{where}: a symbol of the enum is not text"
    if len(set(texts)) != len(texts):
        yield f"{where}: a symbol of the enum occurs twice"
    for text in texts:
        yield from _name_problem(text, where, is_field=True)
    if "default" in enum and enum["default"] not in texts:
        yield f"{where}: the default of the enum is not one of its symbols"
