"""Records in Avro's binary encoding, and which values a given schema takes."""

from __future__ import annotations

import io
from functools import reduce
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.avro_schemas import given as given_schemas
from app.core.avro_schemas.avro import avro_schema
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.fitting import misfit
from app.core.avro_schemas.shape import BadValueError, merge, shape_of
from tests.core.avro_schemas.json_objects import MAX_EXACT, objects
from workers.sinks.avro_binary import varint
from workers.sinks.avro_encoder import AvroEncoder

encode = msgspec.json.encode


def record(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{index}", "type": type_} for index, type_ in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


def by_fastavro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)  # pyright: ignore[reportUnknownMemberType] - of any stream
    return buffer.getvalue()


def read_by_fastavro(schema: Any, encoded: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(encoded), schema, None)  # pyright: ignore[reportUnknownMemberType]


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70_000, 70_000))
def test_integers_are_those_of_fastavro(number: int) -> None:
    schema: dict[str, Any] = record("long", ["null", "long"], ["string", "long", "double"])
    value = {"f0": number, "f1": number, "f2": number}
    assert AvroEncoder(schema).encode(encode(value)) == by_fastavro(schema, value)
    assert by_fastavro(record("long"), {"f0": number}) == varint(number)


LEG = {"type": "record", "name": "Leg", "fields": [{"name": "from", "type": "string"}]}
SUIT = {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}
TYPES: list[tuple[Any, list[Any]]] = [
    ("null", [None]),
    ("boolean", [True, False]),
    (["null", "boolean"], [None, True, False]),
    (["boolean", "null"], [None, True, False]),
    ("int", [0, -1, (1 << 31) - 1, -(1 << 31)]),
    ("double", [0, 1, 0.5, -0.0, 1e300, MAX_EXACT]),
    (["null", "double"], [None, 1, 0.5]),
    (["double", "null"], [None, 1, 0.5]),
    (["int", "double"], [1, 0.5, 1 << 40]),
    (["null", "long", "double"], [None, MAX_EXACT + 1, 0.5]),
    (["null", "int"], [None, 7]),
    ("string", ["", "é😀", "x" * 5000, "\x00"]),
    (["null", "string"], [None, "", "é"]),
    (["string", "null"], [None, "", "é"]),
    (["null", "boolean", "string"], [None, True, "x"]),
    (SUIT, ["HEARTS", "SPADES"]),
    (["null", SUIT], [None, "SPADES"]),
    ({"type": "array", "items": "long"}, [[], [1], list(range(5000))]),
    (["null", {"type": "array", "items": ["null", "string"]}], [None, [], ["a", None]]),
    ({"type": "map", "values": "double"}, [{}, {"a-b": 1, "": 0.5}]),
    (["null", {"type": "map", "values": "string"}], [None, {}, {"a": "b"}]),
    (LEG, [{"from": "EWR"}]),
    (["null", LEG], [None, {"from": "EWR"}]),
    (["null", "long", "string", LEG, {"type": "array", "items": "long"}], [None, 1, "x", {"from": "x"}, [1]]),
    ({"type": "record", "name": "Empty", "fields": []}, [{}]),
    ({"type": "long", "logicalType": "timestamp-millis"}, [0, 1359590400000]),
]


@pytest.mark.parametrize(("type_", "values"), TYPES)
def test_values_are_encoded_as_fastavro_does(type_: Any, values: list[Any]) -> None:
    schema = record(type_)
    assert given_schemas.problems(schema) == []
    encoder = AvroEncoder(schema)
    for value in values:
        assert encoder.encode(encode({"f0": value})) == by_fastavro(schema, {"f0": value})


def test_an_integer_beyond_a_double_is_a_long_in_every_order_of_a_union() -> None:
    """fastavro takes the first branch that could be meant, and rounds."""
    schema = record(["double", "long"])
    encoded = AvroEncoder(schema).encode(encode({"f0": MAX_EXACT + 1}))
    assert read_by_fastavro(schema, encoded) == {"f0": MAX_EXACT + 1}


def test_a_missing_field_is_null() -> None:
    schema = record(["null", "long"], ["string", "null"], "null")
    assert AvroEncoder(schema).encode(b"{}") == AvroEncoder(schema).encode(b'{"f0":null,"f1":null,"f2":null}')


CHECKED = expanded(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", "double", "string"]},
            {"name": "c", "type": ["null", {"type": "array", "items": LEG}]},
            {"name": "d", "type": ["null", SUIT, "boolean"]},
            {"name": "e", "type": ["null", {"type": "map", "values": ["int", "double"]}]},
            {"name": "f", "type": ["null", {"type": "int", "logicalType": "date"}]},
        ],
    }
)
leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1.0, 0.5, 1 << 31, MAX_EXACT, MAX_EXACT + 1, 1 << 63, -719_163]),
    st.sampled_from(["", "HEARTS", "x"]),
)
nearly = st.fixed_dictionaries(
    {"a": st.just(1) | leaf},
    optional={
        "b": leaf,
        "c": leaf | st.lists(st.dictionaries(st.sampled_from(["from", "x"]), leaf, max_size=2), max_size=2),
        "d": leaf,
        "e": leaf | st.dictionaries(st.text(max_size=1), leaf, max_size=2),
        "f": leaf,
        "g": leaf,
    },
)


@given(nearly)
def test_the_decoder_takes_exactly_the_values_that_fit(value: dict[str, Any]) -> None:
    encoder = AvroEncoder(CHECKED)
    reason = misfit(CHECKED, value)
    if reason is None:
        encoder.check(encode(value))
        assert read_by_fastavro(CHECKED, encoder.encode(encode(value))) is not None
        return
    for check in (encoder.check, encoder.encode):
        with pytest.raises(BadValueError) as caught:
            check(encode(value))
        assert str(caught.value) == reason


@given(st.lists(objects, min_size=1, max_size=4), objects)
def test_a_value_fits_the_schema_of_others_or_is_refused(others: list[dict[str, Any]], value: dict[str, Any]) -> None:
    """Inferred schemas too, when a revision names one as given; names that msgspec has no struct for are among them."""
    schema = avro_schema(reduce(merge, map(shape_of, others)), "R")
    reason = misfit(expanded(schema), value)
    encoder = AvroEncoder(schema)
    if reason is None:
        encoder.check(encode(value))
        return
    for check in (encoder.check, encoder.encode):
        with pytest.raises(BadValueError) as caught:
            check(encode(value))
        assert str(caught.value) == reason


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"f0":"\xff"}', b'{"f0":1}{}'])
def test_a_value_that_is_no_json_object_is_refused(value: bytes) -> None:
    encoder = AvroEncoder(record("string"))
    for check in (encoder.check, encoder.encode):
        with pytest.raises(BadValueError):
            check(value)
