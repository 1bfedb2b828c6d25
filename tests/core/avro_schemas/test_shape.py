"""Shapes of JSON values and their merging."""

from __future__ import annotations

import json
import random
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.avro_schemas import shape as shapes
from app.core.avro_schemas.shape import (
    MAX_DEPTH,
    MAX_FIELDS,
    NOTHING,
    BadValueError,
    Shape,
    ValueKind,
    _interned,  # pyright: ignore[reportPrivateUsage] - what is held is not told otherwise
    _merge,  # pyright: ignore[reportPrivateUsage]
    _record,  # pyright: ignore[reportPrivateUsage]
    merge,
    shape_of,
)
from tests.core.avro_schemas.json_objects import MAX_EXACT, objects


def forget() -> None:
    """Drop shapes that are cached under another bound, or that have no other reference."""
    _merge.cache_clear()
    _record.cache_clear()


def of_all(records: list[dict[str, Any]]) -> Shape:
    return reduce(merge, map(shape_of, records), NOTHING)


@pytest.fixture
def two_fields_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps where a few names already make one, so that random objects cross the bound."""
    monkeypatch.setattr(shapes, "MAX_FIELDS", 2)


@given(objects, objects)
def test_merging_is_commutative(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert merge(shape_of(a), shape_of(b)) is merge(shape_of(b), shape_of(a))


@given(objects, objects, objects)
def test_merging_is_associative(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    x, y, z = shape_of(a), shape_of(b), shape_of(c)
    assert merge(merge(x, y), z) is merge(x, merge(y, z))


@given(st.lists(objects, max_size=4))
def test_merging_what_is_in_it_already_changes_nothing(records: list[dict[str, Any]]) -> None:
    whole = of_all(records)
    assert merge(whole, whole) is whole
    assert all(merge(whole, shape_of(record)) is whole for record in records)


@given(st.lists(objects, max_size=6), st.randoms())
def test_the_order_of_records_does_not_matter(records: list[dict[str, Any]], order: random.Random) -> None:
    shuffled = records.copy()
    order.shuffle(shuffled)
    assert of_all(records) is of_all(shuffled)


@pytest.mark.usefixtures("two_fields_are_many")
def test_the_order_does_not_matter_where_records_become_maps_either() -> None:
    @given(st.lists(objects, max_size=6), st.randoms())
    def check(records: list[dict[str, Any]], order: random.Random) -> None:
        shuffled = records.copy()
        order.shuffle(shuffled)
        assert of_all(records) is of_all(shuffled)
        half = len(records) // 2
        assert merge(of_all(records[:half]), of_all(records[half:])) is of_all(records)

    forget()
    check()
    forget()


def test_equal_shapes_are_one_object() -> None:
    assert shape_of({"a": [1, None], "b": {"c": "x"}}) is shape_of({"b": {"c": "y"}, "a": [None, 7]})


def test_shapes_are_forgotten_with_their_last_user() -> None:
    forget()
    before = len(_interned)
    shape = shape_of({"only here": {"and": ["here", 1]}})
    assert len(_interned) > before
    del shape
    forget()
    assert len(_interned) == before


def kinds_of_x(*values: Any) -> int:
    field = of_all([{"x": value} for value in values]).field("x")
    assert field is not None
    return field.kinds


def test_small_integer_among_floating_point_numbers_becomes_one() -> None:
    assert kinds_of_x(1, 0.5) == kinds_of_x(0.5) == ValueKind.INTEGER | ValueKind.DOUBLE
    assert kinds_of_x(MAX_EXACT, -MAX_EXACT, 0.5) == ValueKind.INTEGER | ValueKind.DOUBLE


@pytest.mark.parametrize("big", [MAX_EXACT + 1, -MAX_EXACT - 1, (1 << 63) - 1, -(1 << 63)])
def test_integer_beyond_the_range_of_double_stays_one(big: int) -> None:
    assert kinds_of_x(0.5, 1, big) == kinds_of_x(big, 0.5) == ValueKind.INTEGER | ValueKind.BIG | ValueKind.DOUBLE


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": {"y": [0, 1 << 63]}}, "`x.y[]`: an integer beyond 64 bits"),
        ({"x": -(1 << 63) - 1}, "`x`: an integer beyond 64 bits"),
        ({"a.b": 10**30}, "`a\\.b`: an integer beyond 64 bits"),
        ([1], "the value is a list; a file's records are JSON objects"),
        (None, "the value is null"),
        ({"x": {1, 2}}, "`x`: set is not a JSON value"),
    ],
)
def test_value_without_a_shape_has_place_and_reason(value: Any, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        shape_of(value)
    assert message in str(caught.value)


def test_nesting_is_bounded() -> None:
    assert shape_of(json.loads('{"x":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH))
    with pytest.raises(BadValueError, match=f"nested deeper than {MAX_DEPTH}"):
        shape_of(json.loads('{"x":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1)))


def test_a_missing_field_is_not_a_null_field() -> None:
    missing, null = of_all([{"x": 1}, {}]), of_all([{"x": 1}, {"x": None}])
    assert missing is not null
    assert missing.required == (False,)
    assert null.required == (True,)


def test_names_that_are_missing_here_and_there_add_no_null_to_a_map() -> None:
    """However the records meet: those of a few names first, or the one of many."""
    many = {f"k{number}": number for number in range(MAX_FIELDS + 1)}
    few: list[dict[str, Any]] = [{"k1": 1}, {"k2": 2}, {}]
    for records in ([many, *few], [*few, many]):
        shape = of_all(records)
        assert shape.names is None
        assert shape.values is not None
        assert shape.values.kinds == ValueKind.INTEGER


def test_as_many_names_as_allowed_are_a_record() -> None:
    assert of_all([{f"k{number}": 0} for number in range(MAX_FIELDS)]).names is not None
    assert of_all([{f"k{number}": 0} for number in range(MAX_FIELDS + 1)]).values is not None
