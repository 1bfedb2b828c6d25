"""Whether a pipeline may begin in another mode without a migration: by what it has ever run as, and what was proven."""

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
    """From what to what the next run would go; empty where nobody can be left of a mode that it may not run beside.

    One plain restart in between shuts nobody out: that a pipeline has been `generation` for a while does not say that
    a producer of before, without a generation, is not asleep. Only a migration proves it, at its gate; or the pipeline
    is in the wanted mode already, by whatever way it came there.
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
    """The mode of each lease of a run, and when it was given out."""
    found = await uow.of(InstanceStore).list(run.id, with_history=True)
    modes = {
        number: mode_of((await uow.of(PipelineStore).get_revision(run.pipeline, number)).definition)
        for number in {one.revision for one in found}
    }
    return [(modes[one.revision], one.leased_at) for one in found]
