"""The task and the transactional id of each partition, now and over time."""

from __future__ import annotations

from msgspec.structs import replace

from app.core.clusters.store import ClusterStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import OwnershipFilter, PartitionMapping, PartitionOwnership, TransactionalIdOwner
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.store import PipelineStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError
from app.kit.page import Page, checked_limit


async def list_mappings(uow: UnitOfWork, pipeline: str) -> list[PartitionMapping]:
    """List them by topic and partition, with the owner and its last reported offsets."""
    record = await uow.of(PipelineStore).get(pipeline)
    cluster = await uow.of(ClusterStore).get(record.cluster)
    return await uow.of(MappingStore).of_group(
        kafka_cluster_id=cluster.kafka_cluster_id, group=record.definition.group_id
    )


async def list_owner_history(
    uow: UnitOfWork, pipeline: str, wanted: OwnershipFilter, *, after: str | None = None, limit: int = 100
) -> Page[PartitionOwnership]:
    """List the owners of partitions in the pipeline's group over time, newest first. Raises InvalidError."""
    record = await uow.of(PipelineStore).get(pipeline)
    cluster = await uow.of(ClusterStore).get(record.cluster)
    return await uow.of(MappingStore).history(
        replace(_checked(wanted), group=record.definition.group_id),
        kafka_cluster_id=cluster.kafka_cluster_id,
        after=after,
        limit=checked_limit(limit),
    )


async def list_owner_history_of_cluster(
    uow: UnitOfWork, cluster: str, wanted: OwnershipFilter, *, after: str | None = None, limit: int = 100
) -> Page[PartitionOwnership]:
    """List the owners of partitions of all groups on the cluster over time, newest first. Raises InvalidError."""
    record = await uow.of(ClusterStore).get(cluster)
    return await uow.of(MappingStore).history(
        _checked(wanted), kafka_cluster_id=record.kafka_cluster_id, after=after, limit=checked_limit(limit)
    )


async def list_mappings_of_cluster(uow: UnitOfWork, cluster: str) -> list[PartitionMapping]:
    """List them by group, topic and partition; without offsets."""
    record = await uow.of(ClusterStore).get(cluster)
    return await uow.of(MappingStore).of_cluster(kafka_cluster_id=record.kafka_cluster_id)


async def find_mapping(
    uow: UnitOfWork, cluster: str, *, group: str, topic: str, partition: int
) -> PartitionMapping | None:
    """Return the partition as it is now; None if no registered pipeline has it mapped in this group."""
    record = await uow.of(ClusterStore).get(cluster)
    found = await uow.of(MappingStore).of_group(kafka_cluster_id=record.kafka_cluster_id, group=group)
    return next((one for one in found if (one.topic, one.partition) == (topic, partition)), None)


async def list_transactional_ids(uow: UnitOfWork, pipeline: str) -> list[TransactionalIdOwner]:
    """List the ids that the pipeline owns, by ordinal and task."""
    await uow.of(PipelineStore).get(pipeline)
    return await uow.of(TransactionalIdStore).of_pipeline(pipeline)


def _checked(wanted: OwnershipFilter) -> OwnershipFilter:
    if wanted.since is not None and wanted.until is not None and wanted.until < wanted.since:
        raise InvalidError("until is before since", field="until")
    return wanted
