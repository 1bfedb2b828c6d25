"""The fields of JSON values in sample records: suggestions for steps, and hints about misspelt fields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

import msgspec

from app.core.pipelines.pipeline import Filter, Project, Rename, Route, SetField, Step, StepOperator
from app.core.transforms.field_path import FieldPathError, is_inside, parse, render
from app.kit.errors import Problem
from app.kit.words import did_you_mean

MOST_FIELDS = 200
_MOST_LEVELS = 5
_LONGEST = 200
_ABSENT_IS_FINE = (StepOperator.EXISTS, StepOperator.MISSING)


def fields_of(values: Iterable[bytes | None]) -> tuple[str, ...]:
    """Return the paths of the fields of these JSON objects, in their order, at most MOST_FIELDS; others have none."""
    found: dict[str, None] = {}
    for value in values:
        try:
            decoded: Any = None if value is None else msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        for path in _paths(decoded, ()):
            if len(found) >= MOST_FIELDS:
                return tuple(found)
            if len(path) <= _LONGEST:
                found[path] = None
    return tuple(found)


def _paths(value: object, above: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(value, dict) or len(above) >= _MOST_LEVELS:
        return
    for name, inner in cast("dict[str, object]", value).items():
        if name:
            yield render((*above, name))
            yield from _paths(inner, (*above, name))


def unknown_fields(steps: Collection[Step], sampled: Collection[str]) -> list[Problem]:
    """Return a warning for each field that a step reads and no sample record has. Fields of earlier steps are known.

    sampled: from `fields_of`; empty: nothing is known, and there is no warning. Expressions are not checked.
    """
    if not sampled:
        return []
    known = [parse(path) for path in sampled]
    problems: list[Problem] = []
    for index, step in enumerate(steps):
        for part, path in _read_by(step):
            if (names := _parsed(path)) is None or any(is_inside(one, names) for one in known):
                continue
            # The inside of a field that a step has made, or of one deeper than the samples show, may be anything.
            if any(is_inside(names, made) for made in known[len(sampled) :]):
                continue
            also = did_you_mean(path, sampled) or ". The samples are few: check the name"
            problems.append(
                Problem(
                    field=f"transform.steps.{index}.{part}",
                    message=f"No sample record has the field `{path}`{also}",
                    is_warning=True,
                )
            )
        made = step.to if isinstance(step, Rename) else step.field if isinstance(step, SetField) else None
        if made is not None and (names := _parsed(made)) is not None:
            known.append(names)
    return problems


def _read_by(step: Step) -> Iterator[tuple[str, str]]:
    match step:
        case Filter() | Route():
            if step.operator not in _ABSENT_IS_FINE:
                yield "field", step.field
        case Rename():
            yield "field", step.field
        case Project():
            for index, path in enumerate(step.fields):
                yield f"fields.{index}", path
        case _:
            pass


def _parsed(path: str) -> tuple[str, ...] | None:
    try:
        return parse(path)
    except FieldPathError:
        return None
