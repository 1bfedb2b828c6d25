"""Which task reads which partition under which transactional id, now and over time."""

from __future__ import annotations

from app.domain.transactions.mapping import PartitionMapping, PartitionOwnership, TransactionalIdOwner
from app.ports.unit_of_work import UnitOfWork


async def list_mappings(uow: UnitOfWork, pipeline: str) -> list[PartitionMapping]:
    """By topic and partition, with owner and offsets as the owner last reported them."""
    record = await uow.pipelines.get(pipeline)
    cluster = await uow.clusters.get(record.cluster)
    return await uow.mappings.of_group(kafka_cluster_id=cluster.kafka_cluster_id, group=record.definition.group_id)


async def list_owner_history(
    uow: UnitOfWork, pipeline: str, *, topic: str | None = None, partition: int | None = None, limit: int = 100
) -> list[PartitionOwnership]:
    """Who held which partition from when to when, newest first."""
    record = await uow.pipelines.get(pipeline)
    cluster = await uow.clusters.get(record.cluster)
    return await uow.mappings.history(
        kafka_cluster_id=cluster.kafka_cluster_id,
        group=record.definition.group_id,
        topic=topic,
        partition=partition,
        limit=limit,
    )


async def list_transactional_ids(uow: UnitOfWork, pipeline: str) -> list[TransactionalIdOwner]:
    """The ids that the pipeline owns, by ordinal and task."""
    await uow.pipelines.get(pipeline)
    return await uow.transactional_ids.of_pipeline(pipeline)
