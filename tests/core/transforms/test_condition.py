"""Conditions in CEL."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.transforms.condition import MAX_LENGTH, ConditionError, EvaluationError, compile_condition


@pytest.mark.parametrize(
    ("expression", "record", "holds"),
    [
        ("record.delay >= 15", {"delay": 15}, True),
        ("record.delay >= 15", {"delay": 14.5}, False),
        ("record.carrier in ['UA', 'AA'] && record.delay > 0", {"carrier": "UA", "delay": 1}, True),
        ("has(record.delay) && record.delay > 0", {}, False),
        ("record.legs.exists(leg, leg.delay > 60)", {"legs": [{"delay": 5}, {"delay": 61}]}, True),
        ("record.name.matches('^J.*K$')", {"name": "JFK"}, True),
        ("record.gone == null", {"gone": None}, True),
        ("record.late", {"late": True}, True),
        ("record.big > 0", {"big": 2**64 - 1}, True),
    ],
)
def test_a_condition_answers(expression: str, record: Any, holds: bool) -> None:
    assert compile_condition(expression)(record) is holds


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("record.delay >=", ["line 1, column 16: Syntax error"]),
        ("record.delay > 0 &&\n  nothing(3)", ["line 2, column 10", "undeclared reference to 'nothing'"]),
        ("recrd.delay > 0", ["line 1, column 6", "undeclared reference to 'recrd.delay'"]),
        ("1 + 'a' == 2", ["line 1, column 3", "no matching overload"]),
        ("'text'", ["the expression gives string; a condition must be true or false"]),
        ("1 + 1", ["the expression gives int"]),
        ("", ["the expression is empty"]),
        (" \n ", ["the expression is empty"]),
        ("true || " * MAX_LENGTH + "true", [f"at most {MAX_LENGTH} are accepted"]),
        ("(" * 1000 + "true" + ")" * 1000, ["recursion"]),
    ],
)
def test_an_expression_that_does_not_compile_says_where_and_why(expression: str, parts: list[str]) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(expression)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "record", "part"),
    [
        ("record.delay > 0", {}, 'Key not found in map : "delay"'),
        ("record.delay > 0", {"delay": None}, "No matching overloads"),
        ("record.delay > 0", {"delay": "5"}, "No matching overloads"),
        ("record.delay", {"delay": 5}, "gave int, not true or false"),
        ("record.delay", {"delay": "true"}, "gave string, not true or false"),
        ("record.all(item, item > 0)", {"a": "x"}, "No matching overloads"),
    ],
)
def test_a_record_without_an_answer_is_an_error_of_the_record(expression: str, record: Any, part: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        compile_condition(expression)(record)
    assert part in str(caught.value)
