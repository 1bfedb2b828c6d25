"""Find the readers and writers of topics in this server's observations and pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.observing.service.observations import Observations
from app.core.pipelines.store import PipelineStore
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.products.topics.usage import GroupTopics, TopicUsage, usage_of


async def usages_of(
    topics: Collection[str],
    *,
    observations: Observations,
    group_topics: GroupTopics,
    unit_of_work: UnitOfWorkFactory,
    cluster: Cluster,
) -> Mapping[str, TopicUsage]:
    """Return them by topic. Pipelines of other entries of the same Kafka cluster count, too."""
    snapshot = observations.of(cluster.name)
    # A unit of its own: no connection is held while brokers are asked.
    async with unit_of_work() as uow:
        entries = await uow.of(ClusterStore).list_all()
        same = {one.name for one in entries if one.kafka_cluster_id == cluster.kafka_cluster_id}
        pipelines = [one for one in await uow.of(PipelineStore).list_all() if one.cluster in same]

    def find() -> Mapping[str, TopicUsage]:
        return usage_of(
            topics,
            groups=group_topics.of(cluster.name, snapshot.groups.values()),
            transactions=snapshot.open_transactions.values(),
            pipelines=pipelines,
        )

    # The first view of 5,000 groups takes long, and must not block the event loop.
    return await asyncio.to_thread(find)
