"""The policy `bad_record`: values that would widen a known type to a union."""

from __future__ import annotations

from app.core.avro_schemas.names import ITEMS, VALUES, Place, place_text
from app.core.avro_schemas.shape import MAX_FIELDS, NOTHING, Shape, ValueKind, merge


def conflict(known: Shape, found: Shape) -> str | None:
    """Return where and how `found` would make a union of types of `known`; None if it would not.

    Null, missing and new fields are no conflict. Nor is an integer among `double` values, unless it is beyond ±2^53 and
    the double would be another number. Two types within `found` itself, such as in one array, are a conflict. A union
    that is known already, from a time with another policy, accepts its types.
    """
    return _conflict(known, merge(known, found), ())


def type_words(shape: Shape) -> tuple[str, ...]:
    """Return Avro's names of the types at a place, without null; more than one are a union."""
    kinds = shape.kinds
    words: list[str] = []
    if kinds & ValueKind.BOOLEAN:
        words.append("boolean")
    if kinds & ValueKind.BIG or (kinds & ValueKind.INTEGER and not kinds & ValueKind.DOUBLE):
        words.append("long")
    if kinds & ValueKind.DOUBLE:
        words.append("double")
    if kinds & ValueKind.STRING:
        words.append("string")
    if kinds & ValueKind.ARRAY:
        words.append("array")
    if kinds & ValueKind.OBJECT:
        words.append("record" if shape.names is not None else "map")
    return tuple(words)


def _conflict(known: Shape, merged: Shape, place: Place) -> str | None:
    if known is merged:
        return None
    words = type_words(merged)
    if len(words) > 1 and len(words) != len(type_words(known)):
        return _sentence(type_words(known), words, place, _is_by_number(known, merged))
    if merged.items is not None:
        found = _conflict(known.items or NOTHING, merged.items, (*place, ITEMS))
        if found is not None:
            return found
    if merged.values is not None:
        if known.names is not None:
            # Each name had its own type; now one type is for all.
            found = _conflict(NOTHING, merged.values, (*place, VALUES))
            return (
                None if found is None else f"{found}; {place_text(place)} has more than {MAX_FIELDS} names, so is a map"
            )
        return _conflict(known.values or NOTHING, merged.values, (*place, VALUES))
    for name, field in zip(merged.names or (), merged.fields, strict=True):
        found = _conflict(known.field(name) or NOTHING, field, (*place, name))
        if found is not None:
            return found
    return None


def _is_by_number(known: Shape, merged: Shape) -> bool:
    both = ValueKind.BIG | ValueKind.DOUBLE
    return merged.kinds & both == both and known.kinds & both != both


def _sentence(known: tuple[str, ...], merged: tuple[str, ...], place: Place, is_by_number: bool) -> str:
    where = place_text(place)
    if not known:
        return f"{where} has values of several types: {', '.join(merged)}"
    if is_by_number:
        return f"{where} has integers beyond ±2^53 and numbers with a fraction, which no Avro type holds exactly"
    new = [word for word in merged if word not in known] or list(merged)
    return f"{where} is {' or '.join(new)}, and was {' or '.join(known)} until now"
