"""From a shape to a type of msgspec that takes the values which add nothing to it, and no others."""

from __future__ import annotations

from typing import Annotated, Any, Final, Union

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.core.avro_schemas.shape import MAX_EXACT, MAX_LONG, MIN_LONG, Shape, ValueKind

_EXACT: Final = Annotated[int, Meta(ge=-MAX_EXACT, le=MAX_EXACT)]
_LONG: Final = Annotated[int, Meta(ge=MIN_LONG, le=MAX_LONG)]
_EMPTY: Final = Annotated[list[None], Meta(max_length=0)]


def type_of(shape: Shape) -> Any:
    """The type of values that `shape` holds already; None where msgspec has none for a name (is_nameable).

    A double's type takes integers by a branch of their own: msgspec's `float` takes any, and rounds those that no
    double is equal to.
    """
    try:
        return _type_of(shape)
    except _UnnameableError:
        return None


def is_nameable(name: str) -> bool:
    """True if a field of a struct can be decoded from this name: msgspec compares names without unescaping them."""
    return not any(character in '"\\' or character < " " for character in name)


class _UnnameableError(Exception):
    pass


def _type_of(shape: Shape) -> Any:
    kinds = shape.kinds
    branches: list[Any] = []
    if kinds & ValueKind.NULL:
        branches.append(None)
    if kinds & ValueKind.BOOLEAN:
        branches.append(bool)
    if kinds & ValueKind.INTEGER:
        branches.append(_LONG if kinds & ValueKind.BIG else _EXACT)
    if kinds & ValueKind.DOUBLE:
        branches.append(float)
    if kinds & ValueKind.STRING:
        branches.append(str)
    if shape.items is not None:
        branches.append(list[_type_of(shape.items)] if shape.items.kinds else _EMPTY)
    if shape.values is not None:
        branches.append(dict[str, _type_of(shape.values)])
    if shape.names is not None:
        branches.append(_struct_of(shape))
    return Union[tuple(branches)]  # noqa: UP007 - the branches are known only when it runs


def _struct_of(shape: Shape) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    rename: dict[str, str] = {}
    for index, (name, field) in enumerate(zip(shape.names or (), shape.fields, strict=True)):
        if not is_nameable(name):
            raise _UnnameableError
        attribute = f"f{index}"
        rename[attribute] = name
        type_ = _type_of(field)
        fields.append((attribute, type_) if shape.required[index] else (attribute, type_ | UnsetType, UNSET))
    return msgspec.defstruct(
        "Values", fields, rename=rename, kw_only=True, forbid_unknown_fields=True, gc=False, frozen=True
    )
