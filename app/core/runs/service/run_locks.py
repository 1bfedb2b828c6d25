"""The order of row locks: pipeline, then run, then instance. One order everywhere prevents deadlocks."""

from __future__ import annotations

from app.core.pipelines.store import PipelineStore
from app.core.runs.run import Run
from app.core.runs.store.runs import RunStore
from app.kit.db.unit_of_work import UnitOfWork


async def lock_run(uow: UnitOfWork, run_id: str) -> Run:
    """Lock a run (its pipeline first) until the unit of work ends, and return it as it is then."""
    run = await uow.of(RunStore).get(run_id)
    await uow.of(PipelineStore).get(run.pipeline, for_update=True)
    return await uow.of(RunStore).get(run_id, for_update=True)
