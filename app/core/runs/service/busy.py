"""The products' refusals of a change, a migration or a start in another mode of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from app.core.runs.hooks import Hooks, Refusal
from app.core.runs.mode import Mode
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError


async def refuse_while_busy(uow: UnitOfWork, pipeline: str) -> None:
    """Raise ConflictError while a product does not let the pipeline be changed."""
    await _refuse(uow, pipeline, uow.part(Hooks).busy)


async def refuse_while_disturbed(uow: UnitOfWork, pipeline: str) -> None:
    """Raise ConflictError while a product disturbs the pipeline, so that effects cannot be distinguished."""
    await _refuse(uow, pipeline, uow.part(Hooks).disturbed)


async def _refuse(uow: UnitOfWork, pipeline: str, refusals: Sequence[Refusal]) -> None:
    for refusal in refusals:
        why = await refusal(uow, pipeline)
        if why is not None:
            raise ConflictError(why)


async def shut_out_at(uow: UnitOfWork, pipeline: str, mode: Mode) -> list[datetime]:
    """Return the times at which it was proven that no client of the pipeline is left in that mode."""
    return [at for shut_out in uow.part(Hooks).shut_out for at in await shut_out(uow, pipeline, mode)]
