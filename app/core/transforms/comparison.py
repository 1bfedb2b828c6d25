"""The comparisons of filter and route steps, with JSON's types.

A comparison never holds for a missing field, except `missing`. `eq`, `ne` and `in` compare any JSON values: numbers by
their value, `true` is not 1, and values of different types are not equal. `lt`, `le`, `gt` and `ge` compare numbers
with numbers and text with text (by code point). None of them holds for null, which has no order. Any other pair of
types is an error of the record.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable
from typing import Any, cast

from app.core.pipelines.pipeline import StepOperator
from app.core.transforms.field_path import MISSING

_ORDERINGS: dict[StepOperator, Callable[[Any, Any], bool]] = {
    StepOperator.LT: python_operator.lt,
    StepOperator.LE: python_operator.le,
    StepOperator.GT: python_operator.gt,
    StepOperator.GE: python_operator.ge,
}


class ComparisonError(Exception):
    """The definition's comparison is invalid; the message has the expected `value`."""


class TypeMismatchError(Exception):
    """A record's value has no order with the definition's."""


def compile_comparison(operator: StepOperator, value: Any) -> Callable[[Any], bool]:
    """Return a function from a field's value (or MISSING) to the comparison's result; it raises TypeMismatchError.

    Raises ComparisonError.
    """
    match operator:
        case StepOperator.EXISTS | StepOperator.MISSING:
            if value is not None:
                raise ComparisonError(f"`{operator}` takes no value")
            return _is_there if operator is StepOperator.EXISTS else _is_missing
        case StepOperator.EQ:
            return _equals(value)
        case StepOperator.NE:
            return _differs(value)
        case StepOperator.IN:
            return _is_one_of(value)
        case _:
            return _orders(operator, value)


def kind_of(value: Any) -> str:
    """Return the name of a JSON value's type in sentences."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "missing" if value is MISSING else type(cast(object, value)).__name__


def json_equal(left: Any, right: Any) -> bool:
    """Return the equality of two JSON values; in Python `True == 1`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return one.keys() == other.keys() and all(json_equal(item, other[key]) for key, item in one.items())
    if isinstance(left, list) and isinstance(right, list):
        ones, others = cast("list[Any]", left), cast("list[Any]", right)
        return len(ones) == len(others) and all(map(json_equal, ones, others))
    return bool(left == right)


def _is_there(found: Any) -> bool:
    return found is not MISSING


def _is_missing(found: Any) -> bool:
    return found is MISSING


def _equals(value: Any) -> Callable[[Any], bool]:
    if isinstance(value, str):
        return lambda found: found == value
    return lambda found: json_equal(found, value)


def _differs(value: Any) -> Callable[[Any], bool]:
    if isinstance(value, str):
        return lambda found: found is not MISSING and found != value
    return lambda found: found is not MISSING and not json_equal(found, value)


def _is_one_of(value: Any) -> Callable[[Any], bool]:
    if not isinstance(value, list | tuple) or not value:
        raise ComparisonError("`in` needs a list with at least one value")
    choices = list(cast("list[Any]", value))
    if all(isinstance(choice, str) for choice in choices):
        words = frozenset(cast("list[str]", choices))
        return lambda found: type(found) is str and found in words
    return lambda found: any(json_equal(found, choice) for choice in choices)


def _orders(operator: StepOperator, value: Any) -> Callable[[Any], bool]:
    compare = _ORDERINGS[operator]
    if isinstance(value, str):

        def text_holds(found: Any) -> bool:
            if type(found) is str:
                return compare(found, value)
            return _has_no_order(found, operator, "text")

        return text_holds
    if isinstance(value, int | float) and not isinstance(value, bool):

        def number_holds(found: Any) -> bool:
            if type(found) is int or type(found) is float:
                return compare(found, value)
            return _has_no_order(found, operator, "a number")

        return number_holds
    raise ComparisonError(f"`{operator}` needs a number or text to compare with, not {kind_of(value)}")


def _has_no_order(found: Any, operator: StepOperator, wanted: str) -> bool:
    if found is None or found is MISSING:
        return False
    raise TypeMismatchError(f"is {kind_of(found)}, and `{operator}` compares it with {wanted}")
