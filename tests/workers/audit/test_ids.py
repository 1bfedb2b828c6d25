"""An id is found at its configured place, or there is none."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.transforms.field_path import FieldPathError
from app.products.audits.specification import HeaderId, JsonField, RecordKey
from workers.audit.ids import id_in_file, id_of, shown


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("id", b'{"id": "a"}', b"a"),
        ("id", b'{"id": 5}', b"5"),
        ("id", b'{"id": "5"}', b"5"),
        ("id", b'{"id": 5.0}', b"5"),
        ("id", b'{"id": 5.5}', b"5.5"),
        ("id", b'{"id": 12345678901234567890123}', b"12345678901234567890123"),
        ("order.id", b'{"order": {"id": "a"}}', b"a"),
        ("order.id", b'{"order": "a"}', None),
        ("id", b'{"id": null}', None),
        ("id", b'{"id": {"b": 1, "a": 2}}', b'{"a":2,"b":1}'),
        ("id", b"[1]", None),
        ("id", b"no JSON", None),
        ("id", b'{"id": "\xff"}', None),
        ("id", None, None),
    ],
)
def test_a_field_of_the_value(path: str, value: bytes | None, found: bytes | None) -> None:
    assert id_of(JsonField(path=path))(value, b"key", None) == found


def test_a_record_of_a_file_has_the_id_that_its_json_had() -> None:
    """Beside floating-point numbers a file has every number as one."""
    for value in ("a", 5, 5.5, {"b": 1, "a": 2}, None):
        text = msgspec.json.encode({"order": {"id": value}})
        in_file = {"order": {"id": float(value) if isinstance(value, int) else value}}
        place = JsonField(path="order.id")
        assert id_in_file(place)(in_file) == id_of(place)(text, None, None)
    for place in (RecordKey(), HeaderId(name="id")):
        with pytest.raises(FieldPathError, match="neither a key nor headers"):
            id_in_file(place)


def test_the_last_header_of_the_name_counts() -> None:
    find = id_of(HeaderId(name="id"))
    assert find(b"", None, [("id", b"old"), ("other", b"x"), ("id", b"new")]) == b"new"
    assert find(b"", None, [("other", b"x")]) is None
    assert find(b"", None, None) is None


def test_the_key() -> None:
    assert id_of(RecordKey())(b"value", b"key", None) == b"key"
    assert id_of(RecordKey())(b"value", None, None) is None


@given(st.binary(max_size=1_000))
def test_any_id_can_be_shown(id_: bytes) -> None:
    assert len(shown(id_)) <= 200
    shown(id_).encode()
