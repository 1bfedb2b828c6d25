"""Read structs, and the classes that declare their descriptions, for the models of answers and requests."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, get_origin, get_type_hints

import msgspec
from msgspec.structs import FieldInfo
from pydantic import BaseModel, Field

SEQUENCES = (tuple, list, set, frozenset, Sequence, Set)
"""Types that JSON has as arrays."""


def is_struct(hint: Any) -> bool:
    """Return whether it is a struct class, or a generic one with its arguments."""
    origin = get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, msgspec.Struct)


def tag_of(struct: Any) -> tuple[str | None, Any]:
    """The tag's field and its value; None, None for a struct without a tag."""
    config = (get_origin(struct) or struct).__struct_config__
    return config.tag_field, config.tag


def named_fields(struct: Any) -> dict[str, FieldInfo]:
    """The fields by the names that JSON has."""
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def default_of(field: FieldInfo) -> Any:
    """The default value; Ellipsis for a required field, as pydantic has it."""
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return ...


def contents_of(declaration: type) -> tuple[dict[str, str], dict[str, Any]]:
    """The descriptions and the types in a class that declares words."""
    words = {name: value for name, value in vars(declaration).items() if isinstance(value, str) and name[0] != "_"}
    return words, get_type_hints(declaration, include_extras=True)


def field_of(name: str, hint: Any, default: Any, words: str | None) -> dict[str, Any]:
    """The definition for pydantic. Names that pydantic keeps for itself, such as `schema`, become aliases."""
    more: dict[str, Any] = {} if words is None else {"description": words}
    if hasattr(BaseModel, name):
        return {f"{name}_": (hint, Field(default, alias=name, **more))}
    return {name: (hint, Field(default, **more))}
