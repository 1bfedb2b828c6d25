"""Bytes as text: text stays readable, other bytes survive JSON, and long values are marked as cut."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.log_content import Content, content
from app.core.journals.log_entries import log_record
from app.core.journals.record_batch import BatchRecord


@given(st.binary(max_size=60))
def test_short_bytes_are_complete(data: bytes) -> None:
    shown = content(data)
    assert shown is not None
    assert (shown.size_bytes, shown.is_cut) == (len(data), False)
    assert (base64.b64decode(shown.text) if shown.is_base64 else shown.text.encode()) == data


def test_long_text_is_cut_between_characters() -> None:
    assert content("é".encode() * 10, max_bytes=5) == Content(text="éé", size_bytes=20, is_cut=True)


def test_long_bytes_are_cut() -> None:
    assert content(b"\xff" * 10, max_bytes=3) == Content(text="////", is_base64=True, size_bytes=10, is_cut=True)


def test_null_is_not_the_empty_value() -> None:
    assert content(None) is None
    assert content(b"") == Content(text="", size_bytes=0)


def test_headers_come_with_values_only() -> None:
    record = BatchRecord(3, 9, b"key", b"value", (("name", b"x"), ("null", None)))
    with_keys = log_record(record, keys=True, values=False)
    assert (with_keys.key, with_keys.value, with_keys.headers) == (Content(text="key", size_bytes=3), None, ())
    with_values = log_record(record, keys=False, values=True)
    assert [(header.name, header.value and header.value.text) for header in with_values.headers] == [
        ("name", "x"),
        ("null", None),
    ]
