"""Avro schemas of shapes, their names, canonical form and fingerprint."""

from __future__ import annotations

import json
import random
from functools import reduce
from typing import Any, cast

import fastavro
import pytest
from fastavro.schema import fingerprint as fastavros_fingerprint
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st

from app.core.avro_schemas import given as given_schemas
from app.core.avro_schemas.avro import avro_schema
from app.core.avro_schemas.canonical import canonical_form, fingerprint
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.fitting import misfit
from app.core.avro_schemas.names import avro_name
from app.core.avro_schemas.shape import MAX_FIELDS, Shape, merge, shape_of
from tests.core.avro_schemas.json_objects import MAX_EXACT, objects


def of_all(records: list[dict[str, Any]]) -> Shape:
    return reduce(merge, map(shape_of, records))


def schema_of(*records: dict[str, Any]) -> dict[str, Any]:
    return avro_schema(of_all(list(records)), "flights")


def type_of_x(*values: Any) -> Any:
    (field,) = schema_of(*[{"x": value} for value in values])["fields"]
    return field["type"]


some = st.lists(objects, min_size=1, max_size=4)


@given(some)
def test_every_schema_is_one_that_fastavro_takes(records: list[dict[str, Any]]) -> None:
    fastavro.parse_schema(schema_of(*records))


@given(some)
def test_every_record_fits_its_schema_and_the_schema_could_be_given(records: list[dict[str, Any]]) -> None:
    schema = schema_of(*records)
    assert given_schemas.problems(schema) == []
    whole = expanded(schema)
    assert [misfit(whole, record) for record in records] == [None] * len(records)


@given(some, st.randoms())
def test_schema_is_the_same_in_any_order(records: list[dict[str, Any]], order: random.Random) -> None:
    shuffled = records.copy()
    order.shuffle(shuffled)
    assert json.dumps(schema_of(*records)) == json.dumps(schema_of(*shuffled))


@given(some, some)
def test_schemas_with_one_fingerprint_are_one_schema(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    one, other = schema_of(*a), schema_of(*b)
    assert (one == other) == (fingerprint(one) == fingerprint(other))


@given(some)
def test_the_canonical_form_is_fastavros(records: list[dict[str, Any]]) -> None:
    schema = schema_of(*records)
    assert canonical_form(schema) == to_parsing_canonical_form(schema)
    assert fingerprint(schema) == fastavros_fingerprint(to_parsing_canonical_form(schema), "SHA-256")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "a.b.R", "doc": "…", "aliases": ["Q"], "fields": []},
        {
            "type": "record",
            "name": "R",
            "namespace": "a.b",
            "fields": [
                {
                    "name": "e",
                    "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]},
                    "default": "X",
                    "order": "ignore",
                },
                {"name": "again", "type": ["null", "E"]},
                {
                    "name": "other",
                    "type": {"type": "record", "name": "c.O", "fields": [{"name": "n", "type": "a.b.E"}]},
                },
                {"name": "f", "type": {"type": "fixed", "name": "F", "size": 16}},
                {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": {"type": "string"}}}},
            ],
        },
    ],
)
def test_the_canonical_form_of_schemas_by_hand_is_fastavros(schema: dict[str, Any]) -> None:
    assert canonical_form(schema) == to_parsing_canonical_form(schema)


@given(st.text() | st.sampled_from(["_x", "_x_5f_", "a_b", "a-b", "a_2d_b", "_xa_2d_b", ""]), st.text())
def test_no_two_names_meet_in_avro(a: str, b: str) -> None:
    assert avro_name(a).isascii()
    assert avro_name(a).isidentifier()
    assert (avro_name(a) == avro_name(b)) == (a == b)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("time_hour", "time_hour"),
        ("x-y", "_xx_2d_y"),
        ("2x", "_x2x"),
        ("", "_x"),
        ("_x", "_x_5f_x"),
        ("é", "_x_e9_"),
    ],
)
def test_a_name_of_json_in_avro(name: str, escaped: str) -> None:
    assert avro_name(name) == escaped


TYPES: list[tuple[tuple[Any, ...], Any]] = [
    ((1,), "long"),
    ((1, 0.5), "double"),
    ((MAX_EXACT + 1, 0.5), ["long", "double"]),
    ((None, "a"), ["null", "string"]),
    ((None,), "null"),
    ((True, 1, "a", None), ["null", "boolean", "long", "string"]),
    (([],), {"type": "array", "items": "null"}),
    (([1], [0.5, None]), {"type": "array", "items": ["null", "double"]}),
]


@pytest.mark.parametrize(("values", "expected"), TYPES)
def test_types(values: tuple[Any, ...], expected: Any) -> None:
    assert type_of_x(*values) == expected


def test_an_optional_field_is_null_by_default() -> None:
    fields = schema_of({"b": 1, "a": "x"}, {"b": 2})["fields"]
    assert fields == [{"name": "a", "type": ["null", "string"], "default": None}, {"name": "b", "type": "long"}]


def test_records_are_named_after_their_place_and_never_twice() -> None:
    schema = schema_of({"a": {"b": {"x": 1}}, "a_b": {"x": 1}, "c": [{"x": 1}, [{"x": 1}]]})
    names = ["flights", "flights_a", "flights_a_b", "flights_a_b_2", "flights_c_item_item", "flights_c_item"]
    assert found_names(schema) == names


def found_names(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        whole = cast("dict[str, Any]", schema)
        own = [whole["name"]] if whole.get("type") == "record" else []
        return own + [name for part in whole.values() for name in found_names(part)]
    if isinstance(schema, list):
        return [name for part in cast("list[Any]", schema) for name in found_names(part)]
    return []


def test_a_name_that_avro_does_not_allow_is_kept_as_a_property() -> None:
    (field,) = schema_of({"x-y": 1})["fields"]
    assert field == {"name": "_xx_2d_y", "type": "long", "json": "x-y"}


@pytest.mark.parametrize(("name", "expected"), [("by-day", "_xby_2d_day"), ("long", "long_"), ("map", "map_")])
def test_a_pipelines_name_becomes_one_that_avro_allows(name: str, expected: str) -> None:
    assert avro_schema(shape_of({}), name)["name"] == expected


def test_a_record_with_too_many_names_is_a_record_of_one_map() -> None:
    schema = schema_of({f"k{number}": number for number in range(MAX_FIELDS + 1)})
    assert schema["fields"] == [{"name": "_x_entries", "type": {"type": "map", "values": "long"}, "json": None}]
