"""The values that conflict with a known type, under the policy `bad_record`."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.avro_schemas.avro import AvroSchema, avro_schema
from app.core.avro_schemas.conflict import conflict
from app.core.avro_schemas.fitting import branches_of
from app.core.avro_schemas.shape import MAX_FIELDS, NOTHING, Shape, ValueKind, merge, shape_of
from tests.core.avro_schemas.json_objects import MAX_EXACT, objects


def of_all(*records: dict[str, Any]) -> Shape:
    return reduce(merge, map(shape_of, records), NOTHING)


HARMLESS: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
    ([{"x": 1}], {"x": 0.5}),
    ([{"x": 0.5}], {"x": MAX_EXACT}),
    ([{"x": 1}], {"x": MAX_EXACT + 1}),
    ([{"x": 1}], {"x": None}),
    ([{"x": None}], {"x": "text"}),
    ([{"x": 1}], {}),
    ([{"x": 1}], {"y": "new"}),
    ([{"x": []}], {"x": ["text"]}),
    ([{"x": {"y": 1}}], {"x": {"z": True}}),
    ([{"x": 1}, {"x": "text"}], {"x": "more"}),
    ([], {"x": 1}),
]


@pytest.mark.parametrize(("known", "value"), HARMLESS)
def test_no_conflict(known: list[dict[str, Any]], value: dict[str, Any]) -> None:
    assert conflict(of_all(*known), shape_of(value)) is None


MANY = {f"k{number}": number for number in range(MAX_FIELDS)}


@pytest.mark.parametrize(
    ("known", "value", "sentence"),
    [
        ([{"x": 1}], {"x": "text"}, "`x` is string, and was long until now"),
        ([{"x": 0.5}], {"x": True}, "`x` is boolean, and was double until now"),
        ([{"x": {"y": [1]}}], {"x": {"y": ["a"]}}, "`x.y[]` is string, and was long until now"),
        ([{"x": {"y": 1}}], {"x": [1]}, "`x` is array, and was record until now"),
        ([{"x": 1}, {"x": "text"}], {"x": True}, "`x` is boolean, and was long or string until now"),
        ([], {"x": [1, "text"]}, "`x[]` has values of several types: long, string"),
        ([{"x": 0.5}], {"x": MAX_EXACT + 1}, "`x` has integers beyond ±2^53 and numbers with a fraction"),
        ([{"x": MAX_EXACT + 1}], {"x": 0.5}, "`x` has integers beyond ±2^53 and numbers with a fraction"),
        (
            [{"x": MANY}],
            {"x": {"one more": "text"}},
            "`x.*` has values of several types: long, string; `x` has more than",
        ),
    ],
)
def test_a_conflict_is_named_with_its_place(known: list[dict[str, Any]], value: dict[str, Any], sentence: str) -> None:
    found = conflict(of_all(*known), shape_of(value))
    assert found is not None
    assert sentence in found


@given(st.lists(objects, max_size=5))
def test_value_without_a_conflict_makes_no_union(records: list[dict[str, Any]]) -> None:
    known = NOTHING
    for record in records:
        found = shape_of(record)
        if conflict(known, found) is None:
            known = merge(known, found)
    if known.kinds == ValueKind.OBJECT:
        assert_no_union(avro_schema(known, "r"))


@given(st.lists(objects, max_size=5), objects)
def test_a_value_that_adds_nothing_has_no_conflict(records: list[dict[str, Any]], one: dict[str, Any]) -> None:
    assert conflict(of_all(one, *records), shape_of(one)) is None


def assert_no_union(schema: AvroSchema) -> None:
    branches = [branch for branch in branches_of(schema) if branch != "null"]
    assert len(branches) <= 1, schema
    for branch in branches:
        match branch:
            case {"items": inner} | {"values": inner}:
                assert_no_union(inner)
            case {"fields": fields}:
                for field in fields:
                    assert_no_union(field["type"])
            case _:
                pass
