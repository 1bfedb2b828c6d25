"""The errors of a form: each problem beside the field that a user would change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from app.kit.errors import FencelineError, InvalidError, Problem


def problems_of(error: FencelineError) -> Sequence[Problem]:
    """Return the error as problems; one without a field is about the complete form."""
    if isinstance(error, InvalidError) and error.problems:
        return error.problems
    return [Problem(field=error.field or "", message=error.message)]


def by_field(problems: Sequence[Problem], *, fields: Sequence[str]) -> Mapping[str, Sequence[Problem]]:
    """Return problems by form field; `client_config.sasl.password` belongs to `client_config`, the rest to ``."""
    found: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        owner = next((field for field in fields if problem.field == field or problem.field.startswith(f"{field}.")), "")
        found[owner].append(problem)
    return found
