"""The differences of schemas as sentences."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.avro_schemas.avro import avro_schema
from app.core.avro_schemas.canonical import fingerprint
from app.core.avro_schemas.difference import differences
from app.core.avro_schemas.shape import MAX_FIELDS, merge, shape_of
from tests.core.avro_schemas.json_objects import objects


def schema_of(*records: dict[str, Any]) -> dict[str, Any]:
    return avro_schema(reduce(merge, map(shape_of, records)), "flights")


some = st.lists(objects, min_size=1, max_size=3)


@given(some, some)
def test_there_is_a_difference_where_fingerprints_differ(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    before, after = schema_of(*a), schema_of(*b)
    assert bool(differences(before, after)) == (fingerprint(before) != fingerprint(after))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([{"x": 1}], [{"x": 1}], []),
        ([{"x": 1}], [{"x": 1, "y-z": {"a": "b"}}], ["`y-z` is new: record"]),
        ([{"x": 1, "y": [1]}], [{"x": 1}], ["`y` is removed; it was array of long"]),
        ([{"x": 1}], [{"x": 0.5}], ["`x` is double now, widened from long"]),
        ([{"x": 1}], [{"x": None}, {"x": 1}], ["`x` may be null or missing now"]),
        ([{"x": 1}, {}], [{"x": 1}], ["`x` is never null or missing any more"]),
        ([{"x": 1}], [{"x": 1}, {"x": "a"}], ["`x` can be string now besides long"]),
        ([{"x": 1}, {"x": "a"}], [{"x": 1}], ["`x` is long now, and never string any more"]),
        ([{"x": 1}], [{"x": "a"}], ["`x` is string now, and was long"]),
        ([{"x": None}], [{"x": None}, {"x": 1}], ["`x` can be long now, and was always null"]),
        ([{"x": {"y": [{"z": 1}]}}], [{"x": {"y": [{"z": True}]}}], ["`x.y[].z` is boolean now, and was long"]),
        (
            [{f"k{number}": 1 for number in range(MAX_FIELDS)}],
            [{f"k{number}": 1 for number in range(MAX_FIELDS + 1)}],
            ["the record has too many names for a record and is a map now"],
        ),
    ],
)
def test_words(before: list[dict[str, Any]], after: list[dict[str, Any]], expected: list[str]) -> None:
    assert differences(schema_of(*before), schema_of(*after)) == expected


def test_an_enums_symbols_come_and_go() -> None:
    def schema(*symbols: str) -> dict[str, Any]:
        enum = {"type": "enum", "name": "E", "symbols": list(symbols)}
        return {"type": "record", "name": "R", "fields": [{"name": "x", "type": enum}]}

    assert differences(schema("A", "B"), schema("B", "C")) == ["`x` can be C now", "`x` is never A any more"]


def test_same_content_under_another_name_is_reported() -> None:
    assert differences(avro_schema(shape_of({}), "a"), avro_schema(shape_of({}), "b")) == [
        "the names of records or the order of fields differ; the content of the fields is the same"
    ]
