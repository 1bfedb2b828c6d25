"""The form keeps a definition, and every problem is at the field to change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.definition import decode_definition
from app.core.pipelines.pages.form import (
    definition_data,
    definition_of,
    form_of,
    json_or_text,
    steps_of,
    values_of,
    with_steps,
)
from app.core.pipelines.pipeline import Filter, Identity, PipelineDefinition, StepOperator, Steps
from app.kit.errors import Problem
from tests.support.page_samples import DEFINITION


def through_the_form(definition: PipelineDefinition) -> PipelineDefinition | list[Problem]:
    return decode_definition(definition_data(values_of("p", definition)), strict=False)


def test_a_definition_comes_back_from_the_form_as_it_was() -> None:
    assert through_the_form(DEFINITION) == DEFINITION


@given(
    value=st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)
    | st.lists(st.integers(-5, 5) | st.just("UA"), max_size=3)
)
def test_the_value_of_a_step_keeps_its_type(value: object) -> None:
    definition = PipelineDefinition(
        cluster="c",
        source_topics=("in", "more"),
        group_id="g",
        sink_topic="out",
        transform=Steps(steps=(Filter(field="f", operator=StepOperator.EQ, value=value),)),
        consumer_overrides={"fetch.min.bytes": "1", "client.rack": "a=b"},
    )
    stripped = value.strip() if isinstance(value, str) else value
    if stripped != value:
        return  # blanks at the ends of a form field are not part of what was typed
    assert through_the_form(definition) == definition


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("15", 15), ("15.5", 15.5), ("true", True), ('"15"', "15"), ("UA", "UA"), ("[1, 2]", [1, 2]), ("", "")],
)
def test_typed_value_is_json_or_else_text(typed: str, meant: object) -> None:
    assert json_or_text(typed) == meant


def test_an_empty_group_is_the_pipelines_name() -> None:
    values = {**values_of("late-flights", DEFINITION), "group_id": " "}
    found = definition_of(values)
    assert isinstance(found, PipelineDefinition)
    assert found.group_id == "late-flights"


def test_a_number_that_is_none_is_a_problem_at_its_field_and_stays_as_typed() -> None:
    values = {**values_of("p", DEFINITION), "instances": "two"}
    problems = decode_definition(definition_data(values), strict=False)
    assert isinstance(problems, list)
    form = form_of(values, problems)
    assert [problem.is_warning for problem in form.problems_at("instances")] == [False]
    assert form.value("instances") == "two"
    assert form.errors == 1


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("sink_topic", "sink_topic"),
        ("spark.conf.spark.ui.port", "spark.conf"),
        ("consumer_overrides.ssl.ca.location", "consumer_overrides"),
        ("source_topics.1", "source_topics"),
        ("transform.steps.0.value", "transform.steps.0.value"),
        ("transform.steps.1.fields.3", "transform.steps.1.fields"),
        ("transform.steps.0", "transform.steps.0.op"),
        ("transform.steps", "transform.kind"),
        ("transform.sha256", "transform.file"),
    ],
)
def test_a_problem_is_shown_at_the_nearest_field(path: str, field: str) -> None:
    form = form_of(values_of("p", DEFINITION), [Problem(field=path, message="wrong")])
    assert [problem.message for problem in form.problems_at(field)] == ["wrong"]
    assert not form.general


def test_problem_without_a_field_is_shown_above_the_form() -> None:
    form = form_of(values_of("p", DEFINITION), [Problem(field="", message="the whole thing is wrong")])
    assert [problem.message for problem in form.general] == ["the whole thing is wrong"]
    assert form.errors == 1


def test_a_warning_does_not_stand_in_the_way() -> None:
    form = form_of(values_of("p", DEFINITION), [Problem(field="instances", message="idle", is_warning=True)])
    assert form.errors == 0
    assert [problem.is_warning for problem in form.problems_at("instances")] == [True]


def test_a_step_that_is_taken_out_closes_the_gap() -> None:
    values = values_of("p", DEFINITION)
    left = with_steps(values, steps_of(values)[1:])
    assert [step["op"] for step in steps_of(left)] == ["project"]
    assert "transform.steps.1.op" not in left
    emptied = with_steps(left, [])
    data = definition_data({**emptied, "transform.kind": "identity"})
    decoded = decode_definition(data, strict=False)
    assert isinstance(decoded, PipelineDefinition)
    assert decoded.transform == Identity()
