"""What changed from one schema of a pipeline's files to the next."""

from __future__ import annotations

from typing import Any

import pytest

from app.products.files.schema_history import FieldChange, FileSchema, compare, fields_of, history_of, type_words
from tests.support.written_files import written

AT = written().referenced_at


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": of} for name, of in fields.items()]}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("long", "long"),
        (["null", "string"], "null | string"),
        ({"type": "array", "items": ["null", "int"]}, "array of null | int"),
        ({"type": "map", "values": "double"}, "map of double"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long (timestamp-millis)"),
        (record(), "record"),
        ({"type": {"type": "array", "items": "int"}}, "array of int"),
        (7, "?"),
    ],
)
def test_type_is_said_in_words(schema: object, words: str) -> None:
    assert type_words(schema) == words


def test_fields_are_found_through_unions_arrays_and_maps() -> None:
    schema = record(
        user=["null", record(id="string")],
        items={"type": "array", "items": record(price="double")},
        tags={"type": "map", "values": record(n="int")},
    )
    assert dict(fields_of(schema)) == {
        "user": "null | record",
        "user.id": "string",
        "items": "array of record",
        "items[].price": "double",
        "tags": "map of record",
        "tags{}.n": "int",
    }


def test_change_is_new_gone_or_another_type() -> None:
    before, after = record(a="int", b="string", c="int"), record(a="long", c="int", d=["null", "string"])
    assert compare(before, after) == [
        FieldChange(field="a", before="int", after="long"),
        FieldChange(field="b", before="string", after=None),
        FieldChange(field="d", before=None, after="null | string"),
    ]


def test_schema_is_compared_with_the_one_before_and_the_first_with_none() -> None:
    made = [
        FileSchema(fingerprint=name, schema=record(**{name: "int"}), files=1, first_at=AT, last_at=AT) for name in "ba"
    ]
    newest, oldest = history_of(made)
    assert oldest.changes is None
    assert newest.changes is not None
    assert {change.field for change in newest.changes} == {"a", "b"}


@pytest.mark.parametrize(
    "broken", [{}, {"type": "record"}, {"type": "record", "fields": [3, {"name": 4}]}, {"type": {}}]
)
def test_what_is_no_avro_has_no_fields_and_does_no_harm(broken: dict[str, Any]) -> None:
    assert list(fields_of(broken)) == []
    assert compare(broken, broken) == []


def test_schema_without_a_bottom_ends() -> None:
    deep: dict[str, Any] = record(x="int")
    for _ in range(500):
        deep = record(x=deep)
    assert 1 < len(list(fields_of(deep))) < 100
    nested: object = "int"
    for _ in range(500):
        nested = {"type": "array", "items": nested}
    assert type_words(nested).endswith("…")
