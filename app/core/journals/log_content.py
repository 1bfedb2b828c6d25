"""Keys and values as a person or JSON can have them: text where they are text, base64 where not, cut when long."""

from __future__ import annotations

import base64

import msgspec

from app.core.journals.record_batch import Record

MAX_CONTENT_BYTES = 4_096


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a record. `size_bytes` is their whole number; `is_cut` says that `text` has only the first of them."""

    text: str
    is_base64: bool = False
    size_bytes: int
    is_cut: bool = False


class Header(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: Content | None


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record. None stands for null, and for what was not asked for."""

    offset: int
    timestamp_ms: int
    key: Content | None = None
    value: Content | None = None
    headers: tuple[Header, ...] = ()


def log_record(record: Record, *, keys: bool, values: bool) -> LogRecord:
    """Headers belong to the value: what wants one wants both."""
    return LogRecord(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=content(record.key) if keys else None,
        value=content(record.value) if values else None,
        headers=tuple(Header(name=name, value=content(value)) for name, value in record.headers) if values else (),
    )


def content(data: bytes | None, *, max_bytes: int = MAX_CONTENT_BYTES) -> Content | None:
    """None for null."""
    if data is None:
        return None
    is_cut = len(data) > max_bytes
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        shown = base64.b64encode(data[:max_bytes]).decode("ascii")
        return Content(text=shown, is_base64=True, size_bytes=len(data), is_cut=is_cut)
    # Cut between characters: what is left of the one at the edge is dropped.
    shown = data[:max_bytes].decode("utf-8", "ignore") if is_cut else text
    return Content(text=shown, size_bytes=len(data), is_cut=is_cut)
