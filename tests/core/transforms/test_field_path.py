"""Paths to fields of JSON objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.transforms.field_path import (
    MISSING,
    BlockedPathError,
    FieldPathError,
    getter,
    is_inside,
    parse,
    render,
    setter,
    taker,
)

names = st.lists(st.text(min_size=1, max_size=5) | st.sampled_from([".", "\\", "a.b", "\\."]), min_size=1, max_size=4)


@given(names)
def test_parse_reads_the_output_of_render(path: list[str]) -> None:
    assert parse(render(tuple(path))) == tuple(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("delay", ("delay",)), ("arrival.delay", ("arrival", "delay")), (r"a\.b", ("a.b",)), (r"a\\.b", ("a\\", "b"))],
)
def test_dots_separate_and_a_backslash_takes_that_away(path: str, expected: tuple[str, ...]) -> None:
    assert parse(path) == expected


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("", "a field needs a name"),
        (".", "an empty name between its dots"),
        ("a..b", "`a..b` has an empty name"),
        ("a.", "an empty name"),
        ("a\\", "a backslash can only precede a dot"),
        ("a\\n", "a backslash can only precede a dot"),
    ],
)
def test_a_path_that_is_none_says_why(path: str, part: str) -> None:
    with pytest.raises(FieldPathError) as caught:
        parse(path)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", {"b": {"c": 1}, "list": [{"c": 2}], "null": None}),
        ("a.b.c", 1),
        ("a.null", None),
        ("a.null.c", MISSING),
        ("a.list.c", MISSING),
        ("a.list.0", MISSING),
        ("a.b.c.d", MISSING),
        ("x", MISSING),
    ],
)
def test_a_path_walks_through_objects_only(path: str, expected: Any) -> None:
    record = {"a": {"b": {"c": 1}, "list": [{"c": 2}], "null": None}}
    assert getter(parse(path))(record) == expected


def test_setting_makes_the_objects_on_the_way() -> None:
    record: dict[str, Any] = {"a": {"x": 1}}
    setter(parse("a.b.c"))(record, 5)
    setter(parse("top"))(record, 6)
    assert record == {"a": {"x": 1, "b": {"c": 5}}, "top": 6}


@pytest.mark.parametrize("blocking", [1, "text", None, [], True])
def test_setting_below_something_that_is_not_an_object_is_an_error(blocking: Any) -> None:
    with pytest.raises(BlockedPathError) as caught:
        setter(parse("a.b.c"))({"a": {"b": blocking}}, 5)
    assert str(caught.value) == "`a.b.c` cannot be set, because `a.b` exists and is not an object"


@pytest.mark.parametrize(
    ("path", "taken", "left"),
    [
        ("a", {"b": 1, "c": 2}, {"x": 3}),
        ("a.b", 1, {"a": {"c": 2}, "x": 3}),
        ("a.d", MISSING, {"a": {"b": 1, "c": 2}, "x": 3}),
        ("x.y", MISSING, {"a": {"b": 1, "c": 2}, "x": 3}),
    ],
)
def test_taking_removes_the_field_and_nothing_else(path: str, taken: Any, left: Any) -> None:
    record: dict[str, Any] = {"a": {"b": 1, "c": 2}, "x": 3}
    assert taker(parse(path))(record) == taken
    assert record == left


@given(names, st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(), max_size=3))
def test_set_field_is_read_and_removed_again(path: list[str], record: dict[str, Any]) -> None:
    before = copy.deepcopy(record)
    where = tuple(path)
    if path[0] in record:
        return
    setter(where)(record, 7)
    assert getter(where)(record) == 7
    assert taker(where)(record) == 7
    assert getter(where)(record) is MISSING
    record.pop(path[0], None)
    assert record == before


def test_a_field_is_inside_itself_and_what_holds_it() -> None:
    assert is_inside(("a", "b"), ("a",))
    assert is_inside(("a",), ("a",))
    assert not is_inside(("ab",), ("a",))
    assert not is_inside(("a",), ("a", "b"))
