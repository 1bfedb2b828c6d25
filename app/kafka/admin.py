"""The Brokers port on a real cluster: every question bounded, every error one of ours.

The cluster, its topics, settings and offsets by librdkafka's admin client; groups, committed offsets and versions by
kafka-python (group_client.py says why).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

from app.domain.clusters.cluster import ClusterFacts, GroupMember, TopicFacts
from app.domain.clusters.survey import SETTINGS, Survey, SurveyedBroker
from app.domain.partition_log.look import Landmark, Look
from app.kafka import cluster_client, group_client, partition_log
from app.kafka.admin_clients import AdminClients
from app.kafka.attempt import Attempt
from app.kafka.cluster_client import Settings
from app.kafka.connections import BOOTSTRAP, resolve
from app.kafka.group_client import BrokerFacts, GroupClient
from app.ports.brokers import (
    DEFAULT_TIMEOUT_S,
    ClusterDescription,
    Connection,
    GroupDescription,
    PartitionOffsets,
    TopicPartition,
    TransactionalIds,
)

P = ParamSpec("P")
T = TypeVar("T")


class KafkaBrokers:
    """Answers what app/ports/brokers.py asks. Clients are kept per cluster configuration; `close` lets them go.

    environment, secrets_dir: where references to secrets are resolved, anew for each question.
    """

    def __init__(self, *, environment: Mapping[str, str], secrets_dir: Path | None) -> None:
        self._environment = environment
        self._secrets_dir = secrets_dir
        self._clients = AdminClients()

    async def close(self) -> None:
        """Disconnect from all clusters. Questions that are being asked still end as they would."""
        await self._clients.close()

    async def describe_cluster(
        self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> ClusterDescription:
        resolved, attempt = await self._begin(connection, timeout_s)
        async with self._clients.borrow(resolved) as admin:
            return await cluster_client.describe_cluster(admin, attempt)

    async def survey(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Survey:
        resolved, attempt = await self._begin(connection, timeout_s)
        async with self._clients.borrow(resolved) as admin:
            cluster = await cluster_client.describe_cluster(admin, attempt)
            broker_ids = [broker.id for broker in cluster.brokers]
            settings, (versions, features) = await asyncio.gather(
                cluster_client.broker_settings(admin, attempt, broker_ids),
                self._ask(
                    resolved,
                    attempt,
                    "tell versions and features",
                    lambda client: (client.versions(broker_ids), client.features()),
                ),
            )
        return Survey(
            cluster_id=cluster.cluster_id,
            brokers=tuple(
                SurveyedBroker(
                    id=broker.id,
                    host=broker.host,
                    port=broker.port,
                    is_controller=broker.id == cluster.controller_id,
                    version=versions.get(broker.id),
                    settings=_wanted(settings.get(broker.id)),
                )
                for broker in cluster.brokers
            ),
            features=features,
        )

    async def facts(
        self,
        connection: Connection,
        *,
        topics: Collection[str],
        groups: Collection[str] = (),
        own_client_ids: Collection[str] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> ClusterFacts:
        """Raises only when the cluster is out of reach; what it refuses to tell is None or left out."""
        resolved, attempt = await self._begin(connection, timeout_s)
        async with self._clients.borrow(resolved) as admin:
            cluster = await cluster_client.describe_cluster(admin, attempt)
            broker_ids = [broker.id for broker in cluster.brokers]
            found, limits, (abilities, groups_found) = await asyncio.gather(
                cluster_client.topic_facts(admin, attempt, topics),
                cluster_client.broker_settings(admin, attempt, broker_ids),
                self._ask(
                    resolved,
                    attempt,
                    "describe brokers and groups",
                    lambda client: (client.broker_facts(broker_ids), client.descriptions(groups)),
                ),
            )
        return _facts(cluster, found, list(limits.values()), abilities, groups_found, own_client_ids)

    async def topics(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[str, TopicFacts]:
        resolved, attempt = await self._begin(connection, timeout_s)
        async with self._clients.borrow(resolved) as admin:
            return await cluster_client.all_topics(admin, attempt)

    async def describe_group(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupDescription:
        return await self._ask_groups(connection, timeout_s, f"describe {group}", lambda client: client.describe(group))

    async def committed_offsets(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return await self._ask_groups(
            connection, timeout_s, f"tell the offsets of {group}", lambda client: client.committed(group)
        )

    async def offsets(
        self, connection: Connection, partitions: Collection[TopicPartition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, PartitionOffsets]:
        resolved, attempt = await self._begin(connection, timeout_s)
        async with self._clients.borrow(resolved) as admin:
            return await cluster_client.offsets(admin, attempt, partitions)

    async def offsets_at(
        self,
        connection: Connection,
        partitions: Collection[TopicPartition],
        *,
        timestamp_ms: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[TopicPartition, int]:
        """As a read_committed reader sees it: the end is the last stable offset."""
        resolved, attempt = await self._begin(connection, timeout_s)
        async with self._clients.borrow(resolved) as admin:
            return await cluster_client.offsets_at(admin, attempt, partitions, timestamp_ms=timestamp_ms)

    async def alter_offsets(
        self,
        connection: Connection,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Refused as well while an open transaction has offsets of the group pending: it could commit after us."""
        await self._ask_groups(
            connection, timeout_s, f"set the offsets of {group}", lambda client: client.alter(group, offsets)
        )

    async def read_partition_log(
        self,
        connection: Connection,
        at: TopicPartition,
        *,
        start: int | Landmark,
        limit: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Look:
        resolved, attempt = await self._begin_in_reach(connection, timeout_s)
        return await _bounded(
            attempt, partition_log.read_partition_log, resolved, attempt, at, start=start, limit=limit
        )

    async def read_transactional_ids(
        self, connection: Connection, producer_ids: Collection[int], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> TransactionalIds:
        resolved, attempt = await self._begin_in_reach(connection, timeout_s)
        return await _bounded(attempt, partition_log.read_transactional_ids, resolved, attempt, producer_ids)

    async def _begin(self, connection: Connection, timeout_s: float) -> tuple[Settings, Attempt]:
        resolved = await asyncio.to_thread(
            resolve, connection, environment=self._environment, secrets_dir=self._secrets_dir
        )
        return resolved, Attempt(resolved[BOOTSTRAP], timeout_s)

    async def _begin_in_reach(self, connection: Connection, timeout_s: float) -> tuple[Settings, Attempt]:
        """librdkafka says why a cluster is out of reach, kafka-python only that it is; no thread waits meanwhile."""
        resolved, attempt = await self._begin(connection, timeout_s)
        async with self._clients.borrow(resolved) as admin:
            await cluster_client.describe_cluster(admin, attempt)
        return resolved, attempt

    async def _ask_groups(
        self, connection: Connection, timeout_s: float, what: str, question: Callable[[GroupClient], T]
    ) -> T:
        resolved, attempt = await self._begin_in_reach(connection, timeout_s)
        return await self._ask(resolved, attempt, what, question)

    async def _ask(self, resolved: Settings, attempt: Attempt, what: str, question: Callable[[GroupClient], T]) -> T:
        return await _bounded(attempt, group_client.ask, resolved, attempt, what, question)


async def _bounded(attempt: Attempt, question: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
    """The answer of a question that blocks."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(question, *arguments, **options), attempt.left_s)
    except TimeoutError:
        # The thread ends by its own bound soon after.
        raise attempt.unreachable("no answer in time") from None


def _wanted(settings: Settings | None) -> dict[str, str] | None:
    """Only what is asked for: the others may be anything."""
    return None if settings is None else {name: settings[name] for name in SETTINGS if name in settings}


def _foreign(
    members: Mapping[str, tuple[GroupMember, ...]], own_client_ids: Collection[str]
) -> dict[str, tuple[GroupMember, ...]]:
    own = tuple(own_client_ids)
    return {
        group: tuple(member for member in found if not member.client_id.startswith(own))
        for group, found in members.items()
    }


def _facts(
    cluster: ClusterDescription,
    topics: dict[str, TopicFacts],
    limits: list[Settings],
    abilities: BrokerFacts,
    groups: dict[str, GroupDescription],
    own_client_ids: Collection[str],
) -> ClusterFacts:
    """Where brokers differ, the strictest: a coordinator may be any of them."""

    def of_all(name: str, strictest: Callable[[Iterable[int]], int]) -> int | None:
        values = [
            value for value in (cluster_client.number(settings, name) for settings in limits) if value is not None
        ]
        return strictest(values) if values else None

    return ClusterFacts(
        cluster_id=cluster.cluster_id,
        broker_version=abilities.oldest,
        offers_consumer_protocol=abilities.offers_consumer_protocol and all(map(_allows_consumer_protocol, limits)),
        topics=topics,
        transaction_max_timeout_ms=of_all("transaction.max.timeout.ms", min),
        group_min_session_timeout_ms=of_all("group.min.session.timeout.ms", max),
        group_max_session_timeout_ms=of_all("group.max.session.timeout.ms", min),
        foreign_members=_foreign({name: group.members for name, group in groups.items()}, own_client_ids),
        assignors={name: group.assignor for name, group in groups.items() if group.assignor},
    )


def _allows_consumer_protocol(settings: Settings) -> bool:
    """Whether this broker's own setting allows it; one that does not tell may."""
    allowed = settings.get("group.coordinator.rebalance.protocols")
    return allowed is None or "consumer" in [word.strip() for word in allowed.split(",")]
