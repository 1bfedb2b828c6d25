"""Comparisons of JSON values: results, and errors of the record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.pipeline import StepOperator as Op
from app.core.transforms.comparison import ComparisonError, TypeMismatchError, compile_comparison, json_equal
from app.core.transforms.field_path import MISSING

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a", "1", "true"])
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)
ORDERINGS = [Op.LT, Op.LE, Op.GT, Op.GE]


@pytest.mark.parametrize(
    ("operator", "value", "found", "holds"),
    [
        (Op.EQ, 1, 1, True),
        (Op.EQ, 1, 1.0, True),
        (Op.EQ, 1, True, False),
        (Op.EQ, True, 1, False),
        (Op.EQ, True, True, True),
        (Op.EQ, 0, False, False),
        (Op.EQ, None, None, True),
        (Op.EQ, None, 0, False),
        (Op.EQ, "1", 1, False),
        (Op.EQ, "a", "a", True),
        (Op.EQ, [1, {"a": 1}], [1.0, {"a": 1}], True),
        (Op.EQ, [1], [True], False),
        (Op.EQ, {"a": 1}, {"a": True}, False),
        (Op.EQ, {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (Op.EQ, {"a": None}, {}, False),
        (Op.NE, 1, 2, True),
        (Op.NE, 1, 1.0, False),
        (Op.NE, 1, "1", True),
        (Op.NE, "a", None, True),
        (Op.NE, None, None, False),
        (Op.LT, 15, 14.9, True),
        (Op.LT, 15, 15, False),
        (Op.LE, 15, 15, True),
        (Op.GT, 15, 15.1, True),
        (Op.GE, 15, 15, True),
        (Op.GE, 15, 14, False),
        (Op.GE, "b", "a", False),
        (Op.GE, "b", "bb", True),
        (Op.LT, "a", "Z", True),
        (Op.IN, ["UA", "AA"], "AA", True),
        (Op.IN, ["UA", "AA"], "BB", False),
        (Op.IN, ["UA", "AA"], ["UA"], False),
        (Op.IN, ["UA"], None, False),
        (Op.IN, [1, "a", None], None, True),
        (Op.IN, [1, "a", None], True, False),
        (Op.IN, [1, "a"], 1.0, True),
        (Op.EXISTS, None, None, True),
        (Op.EXISTS, None, 5, True),
        (Op.EXISTS, None, MISSING, False),
        (Op.MISSING, None, MISSING, True),
        (Op.MISSING, None, None, False),
    ],
)
def test_what_holds(operator: Op, value: Any, found: Any, holds: bool) -> None:
    assert compile_comparison(operator, value)(found) is holds


@pytest.mark.parametrize("operator", [op for op in Op if op is not Op.MISSING])
def test_nothing_but_missing_holds_for_a_missing_field(operator: Op) -> None:
    value: Any = {Op.EXISTS: None, Op.IN: ["a", 1, None]}.get(operator, "a")
    assert compile_comparison(operator, value)(MISSING) is False


@pytest.mark.parametrize("operator", ORDERINGS)
@pytest.mark.parametrize("value", [15, "a"])
def test_null_has_no_order_and_is_no_error(operator: Op, value: Any) -> None:
    assert compile_comparison(operator, value)(None) is False


@pytest.mark.parametrize("operator", ORDERINGS)
@pytest.mark.parametrize(
    ("value", "found", "part"),
    [
        (15, "20", "is text, and `{op}` compares it with a number"),
        (15, True, "is true or false, and `{op}` compares it with a number"),
        (15, [20], "is a list, and `{op}` compares it with a number"),
        ("b", 20, "is a number, and `{op}` compares it with text"),
        ("b", {"a": 1}, "is an object, and `{op}` compares it with text"),
    ],
)
def test_ordering_values_of_different_types_is_an_error_of_the_record(
    operator: Op, value: Any, found: Any, part: str
) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        compile_comparison(operator, value)(found)
    assert str(caught.value) == part.format(op=operator)


@pytest.mark.parametrize(
    ("operator", "value", "part"),
    [
        (Op.EXISTS, 1, "`exists` takes no value"),
        (Op.MISSING, "a", "`missing` takes no value"),
        (Op.IN, "UA", "`in` needs a list with at least one value"),
        (Op.IN, [], "`in` needs a list with at least one value"),
        (Op.IN, None, "`in` needs a list with at least one value"),
        (Op.LT, None, "`lt` needs a number or text to compare with, not null"),
        (Op.GE, True, "`ge` needs a number or text to compare with, not true or false"),
        (Op.LE, [1], "`le` needs a number or text to compare with, not a list"),
        (Op.GT, {}, "`gt` needs a number or text to compare with, not an object"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused_before_any_record(operator: Op, value: Any, part: str) -> None:
    with pytest.raises(ComparisonError) as caught:
        compile_comparison(operator, value)
    assert str(caught.value) == part


@given(json_values, json_values)
def test_equal_is_symmetric_and_ne_is_its_opposite(one: Any, other: Any) -> None:
    assert json_equal(one, one)
    assert json_equal(one, other) == json_equal(other, one)
    assert compile_comparison(Op.EQ, one)(other) is json_equal(one, other)
    assert compile_comparison(Op.NE, one)(other) is not json_equal(one, other)
    assert compile_comparison(Op.IN, [one, "never"])(other) is (json_equal(one, other) or other == "never")


@given(st.integers() | st.floats(allow_nan=False), st.integers() | st.floats(allow_nan=False))
def test_exactly_one_of_less_equal_and_greater_holds_for_numbers(value: float, found: float) -> None:
    assert [compile_comparison(op, value)(found) for op in (Op.LT, Op.EQ, Op.GT)].count(True) == 1
    assert compile_comparison(Op.LE, value)(found) is not compile_comparison(Op.GT, value)(found)
    assert compile_comparison(Op.GE, value)(found) is not compile_comparison(Op.LT, value)(found)
