"""The end of a run and the begin of the next one, for requests of users and for reports of instances."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from app.core.access.service import command_log
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.ids import transactional_id
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import AssignedId, IdOrigin
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import InstanceState
from app.core.runs.run import DesiredRunState, Run, RunEnd
from app.core.runs.service.leases import add_lease
from app.core.runs.service.specifications import task_identities
from app.core.runs.service.switching import unsafe_switch
from app.core.runs.store.runs import RunStore
from app.kit.access import RECONCILER, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError


async def begin_run(
    uow: UnitOfWork,
    pipeline: Pipeline,
    *,
    started_by: str,
    now: datetime,
    partitions: Collection[Partition] = (),
    switch_at_once: bool = False,
) -> Run:
    """Write the rows of a new run on a locked pipeline: transactional ids, run, one PENDING lease an ordinal.

    partitions: of the source topics, as far as they were just read. exactly_once: those without an id get one.

    Raises ConflictError, before there is a run, if another pipeline owns one of the ids. It is also raised if a
    producer of an incompatible mode may be frozen (docs/migration.md), unless the user has requested `switch_at_once`.
    """
    switch = await unsafe_switch(uow, pipeline)
    if switch and not switch_at_once:
        raise ConflictError(
            f"pipeline {pipeline.name} cannot go {switch} by a restart: a frozen producer could duplicate records. "
            "Start it as before and migrate it, or switch at once with a reason"
        )
    cluster = await uow.of(ClusterStore).get(pipeline.cluster)
    await claim_transactional_ids(
        uow, pipeline=pipeline.name, kafka_cluster_id=cluster.kafka_cluster_id, definition=pipeline.definition
    )
    if pipeline.definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE:
        await assign_partition_ids(
            uow,
            pipeline=pipeline.name,
            kafka_cluster_id=cluster.kafka_cluster_id,
            group=pipeline.definition.group_id,
            ids=[
                AssignedId(
                    topic=topic,
                    partition=number,
                    transactional_id=transactional_id.for_partition(
                        prefix=pipeline.definition.transactional_id_prefix,
                        group=pipeline.definition.group_id,
                        topic=topic,
                        partition=number,
                    ),
                )
                for topic, number in partitions
            ],
            now=now,
        )
    run = await uow.of(RunStore).add(pipeline=pipeline.name, revision=pipeline.current_revision, by=started_by, now=now)
    for ordinal in range(pipeline.definition.instances):
        await add_lease(uow, run=run, ordinal=ordinal, previous=None, now=now)
    notify_run(uow, run)
    return await uow.of(RunStore).get(run.id)


async def claim_transactional_ids(
    uow: UnitOfWork, *, pipeline: str, kafka_cluster_id: str, definition: PipelineDefinition
) -> None:
    """Make the pipeline the owner of every id that the definition's tasks use; an id in use is not archived any more.

    Raises ConflictError naming the id and its owner if another pipeline has one of them.
    """
    ids = [
        (identity.transactional_id, ordinal, identity.task)
        for ordinal in range(definition.instances)
        for identity in task_identities(definition, pipeline=pipeline, ordinal=ordinal)
        if identity.transactional_id is not None
    ]
    await uow.of(TransactionalIdStore).claim(pipeline=pipeline, kafka_cluster_id=kafka_cluster_id, ids=ids)
    await uow.of(TransactionalIdStore).use_again(
        pipeline=pipeline,
        kafka_cluster_id=kafka_cluster_id,
        ids=[name for name, _, _ in ids],
        partitions=definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE,
    )


async def assign_partition_ids(
    uow: UnitOfWork,
    *,
    pipeline: str,
    kafka_cluster_id: str,
    group: str,
    ids: Sequence[AssignedId],
    now: datetime,
) -> None:
    """Assign these partitions an id by the formula if they have none; a known id is never changed.

    Raises ConflictError if another pipeline has one of the ids.
    """
    known = {
        (mapping.topic, mapping.partition)
        for mapping in await uow.of(MappingStore).of_group(kafka_cluster_id=kafka_cluster_id, group=group)
        if mapping.assigned_id is not None and mapping.pipeline == pipeline
    }
    new = [one for one in ids if (one.topic, one.partition) not in known]
    await uow.of(TransactionalIdStore).claim_for_partitions(
        pipeline=pipeline,
        kafka_cluster_id=kafka_cluster_id,
        ids=[one.transactional_id for one in new],
        kind=IdOrigin.FORMULA.kind,
    )
    await uow.of(MappingStore).assign(
        pipeline=pipeline,
        kafka_cluster_id=kafka_cluster_id,
        group=group,
        ids=new,
        origin=IdOrigin.FORMULA,
        now=now,
    )


async def end_run_if_over(uow: UnitOfWork, *, run_id: str, now: datetime) -> Run | None:
    """End a locked run that was to end, once no instance lives; begin the next one if a restart requested it.

    Called after everything that may have ended the last instance. Returns the new run, if any.
    """
    run = await uow.of(RunStore).get(run_id)
    asked = run.desired in (DesiredRunState.DRAIN, DesiredRunState.KILL)
    if run.ended_at is not None or not asked or any(not instance.has_ended for instance in run.instances):
        return None
    failed = [i for i in run.instances if i.state in (InstanceState.FAILED, InstanceState.LOST)]
    reason = "drained" if run.desired is DesiredRunState.DRAIN else "killed"
    if failed:
        reason += "; " + ", ".join(
            f"instance {i.ordinal} was {i.state}: {i.reason or 'no reason known'}" for i in failed
        )
    await uow.of(RunStore).end(run_id, end=RunEnd.STOPPED, reason=reason, now=now)
    notify_run(uow, run)
    if not run.starts_again:
        return None
    pipeline = await uow.of(PipelineStore).get(run.pipeline, for_update=True)
    try:
        return await begin_run(uow, pipeline, started_by=run.started_by, now=now)
    except ConflictError as error:
        # The ended run stays ended: an error of the next run is recorded for a user.
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
