"""Declarative steps: their effects, refusals before any record, and errors of a record."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.pipeline import Condition, Filter, Project, Rename, Route, SetField, Step
from app.core.pipelines.pipeline import StepOperator as Op
from app.core.transforms.steps import MAX_STEPS, CompiledSteps, Result, StepError, compile_steps
from app.kit.errors import Problem


def compiled(*steps: Step) -> CompiledSteps:
    result = compile_steps(steps)
    assert isinstance(result, CompiledSteps), result
    return result


def run(record: dict[str, Any], *steps: Step) -> Result | None:
    return compiled(*steps).apply(record)


def refused(*steps: Step) -> list[Problem]:
    result = compile_steps(steps)
    assert isinstance(result, list)
    return result


LATE = Filter(field="arrival.delay", operator=Op.GE, value=15)


def test_no_steps_change_nothing() -> None:
    assert run({"a": 1}) == ({"a": 1}, None)


def test_a_filter_keeps_what_holds_and_drops_the_rest() -> None:
    assert run({"arrival": {"delay": 15}}, LATE) == ({"arrival": {"delay": 15}}, None)
    assert run({"arrival": {"delay": 14}}, LATE) is None
    assert run({"arrival": {"delay": None}}, LATE) is None
    assert run({"arrival": 5}, LATE) is None
    assert run({}, LATE) is None


def test_a_condition_keeps_what_holds_and_drops_the_rest() -> None:
    steps = Condition(expression="record.delay >= 15")
    assert run({"delay": 20}, steps) == ({"delay": 20}, None)
    assert run({"delay": 2}, steps) is None


def test_a_projection_keeps_its_fields_in_its_order_and_absent_ones_stay_absent() -> None:
    result = run({"a": 1, "b": None, "c": 3}, Project(fields=("c", "b", "x")))
    assert result is not None
    assert list(result[0].items()) == [("c", 3), ("b", None)]


def test_a_projection_of_nested_fields_keeps_their_nesting() -> None:
    record = {"a": {"b": 1, "c": 2}, "d": 4, "e": {"f": 5}}
    assert run(record, Project(fields=("d", "a.b", "e.x"))) == ({"d": 4, "a": {"b": 1}}, None)


def test_a_rename_moves_a_field_and_replaces_what_was_there() -> None:
    assert run({"a": 1, "b": 2}, Rename(field="a", to="b")) == ({"b": 1}, None)
    assert run({"b": 2}, Rename(field="a", to="b")) == ({"b": 2}, None)
    assert run({"a": {"x": 1}}, Rename(field="a.x", to="b.y")) == ({"a": {}, "b": {"y": 1}}, None)


def test_set_sets_any_json_value() -> None:
    steps = (SetField(field="a", value=None), SetField(field="b.c", value=[1]), SetField(field="x", value="y"))
    assert run({"a": 1}, *steps) == ({"a": None, "b": {"c": [1]}, "x": "y"}, None)


def test_change_of_a_set_value_does_not_reach_the_next_record() -> None:
    steps = compiled(SetField(field="a", value={"n": [1]}), Rename(field="b", to="a.b"))
    assert steps.apply({"b": 5}) == ({"a": {"n": [1], "b": 5}}, None)
    assert steps.apply({}) == ({"a": {"n": [1]}}, None)


def test_the_first_route_that_holds_decides_and_the_record_goes_on() -> None:
    steps = compiled(
        Route(field="delay", operator=Op.GE, value=60, topic="very-late"),
        Route(field="delay", operator=Op.GE, value=15, topic="late"),
        SetField(field="seen", value=True),
    )
    assert steps.apply({"delay": 90}) == ({"delay": 90, "seen": True}, "very-late")
    assert steps.apply({"delay": 20}) == ({"delay": 20, "seen": True}, "late")
    assert steps.apply({"delay": 1}) == ({"delay": 1, "seen": True}, None)


def test_steps_work_on_what_the_ones_before_have_left() -> None:
    steps = (Rename(field="a", to="b"), Filter(field="b", operator=Op.EXISTS), Project(fields=("b",)))
    assert run({"a": 1, "c": 2}, *steps) == ({"b": 1}, None)


def test_a_value_of_another_type_in_an_ordering_is_an_error_that_names_step_and_field() -> None:
    with pytest.raises(StepError) as caught:
        run({"x": 1, "arrival": {"delay": "late"}}, SetField(field="a", value=1), LATE)
    assert str(caught.value) == "step 2: `arrival.delay` is text, and `ge` compares it with a number"


def test_an_ordering_on_a_field_at_the_top_names_step_and_field_too() -> None:
    with pytest.raises(StepError, match="step 1: `delay` is true or false, and `lt` compares it with a number"):
        run({"delay": False}, Filter(field="delay", operator=Op.LT, value=3))


def test_a_field_below_something_else_cannot_be_set_and_the_step_is_named() -> None:
    with pytest.raises(StepError, match=r"step 1: `a\.b` cannot be set, because `a` exists and is not an object"):
        run({"a": 5}, SetField(field="a.b", value=1))
    with pytest.raises(StepError, match=r"step 1: `a\.b` cannot be set"):
        run({"a": 5, "x": 1}, Rename(field="x", to="a.b"))


def test_a_condition_without_an_answer_is_an_error_that_names_the_step() -> None:
    with pytest.raises(StepError, match="step 1: the condition cannot be evaluated: Key not found"):
        run({}, Condition(expression="record.delay > 1"))


@pytest.mark.parametrize(
    ("step", "field", "part"),
    [
        (Filter(field="", operator=Op.EQ, value=1), "field", "Step 2: a field needs a name"),
        (Filter(field="a..b", operator=Op.EQ, value=1), "field", "empty name between its dots"),
        (Filter(field="a", operator=Op.LT, value=None), "value", "`lt` needs a number or text"),
        (Filter(field="a", operator=Op.IN, value="x"), "value", "`in` needs a list"),
        (Filter(field="a", operator=Op.EXISTS, value=1), "value", "`exists` takes no value"),
        (Condition(expression="record.delay >="), "expression", "Step 2: line 1, column 16: Syntax error"),
        (Condition(expression=""), "expression", "the expression is empty"),
        (Project(fields=()), "fields", "at least one field"),
        (Project(fields=("a", "")), "fields.1", "a field needs a name"),
        (Project(fields=("a", "a")), "fields.1", "`a` and `a` overlap"),
        (Project(fields=("a.b", "x", "a")), "fields.2", "`a` and `a.b` overlap"),
        (Rename(field="a", to="a"), "to", "one is the other"),
        (Rename(field="a", to="a.b"), "to", "`a` cannot become `a.b`"),
        (Rename(field="a", to=""), "to", "a field needs a name"),
        (SetField(field=".", value=1), "field", "empty name"),
        (Route(field="a\\", operator=Op.EXISTS, topic="t"), "field", "a backslash"),
        (Route(field="a", operator=Op.GT, value=[], topic="t"), "value", "`gt` needs a number or text"),
    ],
)
def test_a_mistake_in_a_step_belongs_to_its_form_field(step: Step, field: str, part: str) -> None:
    (problem,) = refused(SetField(field="fine", value=1), step)
    assert problem.field == f"transform.steps.1.{field}"
    assert part in problem.message
    assert not problem.is_warning


def test_all_problems_of_all_steps_are_reported_at_once() -> None:
    problems = refused(
        Filter(field="", operator=Op.LT, value=None),
        Project(fields=("a",)),
        Rename(field="", to=""),
        Condition(expression="1"),
    )
    assert [problem.field for problem in problems] == [
        "transform.steps.0.field",
        "transform.steps.0.value",
        "transform.steps.2.field",
        "transform.steps.2.to",
        "transform.steps.3.expression",
    ]


def test_there_is_a_most_of_steps() -> None:
    compiled(*[SetField(field="a", value=number) for number in range(MAX_STEPS)]).apply({})
    (problem,) = refused(*[SetField(field="a", value=1)] * (MAX_STEPS + 1))
    assert problem.field == "transform.steps"
    assert f"at most {MAX_STEPS}" in problem.message


json_objects = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=2)
    | st.dictionaries(st.sampled_from(["a", "b"]), st.integers(-5, 5), max_size=2),
    max_size=4,
)
fields = st.sampled_from(["a", "b", "c", "a.b", "b.a", "d.x"])
steps_strategy = st.lists(
    st.builds(Filter, field=fields, operator=st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.GE]), value=st.integers(-5, 5))
    | st.builds(Project, fields=st.lists(fields, min_size=1, max_size=3).map(tuple))
    | st.builds(Rename, field=fields, to=fields)
    | st.builds(SetField, field=fields, value=st.integers() | st.just([1]))
    | st.builds(Route, field=fields, operator=st.just(Op.EXISTS), topic=st.sampled_from(["x", "y"])),
    max_size=5,
)


@given(steps_strategy, json_objects)
def test_any_steps_and_record_raise_only_an_error_of_the_record(steps: list[Step], record: dict[str, Any]) -> None:
    result = compile_steps(steps)
    if isinstance(result, list):
        assert all(problem.field.startswith("transform.steps.") for problem in result)
        return
    with contextlib.suppress(StepError):
        out = result.apply(record)
        assert out is None or isinstance(out[0], dict)
