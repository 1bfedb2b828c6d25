"""Declarative steps, compiled once into one function over decoded JSON objects.

The steps run in order, each on the result of the one before. A record ends early at the first filter or condition that
does not hold.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from app.core.pipelines.pipeline import Condition, Filter, Project, Rename, Route, SetField, Step
from app.core.transforms import field_path
from app.core.transforms.comparison import ComparisonError, TypeMismatchError, compile_comparison
from app.core.transforms.condition import ConditionError, EvaluationError, compile_condition
from app.core.transforms.field_path import MISSING, BlockedPathError, FieldPathError, JsonObject
from app.kit.errors import Problem

MAX_STEPS = 100

Result = tuple[JsonObject, str | None]
_Follow = Callable[[JsonObject, str | None], Result | None]
_Link = Callable[[_Follow], _Follow]
"""A step as a function that calls the following one."""


class StepError(Exception):
    """A step could not be applied to a record, which is a bad record. The message names the step."""


class CompiledSteps:
    """Steps that are ready to run. `apply` may change the object that it is given."""

    __slots__ = ("_run",)

    def __init__(self, links: Sequence[_Link]) -> None:
        run: _Follow = _done
        for link in reversed(links):
            run = link(run)
        self._run = run

    def apply(self, record: JsonObject) -> Result | None:
        """Return the output of one record, with the topic that a route step chose; None if it was filtered out.

        Raises StepError.
        """
        return self._run(record, None)


def compile_steps(steps: Sequence[Step]) -> CompiledSteps | list[Problem]:
    """Return the steps as one function, or all of their problems, at fields such as `transform.steps.2.value`."""
    if len(steps) > MAX_STEPS:
        message = f"{len(steps)} steps are too many; at most {MAX_STEPS} are run"
        return [Problem(field="transform.steps", message=message)]
    links: list[_Link] = []
    problems: list[Problem] = []
    for index, step in enumerate(steps):
        try:
            links.append(_compile(step, f"step {index + 1}"))
        except _StepProblems as found:
            problems += [
                Problem(field=f"transform.steps.{index}.{item.field}", message=f"Step {index + 1}: {item.message}")
                for item in found.items
            ]
    return problems or CompiledSteps(links)


class _Mistake(msgspec.Struct, frozen=True):
    field: str
    message: str


class _StepProblems(Exception):  # noqa: N818 - carries what is wrong with one step from where it is found to the list
    def __init__(self, items: list[_Mistake]) -> None:
        super().__init__(items)
        self.items = items


def _done(record: JsonObject, topic: str | None) -> Result:
    return record, topic


def _compile(step: Step, label: str) -> _Link:
    match step:
        case Filter():
            return _filter(_test(step, label))
        case Condition():
            return _filter(_condition(step, label))
        case Project():
            return _project(step)
        case Rename():
            return _rename(step, label)
        case SetField():
            return _set(step, label)
        case Route():
            return _route(_test(step, label), step.topic)


def _filter(holds: Callable[[JsonObject], bool]) -> _Link:
    def link(follow: _Follow) -> _Follow:
        def run(record: JsonObject, topic: str | None) -> Result | None:
            return follow(record, topic) if holds(record) else None

        return run

    return link


def _route(holds: Callable[[JsonObject], bool], to: str) -> _Link:
    def link(follow: _Follow) -> _Follow:
        def run(record: JsonObject, topic: str | None) -> Result | None:
            if topic is None and holds(record):
                return follow(record, to)
            return follow(record, topic)

        return run

    return link


def _test(step: Filter | Route, label: str) -> Callable[[JsonObject], bool]:
    """Return `field operator value` as a function of the record."""
    mistakes: list[_Mistake] = []
    names = _parse(step.field, "field", mistakes)
    try:
        holds = compile_comparison(step.operator, step.value)
    except ComparisonError as error:
        raise _StepProblems([*mistakes, _Mistake("value", str(error))]) from error
    if mistakes:
        raise _StepProblems(mistakes)
    if len(names) == 1:
        (name,) = names

        # The usual case, without a getter's call for each record.
        def test_top(record: JsonObject) -> bool:
            try:
                return holds(record.get(name, MISSING))
            except TypeMismatchError as error:
                raise StepError(f"{label}: `{step.field}` {error}") from error

        return test_top
    get = field_path.getter(names)

    def test(record: JsonObject) -> bool:
        try:
            return holds(get(record))
        except TypeMismatchError as error:
            raise StepError(f"{label}: `{step.field}` {error}") from error

    return test


def _condition(step: Condition, label: str) -> Callable[[JsonObject], bool]:
    try:
        holds = compile_condition(step.expression)
    except ConditionError as error:
        raise _StepProblems([_Mistake("expression", str(error))]) from error

    def test(record: JsonObject) -> bool:
        try:
            return holds(record)
        except EvaluationError as error:
            raise StepError(f"{label}: the condition cannot be evaluated: {error}") from error

    return test


def _project(step: Project) -> _Link:
    mistakes: list[_Mistake] = []
    paths: list[tuple[str, ...]] = []
    if not step.fields:
        mistakes.append(_Mistake("fields", "a projection needs at least one field"))
    for index, field in enumerate(step.fields):
        names = _parse(field, f"fields.{index}", mistakes)
        for other in paths:
            if names and (field_path.is_inside(names, other) or field_path.is_inside(other, names)):
                message = f"`{field}` and `{field_path.render(other)}` overlap; keep one of them"
                mistakes.append(_Mistake(f"fields.{index}", message))
        if names:
            paths.append(names)
    if mistakes:
        raise _StepProblems(mistakes)
    return _change(_project_flat(tuple(path[0] for path in paths)) if _is_flat(paths) else _project_nested(paths))


def _is_flat(paths: Sequence[tuple[str, ...]]) -> bool:
    return all(len(path) == 1 for path in paths)


def _project_flat(names: tuple[str, ...]) -> Callable[[JsonObject], JsonObject]:
    return lambda record: {name: record[name] for name in names if name in record}


def _project_nested(paths: Sequence[tuple[str, ...]]) -> Callable[[JsonObject], JsonObject]:
    moves = [(field_path.getter(path), field_path.setter(path)) for path in paths]

    def project(record: JsonObject) -> JsonObject:
        kept: JsonObject = {}
        for get, put in moves:
            value = get(record)
            if value is not MISSING:
                put(kept, value)
        return kept

    return project


def _rename(step: Rename, label: str) -> _Link:
    mistakes: list[_Mistake] = []
    source = _parse(step.field, "field", mistakes)
    target = _parse(step.to, "to", mistakes)
    if not mistakes and (field_path.is_inside(target, source) or field_path.is_inside(source, target)):
        mistakes.append(_Mistake("to", f"`{step.field}` cannot become `{step.to}`: one is the other, or inside it"))
    if mistakes:
        raise _StepProblems(mistakes)
    if _is_flat((source, target)):
        return _change(_rename_flat(source[0], target[0]))
    take, put = field_path.taker(source), field_path.setter(target)

    def rename(record: JsonObject) -> JsonObject:
        value = take(record)
        if value is not MISSING:
            try:
                put(record, value)
            except BlockedPathError as error:
                raise StepError(f"{label}: {error}") from error
        return record

    return _change(rename)


def _rename_flat(source: str, target: str) -> Callable[[JsonObject], JsonObject]:
    def rename(record: JsonObject) -> JsonObject:
        if source in record:
            record[target] = record.pop(source)
        return record

    return rename


def _set(step: SetField, label: str) -> _Link:
    mistakes: list[_Mistake] = []
    names = _parse(step.field, "field", mistakes)
    if mistakes:
        raise _StepProblems(mistakes)
    put, value = field_path.setter(names), step.value
    # A later step may change the inside of the value, and that must not reach the next record.
    is_shared_safely = not isinstance(value, dict | list)
    if is_shared_safely and len(names) == 1:
        return _change(_set_flat(names[0], value))

    def set_field(record: JsonObject) -> JsonObject:
        try:
            put(record, value if is_shared_safely else copy.deepcopy(cast(object, value)))
        except BlockedPathError as error:
            raise StepError(f"{label}: {error}") from error
        return record

    return _change(set_field)


def _set_flat(name: str, value: object) -> Callable[[JsonObject], JsonObject]:
    def set_field(record: JsonObject) -> JsonObject:
        record[name] = value
        return record

    return set_field


def _change(change: Callable[[JsonObject], JsonObject]) -> _Link:
    def link(follow: _Follow) -> _Follow:
        def run(record: JsonObject, topic: str | None) -> Result | None:
            return follow(change(record), topic)

        return run

    return link


def _parse(path: str, field: str, mistakes: list[_Mistake]) -> tuple[str, ...]:
    try:
        return field_path.parse(path)
    except FieldPathError as error:
        mistakes.append(_Mistake(field, str(error)))
        return ()
