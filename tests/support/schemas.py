"""JSON schemas that are made from docstrings, alike on all Pythons: 3.13 takes their indentation away."""

from __future__ import annotations

import inspect
from typing import Any, cast


def cleaned(schema: Any) -> Any:
    """The same with every description as `inspect.cleandoc` gives it."""
    if isinstance(schema, dict):
        items = cast("dict[str, Any]", schema).items()
        return {
            key: inspect.cleandoc(value) if key == "description" and isinstance(value, str) else cleaned(value)
            for key, value in items
        }
    if isinstance(schema, list):
        return [cleaned(item) for item in cast("list[Any]", schema)]
    return schema
