"""A step in a few words, for revisions, pages and tables."""

from __future__ import annotations

import msgspec

from app.core.pipelines.pipeline import Condition, Filter, Project, Rename, Route, SetField, Step, StepOperator

_SIGNS = {
    StepOperator.EQ: "=",
    StepOperator.NE: "≠",
    StepOperator.LT: "<",
    StepOperator.LE: "≤",
    StepOperator.GT: ">",
    StepOperator.GE: "≥",
    StepOperator.IN: "in",
    StepOperator.EXISTS: "exists",
    StepOperator.MISSING: "is missing",
}
_WITHOUT_VALUE = (StepOperator.EXISTS, StepOperator.MISSING)


def describe_step(step: Step) -> str:
    """Return the step in words, such as `keep if arr_delay ≥ 15`."""
    match step:
        case Filter():
            return f"keep if {_test(step)}"
        case Condition(expression=expression):
            return f"keep if {' '.join(expression.split())}"
        case Project(fields=fields):
            return f"keep only {', '.join(fields)}"
        case Rename(field=field, to=to):
            return f"rename {field} to {to}"
        case SetField(field=field, value=value):
            return f"set {field} to {msgspec.json.encode(value).decode()}"
        case Route(topic=topic):
            return f"send to {topic} if {_test(step)}"


def _test(step: Filter | Route) -> str:
    if step.operator in _WITHOUT_VALUE:
        return f"{step.field} {_SIGNS[step.operator]}"
    return f"{step.field} {_SIGNS[step.operator]} {msgspec.json.encode(step.value).decode()}"
