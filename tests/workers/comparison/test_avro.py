"""Avro files of other systems: logical types as JSON values, and files that cannot be read."""

from __future__ import annotations

import io
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from app.products.audits.specification import JsonField
from workers.audit.ids import id_in_file
from workers.comparison.avro import UnreadableFileError, records_of

AT = datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)
AT_MS = 1_769_860_800_123


def written(schema: Any, *values: Any) -> bytes:
    content = io.BytesIO()
    avro: Any = fastavro
    avro.writer(content, schema, values)
    return content.getvalue()


def of(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Old", "fields": [{"name": name, "type": type_} for name, type_ in types.items()]}


@pytest.mark.parametrize("unit", ["millis", "micros"])
def test_timestamps_are_milliseconds(unit: str) -> None:
    schema = of(at=["null", {"type": "long", "logicalType": f"timestamp-{unit}"}])
    assert list(records_of("old", written(schema, {"at": AT}, {"at": None}))) == [{"at": AT_MS}, {"at": None}]


def test_uuid_and_decimal_are_ids() -> None:
    text = "0f8fad5b-d9cb-469f-a165-70867728950e"
    schema = of(
        u={"type": "string", "logicalType": "uuid"},
        d={"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
    )
    (record,) = records_of("old", written(schema, {"u": uuid.UUID(text), "d": Decimal("123456789012345678.00")}))
    assert id_in_file(JsonField(path="u"))(record) == text.encode()
    assert id_in_file(JsonField(path="d"))(record) == b"123456789012345678"


def test_file_that_cannot_be_read_is_named_with_the_reason() -> None:
    with pytest.raises(UnreadableFileError, match="old cannot be read as Avro"):
        list(records_of("old", b"id,n\n1,2\n"))
    content = written(of(n="long"), {"n": 1}).replace(b"\x08null", b"\x0csnappy")
    with pytest.raises(UnreadableFileError, match="its codec is 'snappy'; only null, deflate, zstandard are read"):
        list(records_of("old", content))
    with pytest.raises(UnreadableFileError, match="its values are no records"):
        list(records_of("old", written("string", "a")))
