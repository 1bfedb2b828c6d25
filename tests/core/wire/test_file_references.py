"""The message that a file sink writes, and its published schema (docs/file-reference.schema.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from jsonschema import Draft202012Validator

from app.core.wire.file_references import FileReference, InputRange, decode, encode
from tests.support.file_worlds import reference_to

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs/file-reference.schema.json").read_text("utf-8"))
REFERENCE = reference_to(f"flights/day=1/{7:032x}.avro", uploaded_at_ms=1_700_000_000_000)


def problems(message: dict[str, Any]) -> list[str]:
    found = cast("Any", Draft202012Validator(SCHEMA)).iter_errors(message)
    return [str(error.message) for error in found]


def message() -> dict[str, Any]:
    return json.loads(encode(REFERENCE))


def test_the_schema_is_one() -> None:
    cast("Any", Draft202012Validator).check_schema(SCHEMA)


def test_encoded_reference_is_valid_and_decodes_to_itself() -> None:
    assert problems(message()) == []
    assert decode(encode(REFERENCE)) == REFERENCE


@pytest.mark.parametrize("field", sorted(json.loads(encode(REFERENCE))))
def test_each_field_is_required_by_schema_and_described(field: str) -> None:
    without = message()
    del without[field]
    assert problems(without) != []
    assert SCHEMA["properties"][field]["description"]


def test_the_schema_has_the_fields_of_the_message_and_no_others() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(FileReference)}
    assert set(SCHEMA["properties"]) == set(SCHEMA["required"]) == names
    of_range = SCHEMA["$defs"]["InputRange"]
    assert set(of_range["properties"]) == {field.encode_name for field in msgspec.structs.fields(InputRange)}
    assert set(of_range["required"]) == set(of_range["properties"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", "flights/day=1/part-0.avro"),
        ("path", "/flights/0.avro"),
        ("root", "lake"),
        ("sha256", "abc"),
        ("size_bytes", -1),
        ("records", 1.5),
        ("checkpoint", 0),
        ("codec", "snappy"),
        ("partition", {"day": 1}),
        ("inputs", [{"topic": "in", "partition": 0, "first_offset": 0}]),
        ("schema", {"type": "array", "items": "string"}),
        ("format", "fenceline.file/2"),
        ("uploaded_at_ms", "2013-01-31"),
    ],
)
def test_value_that_no_sink_writes_is_invalid(field: str, value: Any) -> None:
    assert problems({**message(), field: value}) != []


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"not json", encode(REFERENCE)[:-1]])
def test_value_that_is_not_a_reference_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(value)


def test_a_format_that_is_not_known_is_named() -> None:
    newer = msgspec.json.encode({**message(), "format": "fenceline.file/2"})
    with pytest.raises(ValueError, match=r"fenceline\.file/2"):
        decode(newer)
