"""Keys and values for people and JSON: text, or base64 for other bytes, shortened if long."""

from __future__ import annotations

import base64

import msgspec

MAX_CONTENT_BYTES = 4_096


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a record. `size_bytes` is their full size; with `is_cut`, `text` has only the first of them."""

    text: str
    is_base64: bool = False
    size_bytes: int
    is_cut: bool = False


class RecordHeader(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: Content | None


def bytes_of(found: Content | None) -> bytes | None:
    """Return the bytes of a content, up to where it was cut."""
    if found is None:
        return None
    return base64.b64decode(found.text) if found.is_base64 else found.text.encode()


def content(data: bytes | None, *, max_bytes: int = MAX_CONTENT_BYTES) -> Content | None:
    if data is None:
        return None
    is_cut = len(data) > max_bytes
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        shown = base64.b64encode(data[:max_bytes]).decode("ascii")
        return Content(text=shown, is_base64=True, size_bytes=len(data), is_cut=is_cut)
    # Cut between characters: a partial one at the end is dropped.
    shown = data[:max_bytes].decode("utf-8", "ignore") if is_cut else text
    return Content(text=shown, size_bytes=len(data), is_cut=is_cut)
