"""The filters of records: parts of bytes, fields of JSON, headers."""

from __future__ import annotations

import pytest

from app.core.journals.record_batch import BatchRecord
from app.kit.errors import InvalidError
from app.products.topics.record_filter import filter_of, matcher_of

ORDER = b'{"id": 42, "is_new": true, "price": 1.0, "who": {"name": "Ada = x"}, "lines": [{"sku": "a"}, {"sku": "b"}]}'


def is_found(*, data: bytes | None = ORDER, headers: tuple[tuple[str, bytes | None], ...] = (), **wanted: str) -> bool:
    return matcher_of(filter_of(**wanted))(BatchRecord(0, 0, data, data, headers))


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("id = 42", True),
        ("id = 4", False),
        ("id = 42.0", True),
        ("who.name = Ada = x", True),
        ('who.name = "Ada = x"', True),
        ("who.name = Ada", False),
        ("lines.1.sku = b", True),
        ("lines.2.sku = b", False),
        ("lines.sku = b", False),
        ("is_new = true", True),
        ("is_new = 1", False),
        ("price = 1", True),
        ("price = true", False),
        ("nothing = 1", False),
        ('"id": 42', True),
        ("Ada", True),
        ("ada", False),
        # In quotes it is a part of the bytes, with any content.
        ('"Ada = x"', True),
        ('"id = 42"', False),
    ],
)
def test_a_text_is_a_part_of_the_bytes_or_a_field_of_json(text: str, is_match: bool) -> None:
    assert is_found(value=text) is is_match
    assert is_found(key=text) is is_match


@pytest.mark.parametrize("data", [None, b"", b"\xff\xfe", b"{", b"[" * 10_000, b"42"])
def test_other_bytes_have_no_field(data: bytes | None) -> None:
    assert not is_found(value="id = 42", data=data)
    assert is_found(value="", data=data)


def test_bytes_that_are_no_text_are_searched_too() -> None:
    assert is_found(value="needle", data=b"\xff needle \x00")


@pytest.mark.parametrize(
    ("text", "is_match"),
    [("trace = 7", True), ("trace = 77", False), ("trac", True), ("7", True), ("other", False), ("none", True)],
)
def test_a_header_is_found_by_name_and_value(text: str, is_match: bool) -> None:
    assert is_found(header=text, headers=(("trace", b"7"), ("none", None))) is is_match


def test_all_parts_must_match() -> None:
    assert is_found(value="Ada", key="id = 42")
    assert not is_found(value="Ada", key="id = 41")


@pytest.mark.parametrize(("field", "text"), [("value", "x" * 501), ("state", "marker"), ("state", "gone")])
def test_a_wrong_filter_is_named(field: str, text: str) -> None:
    with pytest.raises(InvalidError) as raised:
        filter_of(**{field: text})
    assert raised.value.field == field


def test_the_command_log_gets_names_of_parts_only() -> None:
    assert filter_of(value="secret", state="open").parts == ("value", "state")
