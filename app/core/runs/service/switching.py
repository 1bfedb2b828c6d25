"""Changes of mode without a migration: allowed by the modes of earlier runs and by the evidence of migrations."""

from __future__ import annotations

from datetime import datetime

from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.mode import Mode, is_unsafe_at_once, mode_of
from app.core.runs.run import Run
from app.core.runs.service.busy import shut_out_at
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.kit.db.unit_of_work import UnitOfWork

_PAGE = 50


async def unsafe_switch(uow: UnitOfWork, pipeline: Pipeline) -> str:
    """Return the change of mode of the next run; empty if no producer can be left of a mode that excludes the new one.

    One plain restart in between fences no producer. A while in `generation` does not prove that no earlier producer,
    without a generation, is frozen. Only a migration proves it, at its gate. A pipeline that is already in the desired
    mode, by any way, passes.
    """
    wanted = mode_of(pipeline.definition)
    enemy = next((mode for mode in Mode if is_unsafe_at_once(mode, wanted)), None)
    if enemy is None:
        return ""
    proven = await shut_out_at(uow, pipeline.name, enemy)
    after: str | None = None
    while True:
        page = await uow.of(RunStore).list(pipeline=pipeline.name, after=after, limit=_PAGE)
        for run in page.items:
            leases = await _leases(uow, run)
            last = max((at for mode, at in leases if mode is enemy), default=None)
            if last is not None:
                return "" if any(at >= last for at in proven) else f"from {enemy} to {wanted}"
            if leases and {mode for mode, _ in leases} == {wanted}:
                return ""
        after = page.next_cursor
        if after is None:
            return ""


async def _leases(uow: UnitOfWork, run: Run) -> list[tuple[Mode | None, datetime]]:
    """Return the mode of each lease of a run, and the time when it was granted."""
    found = await uow.of(InstanceStore).list(run.id, with_history=True)
    modes = {
        number: mode_of((await uow.of(PipelineStore).get_revision(run.pipeline, number)).definition)
        for number in {one.revision for one in found}
    }
    return [(modes[one.revision], one.leased_at) for one in found]
