"""Which parameters of an address its route reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel


def query_names_of(route: Any) -> frozenset[str]:
    """The names of a route's query parameters, those of its dependencies and of models of parameters included."""
    return frozenset(_names(route.dependant))


def _names(dependant: Any) -> Iterator[str]:
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (found.alias or name for name, found in kind.model_fields.items())
        else:
            yield field.alias
    for dependency in dependant.dependencies:
        yield from _names(dependency)
