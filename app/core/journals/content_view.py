"""Keys and values for people: JSON with line breaks, text, or bytes in hexadecimal."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.core.journals.log_content import Content, bytes_of

_ONE_LINE = 120


class ContentView(StrEnum):
    """AUTO: JSON if it is JSON, else text if all of it is printable, else hexadecimal."""

    AUTO = "auto"
    TEXT = "text"
    HEX = "hex"


class ShownContent(NamedTuple):
    """text: the whole. preview: one line of a long text; empty if `text` is one short line."""

    kind: str
    text: str
    preview: str
    size_bytes: int
    is_cut: bool


def shown_content(found: Content | None, view: ContentView) -> ShownContent | None:
    """Return the content in this view; None for null."""
    if found is None:
        return None
    kind, text = _viewed(found, view)
    # JSON on one line is as it was written.
    line = " ".join((found.text if kind == "JSON" else text).split())
    preview = (
        f"{line[:_ONE_LINE]}{'…' if len(line) > _ONE_LINE else ''}" if len(text) > _ONE_LINE or "\n" in text else ""
    )
    return ShownContent(kind, text, preview, found.size_bytes, found.is_cut)


def _viewed(found: Content, view: ContentView) -> tuple[str, str]:
    data = bytes_of(found) or b""
    if view is ContentView.TEXT:
        return "text", data.decode("utf-8", "backslashreplace")
    if view is ContentView.AUTO and not found.is_base64:
        pretty = None if found.is_cut else _pretty(data)
        if pretty is not None:
            return "JSON", pretty
        if all(character.isprintable() or character in "\t\r\n" for character in found.text):
            return "text", found.text
    return "hex", data.hex(" ")


def _pretty(data: bytes) -> str | None:
    """Return an object or list of JSON with line breaks: its numbers and keys stay as they are written."""
    if not data.lstrip().startswith((b"{", b"[")):
        return None
    try:
        return msgspec.json.format(data, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
