"""Paths to a field of a decoded JSON object: `delay`, `arrival.delay`, and `a\\.b` for a name that has a dot itself.

A path goes through objects only; at a list, a text or nothing, the field is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

JsonObject = dict[str, Any]


class FieldPathError(Exception):
    """The text is not a path; the message has the reason."""


class BlockedPathError(Exception):
    """A field cannot be set, because a part of its path exists and is not an object."""

    def __init__(self, path: str, part: str) -> None:
        super().__init__(f"`{path}` cannot be set, because `{part}` exists and is not an object")


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""The result of a getter for a missing field; null is a value of its own."""


def parse(path: str) -> tuple[str, ...]:
    """Return the names along `path`. Raises FieldPathError."""
    names: list[str] = []
    name = ""
    characters = iter(path)
    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            if escaped not in (".", "\\"):
                raise FieldPathError(f"`{path}`: a backslash can only precede a dot or another backslash")
            name += escaped
        elif character == ".":
            names.append(name)
            name = ""
        else:
            name += character
    names.append(name)
    if "" in names:
        raise FieldPathError("a field needs a name" if path == "" else f"`{path}` has an empty name between its dots")
    return tuple(names)


def render(names: tuple[str, ...]) -> str:
    """Return the text that `parse` reads as `names`."""
    return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in names)


def getter(names: tuple[str, ...]) -> Callable[[JsonObject], Any]:
    """Return a function from an object to the field's value, or MISSING."""
    if len(names) == 1:
        (only,) = names
        return lambda record: record.get(only, MISSING)

    def get(record: JsonObject) -> Any:
        value: Any = record
        for name in names:
            if type(value) is not dict:
                return MISSING
            value = cast(JsonObject, value).get(name, MISSING)
        return value

    return get


def setter(names: tuple[str, ...]) -> Callable[[JsonObject, Any], None]:
    """Return a function that sets the field in place, with the objects on its path; raises BlockedPathError."""
    *parents, last = names
    if not parents:

        def set_top(record: JsonObject, value: Any) -> None:
            record[last] = value

        return set_top

    def set_nested(record: JsonObject, value: Any) -> None:
        parent = record
        for depth, name in enumerate(parents, start=1):
            child = parent.setdefault(name, {})
            if type(child) is not dict:
                raise BlockedPathError(render(names), render(names[:depth]))
            parent = cast(JsonObject, child)
        parent[last] = value

    return set_nested


def taker(names: tuple[str, ...]) -> Callable[[JsonObject], Any]:
    """Return a function that removes the field in place and returns its value, or MISSING."""
    *parents, last = names
    if not parents:
        return lambda record: record.pop(last, MISSING)
    get_parent = getter(tuple(parents))

    def take(record: JsonObject) -> Any:
        parent = get_parent(record)
        return cast(JsonObject, parent).pop(last, MISSING) if type(parent) is dict else MISSING

    return take


def is_inside(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Return whether `inner` is `outer` or a field below it."""
    return inner[: len(outer)] == outer
