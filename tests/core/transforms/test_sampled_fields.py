"""Fields of sample records, and hints about fields that no sample record has."""

from __future__ import annotations

import json

from app.core.pipelines.pipeline import Condition, Filter, Project, Rename, Route, SetField, Step, StepOperator
from app.core.transforms.sampled_fields import MOST_FIELDS, fields_of, unknown_fields

SAMPLED = ("id", "arr_delay", "leg", "leg.from")


def problems(*steps: Step) -> dict[str, str]:
    found = unknown_fields(steps, SAMPLED)
    assert all(problem.is_warning for problem in found)
    return {problem.field: problem.message for problem in found}


def test_fields_of_objects_are_paths_and_other_values_have_none() -> None:
    values = [b'{"id": 1, "leg": {"a.b": 2}}', b"[1]", b"{", None, b"\xff", b'{"late": true}']
    assert fields_of(values) == ("id", "leg", "leg.a\\.b", "late")


def test_number_of_fields_is_bounded() -> None:
    assert len(fields_of([json.dumps({f"f{n}": n for n in range(5_000)}).encode()])) == MOST_FIELDS


def test_misspelt_field_has_the_similar_one() -> None:
    late = Filter(field="arr_dealy", operator=StepOperator.GE, value=15)
    assert problems(late) == {
        "transform.steps.0.field": "No sample record has the field `arr_dealy`; did you mean `arr_delay`?"
    }
    assert "transform.steps.0.fields.1" in problems(Project(fields=("id", "nothing")))


def test_fields_made_by_earlier_steps_are_known_only_after_them() -> None:
    made = Rename(field="arr_delay", to="delay.arrival")
    constant = SetField(field="unit", value={"name": "minutes"})
    reads = (
        Route(field="delay.arrival", operator=StepOperator.GE, value=1, topic="t"),
        Route(field="unit.name", operator=StepOperator.EQ, value="minutes", topic="t"),
    )
    assert problems(made, constant, *reads) == {}
    assert list(problems(*reads, made, constant)) == ["transform.steps.0.field", "transform.steps.1.field"]


def test_tests_for_absence_expressions_and_missing_samples_give_no_hint() -> None:
    absent = Filter(field="nothing", operator=StepOperator.MISSING)
    assert problems(absent, Condition(expression="record.nothing > 1")) == {}
    assert unknown_fields([Filter(field="x", operator=StepOperator.EQ, value=1)], ()) == []
