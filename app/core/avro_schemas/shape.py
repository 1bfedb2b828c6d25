"""The shape of JSON values: the values that an Avro schema for all of them must support.

A shape is a point of a lattice and `merge` is its join, so it is commutative, associative and idempotent. So the shape
of a file depends on its records, not on their order. For that a shape also has facts that are not in the schema:

- An integer beyond ±2^53. Long and double become double only without one, as a double cannot represent it; with one
  they stay a union of both. Any smaller integer fits into a double or a long.
- A field that was null, or one that was missing. Both are null in Avro. But if an object gets so many names that it
  becomes a map, a missing name has no effect on its values.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from enum import IntFlag
from functools import lru_cache, reduce
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from app.core.avro_schemas.names import ITEMS, Place, place_text
from app.core.transforms.comparison import kind_of

MAX_FIELDS: Final = 256
"""An object with more names, over all records, is a map."""
MAX_DEPTH: Final = 64
"""Objects and arrays nested deeper are refused."""
MAX_EXACT: Final = 1 << 53
"""Every integer up to here, and down to its negative, is a double."""
MAX_LONG: Final = (1 << 63) - 1
MIN_LONG: Final = -(1 << 63)


class BadValueError(ValueError):
    """A value that no schema supports; the message has the place and the reason."""


class ValueKind(IntFlag):
    """The kinds at a place. BIG and DOUBLE include INTEGER, whose values they can represent."""

    NULL = 1
    BOOLEAN = 2
    INTEGER = 4
    BIG = 8
    DOUBLE = 16
    STRING = 32
    ARRAY = 64
    OBJECT = 128


class Shape:
    """Immutable, and interned: equal shapes are the same object. Created by `shape_of` and `merge` only.

    kinds: flags of Kind.
    items: for arrays, the merged shape of all items; None: there were no arrays.
    names, fields, required: for objects with few names: in order, the shape of each, and its presence in every object.
        The names are None if there were no objects, or if they are a map.
    values: for objects with many names, the merged shape of all values.
    """

    __slots__ = ("__weakref__", "fields", "items", "kinds", "names", "required", "values")

    kinds: int
    items: Shape | None
    names: tuple[str, ...] | None
    fields: tuple[Shape, ...]
    required: tuple[bool, ...]
    values: Shape | None

    def field(self, name: str) -> Shape | None:
        """Return the shape of the field `name`; None if there is none."""
        return self.fields[self.names.index(name)] if self.names is not None and name in self.names else None


_Key = tuple[int, Shape | None, tuple[str, ...] | None, tuple[Shape, ...], tuple[bool, ...], Shape | None]

_interned: WeakValueDictionary[_Key, Shape] = WeakValueDictionary()
_interning = threading.Lock()


def _intern(
    kinds: int,
    items: Shape | None = None,
    names: tuple[str, ...] | None = None,
    fields: tuple[Shape, ...] = (),
    required: tuple[bool, ...] = (),
    values: Shape | None = None,
) -> Shape:
    key = (kinds, items, names, fields, required, values)
    found = _interned.get(key)
    if found is not None:
        return found
    with _interning:
        found = _interned.get(key)
        if found is None:
            found = Shape()
            found.kinds, found.items, found.names, found.fields, found.required, found.values = key
            _interned[key] = found
    return found


NOTHING: Final = _intern(0)
"""The shape of no value: merged with another one it is the other."""
_INTEGER: Final = _intern(ValueKind.INTEGER)
_BIG: Final = _intern(ValueKind.INTEGER | ValueKind.BIG)
_LEAVES: Final[dict[type, Shape]] = {
    str: _intern(ValueKind.STRING),
    float: _intern(ValueKind.INTEGER | ValueKind.DOUBLE),
    bool: _intern(ValueKind.BOOLEAN),
    type(None): _intern(ValueKind.NULL),
}


def shape_of(record: object) -> Shape:
    """Return the shape of one decoded JSON object. Raises BadValueError."""
    if not isinstance(record, dict):
        raise BadValueError(f"the value is {kind_of(record)}; a file's records are JSON objects")
    try:
        return _of(record, 1)
    except BadValueError as error:
        # The place is only searched for here, since that takes time.
        raise BadValueError(f"{place_text(_place_of_bad(cast(object, record), 1) or ())}: {error}") from None


def _of(value: Any, depth: int) -> Shape:
    kind = cast("type[Any]", type(value))
    leaf = _LEAVES.get(kind)
    if leaf is not None:
        return leaf
    if kind is int:
        if -MAX_EXACT <= value <= MAX_EXACT:
            return _INTEGER
        if MIN_LONG <= value <= MAX_LONG:
            return _BIG
        raise BadValueError("an integer beyond 64 bits; write it as text")
    if depth > MAX_DEPTH:
        raise BadValueError(f"objects and arrays are nested deeper than {MAX_DEPTH}")
    if kind is dict:
        fields = tuple([_of(part, depth + 1) for part in value.values()])
        return _record(tuple(value), fields)
    if kind is list:
        return _intern(ValueKind.ARRAY, items=_merge_all([_of(item, depth + 1) for item in value]))
    raise BadValueError(f"{kind_of(value)} is not a JSON value")


# Most records have the names of another one, in its order.
@lru_cache(maxsize=2048)
def _record(names: tuple[str, ...], fields: tuple[Shape, ...]) -> Shape:
    if len(names) > MAX_FIELDS:
        return _intern(ValueKind.OBJECT, values=_merge_all(fields))
    in_order = sorted(zip(names, fields, strict=True), key=lambda field: field[0])
    return _intern(
        ValueKind.OBJECT,
        names=tuple([name for name, _ in in_order]),
        fields=tuple([field for _, field in in_order]),
        required=(True,) * len(names),
    )


def merge(a: Shape, b: Shape) -> Shape:
    """Return the smallest shape with all values of `a` and `b`."""
    if a is b or not b.kinds:
        return a
    return _merge(a, b) if a.kinds else b


# Two thousand steps of similar files: shapes that are larger than most, all at once, are about 20 MB.
@lru_cache(maxsize=2048)
def _merge(a: Shape, b: Shape) -> Shape:
    kinds = a.kinds | b.kinds
    items = _merge_both(a.items, b.items)
    if a.names is None or b.names is None:
        if a.values is None and b.values is None:
            one = b if a.names is None else a
            return _intern(kinds, items, one.names, one.fields, one.required)
        return _intern(kinds, items, values=_merge_all([*a.fields, *b.fields, *_both(a.values, b.values)]))
    of_a = dict(zip(a.names, zip(a.fields, a.required, strict=True), strict=True))
    of_b = dict(zip(b.names, zip(b.fields, b.required, strict=True), strict=True))
    names = tuple(sorted(of_a.keys() | of_b.keys()))
    if len(names) > MAX_FIELDS:
        return _intern(kinds, items, values=_merge_all([*a.fields, *b.fields]))
    merged: list[tuple[Shape, bool]] = []
    for name in names:
        in_a, in_b = of_a.get(name), of_b.get(name)
        if in_a is None or in_b is None:
            present = in_a or in_b or (NOTHING, False)
            merged.append((present[0], False))
        else:
            merged.append((merge(in_a[0], in_b[0]), in_a[1] and in_b[1]))
    return _intern(kinds, items, names, tuple([m[0] for m in merged]), tuple([m[1] for m in merged]))


def _merge_both(a: Shape | None, b: Shape | None) -> Shape | None:
    return b if a is None else a if b is None else merge(a, b)


def _both(a: Shape | None, b: Shape | None) -> list[Shape]:
    return [shape for shape in (a, b) if shape is not None]


def _merge_all(shapes: Iterable[Shape]) -> Shape:
    return reduce(merge, shapes, NOTHING)


def _place_of_bad(value: object, depth: int) -> Place | None:
    """Return the place of the first part that `_of` refuses by itself."""
    if isinstance(value, dict) and depth <= MAX_DEPTH:
        parts = list(cast("dict[str, object]", value).items())
    elif isinstance(value, list) and depth <= MAX_DEPTH:
        parts = [(ITEMS, part) for part in cast("list[object]", value)]
    else:
        try:
            _of(value, depth)
        except BadValueError:
            return ()
        else:
            return None
    for step, part in parts:
        found = _place_of_bad(part, depth + 1)
        if found is not None:
            return (step, *found)
    return None
