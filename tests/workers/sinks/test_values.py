"""The hot path of inferred schemas: it takes values that add nothing, and all others are merged slowly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from app.core.avro_schemas.canonical import fingerprint
from app.core.avro_schemas.shape import MAX_FIELDS, NOTHING, BadValueError, Shape, merge, shape_of
from app.core.pipelines.pipeline import SchemaConflict
from tests.core.avro_schemas.json_objects import MAX_EXACT, objects, values
from workers.sinks import values as values_module
from workers.sinks.shape_types import is_nameable, type_of
from workers.sinks.values import ValueShapes

encode = msgspec.json.encode


def of_all(records: list[dict[str, Any]]) -> Shape:
    return reduce(merge, map(shape_of, records), NOTHING)


def is_taken(shape: Shape, value: bytes) -> bool:
    """The hot path's check: whether the decoder of `shape` takes the value."""
    try:
        msgspec.json.decode(value, type=type_of(shape))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def adds_nothing(shape: Shape, value: bytes) -> bool:
    try:
        return merge(shape, shape_of(msgspec.json.decode(value))) is shape
    except (BadValueError, msgspec.DecodeError):
        return False


def names_of(shape: Shape) -> Iterator[str]:
    yield from shape.names or ()
    for inner in (shape.items, shape.values, *shape.fields):
        if inner is not None:
            yield from names_of(inner)


@st.composite
def like_one_of(draw: st.DrawFn, records: list[dict[str, Any]]) -> dict[str, Any]:
    """One of the records, with a field changed, added or left out: values that nearly have the shape."""
    record = dict(draw(st.sampled_from(records)))
    for name in draw(st.lists(st.sampled_from([*record, "new"]), max_size=2)):
        if draw(st.booleans()):
            record.pop(name, None)
        else:
            record[name] = draw(values)
    return record


@given(st.data())
def test_the_decoder_takes_exactly_the_values_that_add_nothing(data: st.DataObject) -> None:
    known = data.draw(st.lists(objects, min_size=1, max_size=4))
    shape = of_all(known)
    value = encode(data.draw(like_one_of(known)))
    if not all(map(is_nameable, names_of(shape))):
        assert type_of(shape) is None
        return
    event(f"taken: {is_taken(shape, value)}")
    assert is_taken(shape, value) == adds_nothing(shape, value)


NUMBERS = [0, 1, MAX_EXACT, MAX_EXACT + 1, -MAX_EXACT - 1, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1, 10**30, 0.5, 1e300]


@pytest.mark.parametrize("known", [[0], [MAX_EXACT + 1], [0.5], [0.5, MAX_EXACT + 1], [None, 0.5], ["a"], [True]])
@pytest.mark.parametrize("value", [*NUMBERS, True, None, "1", [], {}])
def test_no_number_is_taken_that_would_change(known: list[Any], value: Any) -> None:
    shape = of_all([{"x": one} for one in known])
    assert is_taken(shape, encode({"x": value})) == adds_nothing(shape, encode({"x": value}))


@pytest.mark.parametrize("known", [[[]], [[1]], [[None]], [[], None], [{}], [{"y": 1}], [{"y": 1}, {}]])
@pytest.mark.parametrize("value", [[], [1], [None], ["a"], [[]], None, {}, {"y": 1}, {"y": None}, {"z": 1}])
def test_no_inner_value_is_taken_that_would_change(known: list[Any], value: Any) -> None:
    shape = of_all([{"x": one} for one in known])
    assert is_taken(shape, encode({"x": value})) == adds_nothing(shape, encode({"x": value}))


@pytest.mark.parametrize(
    "value",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"b":2,"a":3}',
        b'{"a":1,"b":2,"a":"x"}',
        b'{"a":"x","b":2,"a":1}',
        b'{"a":1,"b":2,"a":null}',
        b'{"a":1.0,"b":2}',
        b'{"a":1e2,"b":2}',
        b'{"a":-0,"b":2}',
        b'{"a":1,"b":1e400}',
        b'{"a":1,"b":2}x',
        b'{"a":1,"b":2',
        b'\xef\xbb\xbf{"a":1,"b":2}',
        b'{"a":1,"b":2,"\\u0061":3}',
        b"",
        b"null",
        b"[]",
    ],
)
def test_no_value_is_taken_for_how_it_is_written(value: bytes) -> None:
    shape = shape_of({"a": 1, "b": 2})
    if is_taken(shape, value):
        assert adds_nothing(shape, value)


@pytest.fixture(params=["first", "often"])
def shapes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ValueShapes:
    """With a decoder from the first value of a shape on, and as it is."""
    if request.param == "first":
        monkeypatch.setattr(values_module, "_WORTH", 1)
    return ValueShapes(name="flights", policy=SchemaConflict.UNION)


def test_a_file_has_the_shape_of_all_its_values(shapes: ValueShapes) -> None:
    @given(st.lists(objects, min_size=1, max_size=8))
    def check(records: list[dict[str, Any]]) -> None:
        shape = NOTHING
        for record in records * 2:
            shape = shapes.add(shape, encode(record))
        assert shape is of_all(records)

    check()


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (b'{"x":', "the value cannot be read as JSON"),
        (b'{"x":"\xff"}', "the value cannot be read as JSON"),
        (b'{"x":NaN}', "the value cannot be read as JSON"),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "the value cannot be read as JSON"),
        (b"[1]", "the value is a list"),
        (b'{"x":9223372036854775808}', "`x`: an integer beyond 64 bits"),
    ],
)
def test_a_bad_value_says_why_and_leaves_the_shape(shapes: ValueShapes, value: bytes, part: str) -> None:
    shape = shapes.add(NOTHING, b'{"x":0.5}')
    with pytest.raises(BadValueError) as caught:
        shapes.add(shape, value)
    assert part in str(caught.value)


def test_a_conflict_is_a_bad_value_by_policy() -> None:
    shapes = ValueShapes(name="flights", policy=SchemaConflict.BAD_RECORD)
    shape = shapes.add(NOTHING, b'{"x":1}')
    with pytest.raises(BadValueError, match="`x` is string, and was long until now"):
        shapes.add(shape, b'{"x":"text"}')
    assert shapes.add(shape, b'{"x":0.5,"y":null}') is of_all([{"x": 1}, {"x": 0.5, "y": None}])


def test_a_value_that_is_decoded_already_is_not_decoded_again(shapes: ValueShapes) -> None:
    assert shapes.add(NOTHING, b"not looked at", {"x": 1}) is shape_of({"x": 1})


def test_decoders_are_bounded(shapes: ValueShapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "_WORTH", 1)
    monkeypatch.setattr(values_module, "MAX_DECODERS", 3)
    for _ in range(2):
        for number in range(10):
            shapes.add(NOTHING, encode({f"k{number}": 1}))
    assert len(shapes._decoders) == 3  # pyright: ignore[reportPrivateUsage] - how many there are is not told otherwise


def test_the_schema_of_a_shape_comes_with_its_fingerprint(shapes: ValueShapes) -> None:
    found = shapes.schema(shapes.add(NOTHING, b'{"x":1}'))
    assert found.schema == {"type": "record", "name": "flights", "fields": [{"name": "x", "type": "long"}]}
    assert found.fingerprint == fingerprint(found.schema)


def test_a_record_that_is_a_map_has_a_decoder_too() -> None:
    shape = of_all([{f"k{number}": 1 for number in range(MAX_FIELDS + 1)}])
    assert is_taken(shape, b'{"another":2}')
    assert not is_taken(shape, b'{"another":"text"}')
