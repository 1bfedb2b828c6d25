"""Names in JSON, which may be any text, names in Avro, which may not, and places in a value for a sentence."""

from __future__ import annotations

import re
from typing import Any, Final

from app.core.transforms import field_path

ITEMS: Final = "[]"
VALUES: Final = "*"

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
COMPLEX: Final = frozenset({"record", "enum", "array", "map", "fixed", "union", "error"})

ENTRIES_FIELD: Final = "_x_entries"
"""The only field of a record that replaces an object with too many names: all of them, as a map. No `avro_name`."""

Place = tuple[str, ...]
"""The path to a part of a value: names of fields, `[]` for the items of an array, `*` for the values of a map."""

_NAME = re.compile(r"(?!_x)[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9]", re.ASCII)


def avro_name(text: str) -> str:
    """Return a name that Avro allows, unique for every text; a text that is one already is unchanged.

    Others become `_x` and the text, with `_<code point in hexadecimal>_` for each character that is not a letter or
    digit. A text that begins with `_x` is treated as one of them, so that no two texts share a name.
    """
    if _NAME.fullmatch(text):
        return text
    return "_x" + _UNSAFE.sub(lambda found: f"_{ord(found[0]):x}_", text)


def json_name(field: dict[str, Any]) -> str:
    """Return the name in JSON of a field of an Avro record."""
    return field.get("json", field["name"])


def is_entries(schema: dict[str, Any]) -> bool:
    """Return whether a record schema replaces an object with too many names: its only field has all of them as a
    map.
    """
    fields = schema["fields"]
    return len(fields) == 1 and fields[0]["name"] == ENTRIES_FIELD and fields[0].get("json", "") is None


def place_text(place: Place) -> str:
    """Return a place in the form for sentences: `legs[].from`, `tags.*`; the record as a whole is `the record`."""
    text = ""
    for step in place:
        if step == ITEMS:
            text += step
        else:
            name = step if step == VALUES else field_path.render((step,))
            text = f"{text}.{name}" if text else name
    return f"`{text}`" if text else "the record"
