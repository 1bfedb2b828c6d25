"""The differences of two schemas as sentences, for the history of schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.canonical import canonical_form
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.fitting import branches_of, is_nullable, type_of
from app.core.avro_schemas.names import ITEMS, VALUES, Place, is_entries, json_name, place_text

_WIDER: Final = frozenset(
    {("int", "long"), ("int", "double"), ("long", "double"), ("float", "double"), ("int", "float")}
)
"""Types whose values all, or nearly all, are values of the second."""


def differences(before: AvroSchema, after: AvroSchema) -> list[str]:
    """Return a sentence for each difference in `after`, in the order of the places; empty if there is none.

    Raises SchemaError if one of them is not a schema.
    """
    one, other = expanded(before), expanded(after)
    found = list(_differences(one, other, ()))
    if not found and canonical_form(before) != canonical_form(after):
        found.append("the names of records or the order of fields differ; the content of the fields is the same")
    return found


def _differences(before: AvroSchema, after: AvroSchema, place: Place) -> Iterator[str]:
    where = place_text(place)
    if is_nullable(after) and not is_nullable(before):
        yield f"{where} may be null or missing now"
    if is_nullable(before) and not is_nullable(after):
        yield f"{where} is never null or missing any more"
    olds = {_kind(branch): branch for branch in branches_of(before) if branch != "null"}
    news = {_kind(branch): branch for branch in branches_of(after) if branch != "null"}
    lost, gained = [kind for kind in olds if kind not in news], [kind for kind in news if kind not in olds]
    if len(lost) == len(gained) == 1 and (lost[0], gained[0]) in _WIDER:
        yield f"{where} is {gained[0]} now, widened from {lost[0]}"
    elif lost and gained:
        yield f"{where} is {_list(news)} now, and was {_list(olds)}"
    elif gained:
        yield f"{where} can be {_list(gained)} now" + (f" besides {_list(olds)}" if olds else ", and was always null")
    elif lost:
        yield f"{where} is {_list(news) or 'always null'} now, and never {_list(lost)} any more"
    for kind in sorted(olds.keys() & news.keys()):
        yield from _within(olds[kind], news[kind], place)


def _within(before: AvroSchema, after: AvroSchema, place: Place) -> Iterator[str]:
    match before, after:
        case {"type": "array", "items": old}, {"type": "array", "items": new}:
            yield from _differences(old, new, (*place, ITEMS))
        case {"type": "map", "values": old}, {"type": "map", "values": new}:
            yield from _differences(old, new, (*place, VALUES))
        case {"type": "enum", "symbols": old}, {"type": "enum", "symbols": new}:
            added, removed = [text for text in new if text not in old], [text for text in old if text not in new]
            if added:
                yield f"{place_text(place)} can be {_list(added)} now"
            if removed:
                yield f"{place_text(place)} is never {_list(removed)} any more"
        case {"type": "record"}, {"type": "record"}:
            yield from _of_records(before, after, place)
        case _:
            pass


def _of_records(before: dict[str, Any], after: dict[str, Any], place: Place) -> Iterator[str]:
    if is_entries(before) or is_entries(after):
        if is_entries(before) and is_entries(after):
            yield from _within(before["fields"][0]["type"], after["fields"][0]["type"], place)
        elif is_entries(after):
            yield f"{place_text(place)} has too many names for a record and is a map now"
        else:
            yield f"{place_text(place)} is a record now, and was a map"
        return
    olds = {json_name(field): field["type"] for field in before["fields"]}
    news = {json_name(field): field["type"] for field in after["fields"]}
    for name in sorted(olds.keys() | news.keys()):
        here = (*place, name)
        if name not in olds:
            yield f"{place_text(here)} is new: {_words(news[name])}"
        elif name not in news:
            yield f"{place_text(here)} is removed; it was {_words(olds[name])}"
        else:
            yield from _differences(olds[name], news[name], here)


def _kind(schema: AvroSchema) -> str:
    """Return the name of a union's branch; a logical type is a type of its own."""
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    return f"{type_of(schema)} ({logical})" if logical else type_of(schema)


def _words(schema: AvroSchema) -> str:
    match schema:
        case list():
            return " or ".join(_words(branch) for branch in branches_of(schema))
        case {"type": "array", "items": items}:
            return f"array of {_words(items)}"
        case {"type": "map", "values": values}:
            return f"map of {_words(values)}"
        case _:
            return _kind(schema)


def _list(names: Any) -> str:
    return " or ".join(names)
