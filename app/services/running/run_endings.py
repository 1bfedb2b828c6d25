"""How a run ends, and how the next one begins: shared by what people ask for and by what instances report."""

from __future__ import annotations

from datetime import datetime

from app.domain.access import RECONCILER, Verb
from app.domain.errors import ConflictError
from app.domain.migrations.mode import is_unsafe_at_once, mode_of
from app.domain.pipelines.pipeline import PipelineDefinition
from app.domain.pipelines.pipeline_record import Pipeline
from app.domain.runs.instance import InstanceState
from app.domain.runs.run import DesiredRunState, Run, RunEnd
from app.ports.unit_of_work import UnitOfWork
from app.services.access import command_log
from app.services.running.leases import add_lease
from app.services.running.specifications import task_identities


async def begin_run(
    uow: UnitOfWork, pipeline: Pipeline, *, started_by: str, now: datetime, switch_at_once: bool = False
) -> Run:
    """Write the rows of a new run on a locked pipeline: transactional ids, run, one PENDING lease an ordinal.

    Raises ConflictError, before there is a run, when another pipeline owns one of the ids, or when the last run was in
    a mode from which none leads here in one step (docs/migration.md), unless that was asked for: `switch_at_once`.
    """
    switch = await unsafe_switch(uow, pipeline)
    if switch and not switch_at_once:
        raise ConflictError(
            f"pipeline {pipeline.name} cannot go {switch} in one step: a producer that sleeps is not shut out, and "
            "what it writes when it wakes is there twice. Start it as it was and migrate it, or switch at once with a "
            "reason"
        )
    cluster = await uow.clusters.get(pipeline.cluster)
    await claim_transactional_ids(
        uow, pipeline=pipeline.name, kafka_cluster_id=cluster.kafka_cluster_id, definition=pipeline.definition
    )
    run = await uow.runs.add(pipeline=pipeline.name, revision=pipeline.current_revision, by=started_by, now=now)
    for ordinal in range(pipeline.definition.instances):
        await add_lease(uow, run=run, ordinal=ordinal, previous=None, now=now)
    notify_run(uow, run)
    return await uow.runs.get(run.id)


async def unsafe_switch(uow: UnitOfWork, pipeline: Pipeline) -> str:
    """From what to what the next run would go, if its last one was in a mode that may not be left in one step."""
    wanted = mode_of(pipeline.definition)
    for run in (await uow.runs.list(pipeline=pipeline.name, after=None, limit=1)).items:
        revisions = {run.revision, *run.targets.values(), *(instance.revision for instance in run.instances)}
        for number in sorted(revisions):
            was = mode_of((await uow.pipelines.get_revision(pipeline.name, number)).definition)
            if is_unsafe_at_once(was, wanted):
                return f"from {was} to {wanted}"
    return ""


async def claim_transactional_ids(
    uow: UnitOfWork, *, pipeline: str, kafka_cluster_id: str, definition: PipelineDefinition
) -> None:
    """Make the pipeline the owner of every id that the definition's tasks use.

    Raises ConflictError naming the id and its owner when another pipeline has one of them.
    """
    await uow.transactional_ids.claim(
        pipeline=pipeline,
        kafka_cluster_id=kafka_cluster_id,
        ids=[
            (identity.transactional_id, ordinal, identity.task)
            for ordinal in range(definition.instances)
            for identity in task_identities(definition, pipeline=pipeline, ordinal=ordinal)
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
    try:
        return await begin_run(uow, pipeline, started_by=run.started_by, now=now)
    except ConflictError as error:
        # What ended must stay ended: the next run's trouble is said, and left to somebody.
        await command_log.record(
            uow,
            by=RECONCILER,
            verb=Verb.START_RUN,
            target=f"pipeline:{run.pipeline}",
            why=f"run {run.id} was to be restarted",
            now=now,
            outcome=f"not started: {error.message}",
        )
        return None


def notify_run(uow: UnitOfWork, run: Run) -> None:
    uow.notify("run", run.id)
    uow.notify("pipeline", run.pipeline)
