"""The specification of an instance, from the rows that were written when it was leased."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.access.store.identity import IdentityStore
from app.core.clusters.store import ClusterStore
from app.core.ids import transactional_id
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import IdKind
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee
from app.core.pipelines.store import PipelineStore
from app.core.runs.run import DesiredRunState
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.runs.store.runs import RunStore
from app.core.wire.specification import InstanceSpecification, MappedPartition, TaskIdentity
from app.kit.access import RunTokenScope
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError


async def specification_for(
    uow: UnitOfWork,
    scope: RunTokenScope,
    *,
    run_token: str,
    fenceline_version: str,
    server_urls: Sequence[str],
    native_records: bool = True,
) -> InstanceSpecification:
    """Return the specification of one lease, at the lease's own revision.

    Raises ConflictError if the lease has ended.
    """
    instance = await uow.of(InstanceStore).get(scope.run_id, scope.ordinal, scope.lease)
    run = await uow.of(RunStore).get(scope.run_id)
    if instance.has_ended or run.ended_at is not None:
        raise ConflictError(
            f"lease {scope.lease} of instance {scope.ordinal} of run {scope.run_id} has ended: it is {instance.state}"
        )
    revision = await uow.of(PipelineStore).get_revision(run.pipeline, instance.revision)
    definition = revision.definition
    cluster = await uow.of(ClusterStore).get(definition.cluster)
    mappings = await uow.of(MappingStore).of_group(kafka_cluster_id=run.kafka_cluster_id, group=definition.group_id)
    # A task of exactly_once_v2 read a partition under its own id, which is not the partition's id.
    of_tasks = {
        one.transactional_id
        for one in await uow.of(TransactionalIdStore).of_pipeline(run.pipeline)
        if one.kind is IdKind.TASK
    }
    source = (
        None
        if revision.transform_source_sha256 is None
        else (await uow.of(PipelineStore).get_source(revision.transform_source_sha256)).source
    )
    return InstanceSpecification(
        fenceline_version=fenceline_version,
        pipeline=run.pipeline,
        revision=instance.revision,
        run_id=run.id,
        ordinal=instance.ordinal,
        lease=instance.lease,
        database_epoch=await uow.of(IdentityStore).database_epoch(),
        definition=definition,
        client_config=cluster.connection(),
        tasks=task_identities(definition, pipeline=run.pipeline, ordinal=instance.ordinal),
        mappings=tuple(
            MappedPartition(topic=mapping.topic, partition=mapping.partition, transactional_id=known)
            for mapping in mappings
            if (known := mapping.assigned_id or mapping.transactional_id) is not None and known not in of_tasks
        ),
        recorded=tuple(
            await uow.of(RecordedOffsetStore).of_group(kafka_cluster_id=run.kafka_cluster_id, group=definition.group_id)
        ),
        server_urls=tuple(server_urls),
        run_token=run_token,
        transform_source=source,
        start_paused=run.desired is DesiredRunState.PAUSE,
        native_records=native_records,
    )


def ids_of_tasks(definition: PipelineDefinition, *, pipeline: str) -> frozenset[str]:
    """Return the transactional ids of the tasks of all instances with this definition."""
    return frozenset(
        identity.transactional_id
        for ordinal in range(definition.instances)
        for identity in task_identities(definition, pipeline=pipeline, ordinal=ordinal)
        if identity.transactional_id is not None
    )


def task_identities(definition: PipelineDefinition, *, pipeline: str, ordinal: int) -> tuple[TaskIdentity, ...]:
    """Return the fixed transactional ids of one instance's tasks; only exactly_once_v2 has them."""
    has_ids = definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
    return tuple(
        TaskIdentity(
            task=task,
            transactional_id=transactional_id.for_task(
                prefix=definition.transactional_id_prefix, pipeline=pipeline, instance=ordinal, task=task
            )
            if has_ids
            else None,
        )
        for task in range(definition.tasks_per_instance)
    )
