"""Given schemas: their problems, and the values that fit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, cast

import fastavro
import pytest
from fastavro.schema import to_parsing_canonical_form
from hypothesis import event, given
from hypothesis import strategies as st

from app.core.avro_schemas.canonical import canonical_form
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.fitting import misfit
from app.core.avro_schemas.given import problems

MAX_EXACT = 1 << 53
FLIGHT: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "doc": "one flight",
    "fields": [
        {"name": "carrier", "type": {"type": "enum", "name": "Carrier", "symbols": ["AA", "UA"]}},
        {"name": "number", "type": "int"},
        {"name": "delay", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {
            "name": "legs",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Leg",
                    "fields": [
                        {"name": "from", "type": "string"},
                        {"name": "by", "type": ["null", "Carrier"]},
                    ],
                },
            },
        },
        {"name": "gate", "type": ["int", "string", "boolean"], "json": "gate-no"},
    ],
}
ROW: dict[str, Any] = {
    "carrier": "UA",
    "number": 7,
    "delay": 1.5,
    "at": 1,
    "tags": {"a": "b"},
    "legs": [{"from": "EWR"}],
    "gate-no": "B2",
}


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{index}", "type": type_} for index, type_ in enumerate(fields)],
        **more,
    }


def test_a_schema_that_can_be_used_has_no_problems() -> None:
    assert problems(FLIGHT) == []


@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ("long", "a file's records need a schema of type `record`; this one is `long`"),
        (None, "None is not a schema"),
        ({}, "a schema without a `type`"),
        ({"type": "record", "fields": []}, "record without a name"),
        ({"type": "record", "name": "R"}, "`R` has no list of fields"),
        ({"type": "record", "name": "R", "fields": [{"type": "long"}]}, "`R` has a field without a name"),
        ({"type": "record", "name": "R", "fields": [7]}, "`R` has a field that is not an object"),
        ({"type": "record", "name": "R-1", "fields": []}, "the record: `R-1` is not a name that Avro allows"),
        (record("strin"), "`strin` is not a type of Avro"),
        (record(["null", "R"]), "`R` contains itself"),
        (record({"type": "enum", "name": "R", "symbols": ["A"]}), "`R` is defined twice"),
        (record([["null"]]), "a union directly within a union"),
        (record([]), "`f0`: a union without types"),
        (record("float"), "`f0`: `float` rounds most numbers"),
        (record({"type": "array", "items": "bytes"}), "`f0[]`: `bytes` cannot come from JSON"),
        (record({"type": "map", "values": {"type": "fixed", "name": "F", "size": 2}}), "`f0.*`: `fixed` cannot"),
        (record(["int", "long"]), "`f0`: a value from JSON does not distinguish `int` and `long` of a union"),
        (record([{"type": "map", "values": "int"}, {"type": "record", "name": "Q", "fields": []}]), "`map` and"),
        (record({"type": "string", "logicalType": "uuid"}), "`f0`: the logical type `uuid` of `string` is not"),
        (record({"type": "enum", "name": "E", "symbols": []}), "`f0`: an enum needs a list of symbols"),
        (record({"type": "enum", "name": "E", "symbols": ["A", "A"]}), "`f0`: a symbol of the enum occurs twice"),
        (record({"type": "enum", "name": "E", "symbols": ["a-b"]}), "`f0`: `a-b` is not a name that Avro allows"),
        (record(fields=[{"name": "a", "type": "int"}] * 2), "`a`: there is another field of that name"),
        (record(fields=[{"name": "a", "type": "int", "default": "x"}]), "the default does not fit: `a` is text"),
        (record(fields=[{"name": "a.b", "type": "int"}]), "`a.b` is not a name"),
        (record(fields=[{"name": "a", "type": "int", "json": 7}]), "the property `json`"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_says_why(schema: Any, part: str) -> None:
    found = problems(schema)
    assert len(found) == 1
    assert part in found[0]


JUNK: list[Any] = [
    None,
    7,
    True,
    "",
    "long",
    "a-b",
    "Leg",
    "air.Leg",
    "record",
    [],
    {},
    ["null"],
    [7],
    {"type": "string"},
    {"type": []},
]


@given(st.data())
def test_schema_without_problems_is_valid_for_fastavro_too(data: st.DataObject) -> None:
    """A schema with an error somewhere: it is reported by a sentence and not by an exception, or it is harmless."""
    schema = copy.deepcopy(FLIGHT)
    for _ in range(data.draw(st.integers(1, 3))):
        holder = data.draw(st.sampled_from(list(holders(schema))))
        key = data.draw(
            st.sampled_from(list(cast("dict[str, Any]", holder)) if isinstance(holder, dict) else range(len(holder)))
        )
        holder[key] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    if not problems(schema):
        event("no problems")
        fastavro.parse_schema(schema)
        assert canonical_form(schema) == to_parsing_canonical_form(schema)


def holders(part: Any) -> Iterator[Any]:
    """Every object and list of a schema that has something in it."""
    if isinstance(part, (dict, list)) and part:
        whole = cast("dict[str, Any] | list[Any]", part)
        yield whole
        for inner in whole.values() if isinstance(whole, dict) else whole:
            yield from holders(inner)


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems(record("float", "bytes", ["int", "long"]))) == 3


def test_names_that_multiply_are_bounded() -> None:
    fields: list[Any] = ["long"]
    for depth in range(20):
        fields = [
            {
                "type": "record",
                "name": f"N{depth}",
                "fields": [{"name": "a", "type": fields[0]}, {"name": "b", "type": fields[-1]}],
            },
            f"N{depth}",
        ]
    assert "more than 10000 types" in problems(record(fields[0]))[0]


def test_deep_nesting_is_bounded() -> None:
    items: Any = "long"
    for _ in range(500):
        items = {"type": "array", "items": items}
    assert "nested deeper" in problems(record(items))[0]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"delay": None},
        {"delay": 3},
        {"delay": MAX_EXACT},
        {"at": -1},
        {"gate-no": True},
        {"gate-no": -(1 << 31)},
        {"legs": []},
        {"legs": [{"from": "JFK", "by": "AA"}, {"from": "JFK", "by": None}]},
    ],
)
def test_a_value_that_fits(change: dict[str, Any]) -> None:
    assert misfit(expanded(FLIGHT), {**ROW, **change}) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"carrier": "XX"}, "`carrier` is none of AA, UA"),
        ({"number": 1 << 31}, "`number` is 2147483648, and int has -2147483648 to 2147483647"),
        ({"number": 1.0}, "`number` is a number with a fraction, not int"),
        ({"number": True}, "`number` is true or false, not int"),
        ({"number": None}, "`number` is null, not int"),
        ({"delay": MAX_EXACT + 1}, "`delay` is 9007199254740993, and double has"),
        ({"delay": "late"}, "`delay` is text, not null or double"),
        ({"at": 1 << 62}, "`at` is 4611686018427387904, and long (timestamp-millis) has"),
        ({"tags": {"a": 1}}, "`tags.a` is an integer, not string"),
        ({"tags": []}, "`tags` is a list, not map"),
        ({"legs": [{"from": "EWR"}, {}]}, "`legs[].from` is missing, and string cannot be null"),
        ({"legs": [{"from": "EWR", "x": 1}]}, "`legs[].x` is not in the schema"),
        ({"gate-no": 1 << 31}, "`gate-no` is 2147483648, and int has"),
        ({"gate": 1}, "`gate` is not in the schema"),
    ],
)
def test_a_value_that_does_not_fit_says_where_and_why(change: dict[str, Any], sentence: str) -> None:
    found = misfit(expanded(FLIGHT), {**ROW, **change})
    assert found is not None
    assert sentence in found


def test_a_default_of_another_kind_does_not_stand_in_for_a_missing_field() -> None:
    """Avro's defaults are for readers; a written one would be a value that was never sent."""
    assert misfit(expanded(FLIGHT), {name: value for name, value in ROW.items() if name != "tags"}) is not None
