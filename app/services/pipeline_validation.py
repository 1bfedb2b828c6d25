"""Checking a definition against everything that is known now, without saving anything."""

from __future__ import annotations

from app.domain.access import Principal
from app.domain.errors import InvalidError, NotFoundError, UnavailableError
from app.domain.options import AllowedOptions
from app.domain.pipeline import PipelineDefinition, Problem
from app.ports.brokers import DEFAULT_TIMEOUT_S, Brokers
from app.ports.unit_of_work import UnitOfWork


async def validate_pipeline(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    name: str,
    definition: PipelineDefinition,
    allowed: AllowedOptions,
    by: Principal,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> list[Problem]:
    """All that is wrong or unwise with a definition, each at its field; nothing is saved.

    With the brokers away it still answers: a warning at `cluster` says what could not be checked.
    """
    raise NotImplementedError


def refuse_invalid(name: str, problems: list[Problem], *, verb: str) -> None:
    """Raise InvalidError with all problems if any of them is more than a warning."""
    errors = [problem for problem in problems if not problem.is_warning]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidError(
            f"pipeline {name} cannot be {verb}: {errors[0].field}: {errors[0].message}{more}", problems=problems
        )


__all__ = ["NotFoundError", "UnavailableError", "refuse_invalid", "validate_pipeline"]
