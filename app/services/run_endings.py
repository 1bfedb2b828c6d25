"""How a run ends, and how the next one begins: shared by what people ask for and by what instances report."""

from __future__ import annotations

from datetime import datetime

from app.domain.instance import InstanceState
from app.domain.pipeline import PipelineDefinition
from app.domain.pipeline_record import Pipeline
from app.domain.run import DesiredRunState, Run, RunEnd
from app.ports.unit_of_work import UnitOfWork
from app.services.leases import add_lease
from app.services.specifications import task_identities


async def begin_run(uow: UnitOfWork, pipeline: Pipeline, *, started_by: str, now: datetime) -> Run:
    """Write the rows of a new run on a locked pipeline: run, transactional ids, one PENDING lease an ordinal."""
    run = await uow.runs.add(pipeline=pipeline.name, revision=pipeline.current_revision, by=started_by, now=now)
    await claim_transactional_ids(uow, run, pipeline.definition)
    for ordinal in range(pipeline.definition.instances):
        await add_lease(uow, run=run, ordinal=ordinal, previous=None, now=now)
    notify_run(uow, run)
    return await uow.runs.get(run.id)


async def claim_transactional_ids(uow: UnitOfWork, run: Run, definition: PipelineDefinition) -> None:
    """Make the pipeline the owner of every id that the definition's tasks use.

    Raises ConflictError naming the id and its owner when another pipeline has one of them.
    """
    await uow.transactional_ids.claim(
        pipeline=run.pipeline,
        kafka_cluster_id=run.kafka_cluster_id,
        ids=[
            (identity.transactional_id, ordinal, identity.task)
            for ordinal in range(definition.instances)
            for identity in task_identities(definition, pipeline=run.pipeline, ordinal=ordinal)
            if identity.transactional_id is not None
        ],
    )


async def end_run_if_over(uow: UnitOfWork, *, run_id: str, now: datetime) -> Run | None:
    """End a locked run that was asked to end once no instance lives; begin the next one if a restart asked for it.

    Called after everything that may have ended the last instance. Returns the run that was begun, if any.
    """
    run = await uow.runs.get(run_id)
    asked = run.desired in (DesiredRunState.DRAIN, DesiredRunState.KILL)
    if run.ended_at is not None or not asked or any(not instance.has_ended for instance in run.instances):
        return None
    failed = [i for i in run.instances if i.state in (InstanceState.FAILED, InstanceState.LOST)]
    reason = "drained" if run.desired is DesiredRunState.DRAIN else "killed"
    if failed:
        reason += "; " + ", ".join(
            f"instance {i.ordinal} was {i.state}: {i.reason or 'no reason known'}" for i in failed
        )
    await uow.runs.end(run_id, end=RunEnd.STOPPED, reason=reason, now=now)
    notify_run(uow, run)
    if not run.starts_again:
        return None
    pipeline = await uow.pipelines.get(run.pipeline, for_update=True)
    return await begin_run(uow, pipeline, started_by=run.started_by, now=now)


def notify_run(uow: UnitOfWork, run: Run) -> None:
    uow.notify("run", run.id)
    uow.notify("pipeline", run.pipeline)
