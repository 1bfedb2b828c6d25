"""The Brokers port on a real cluster: every question is bounded, uses a client alone, and raises known errors.

No call uses librdkafka: an unexpected answer ends the whole process there (cluster_client.py, ADR 0015).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import (
    DEFAULT_TIMEOUT_S,
    NO_METADATA,
    Broker,
    ClusterDescription,
    Connection,
    GroupDescription,
    LiveTopic,
    PartitionOffsets,
    TransactionalIds,
)
from app.core.clusters.cluster import ClusterFacts, GroupMember, TopicFacts
from app.core.clusters.partition import Partition
from app.core.clusters.survey import ABORT_SWEEP, SETTINGS, Survey, SurveyedBroker
from app.core.clusters.topic import ListedTopic, TopicDescription
from app.core.journals.log_look import LogLook, LogStart, ReadBound
from app.core.journals.query_marker import QueryMarker
from app.core.runs.recorded_offset import TruncatedOffset
from app.edges.kafka import cluster_client, first_contact, partition_log, partition_logs
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.cluster_client import ClusterClient, Settings
from app.edges.kafka.connections import ANYWHERE, BOOTSTRAP, ClusterConnector
from app.edges.kafka.group_client import BrokerFacts
from app.edges.kafka.kept_clients import KeptClients
from app.edges.kafka.raw_client import LEAST_EXPLAINING_S
from app.edges.kafka.raw_connections import address_of
from app.edges.kafka.topic_details import KnownDetails
from app.kit.words import most_similar

T = TypeVar("T")

# Separate threads: slow brokers delay no other work of the server.
_QUESTIONS_AT_ONCE = 32
_LATE_S = 1.0
"""A busy machine may be this late with the thread's own answer, which has the reason."""


class KafkaBrokers(ClusterConnector):
    """Implements app/core/clusters/brokers.py."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        secrets_dir: Path | None,
        allowed_addresses: Collection[str] = ANYWHERE,
    ) -> None:
        super().__init__(environment=environment, secrets_dir=secrets_dir, allowed_addresses=allowed_addresses)
        self._threads = ThreadPoolExecutor(_QUESTIONS_AT_ONCE, thread_name_prefix="asks-brokers")
        self._clients = KeptClients(ClusterClient)
        self._details = KnownDetails()

    async def close(self) -> None:
        """Close without waiting; pending questions end as usual."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._clients.close)

    async def describe_cluster(
        self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> ClusterDescription:
        return await self._ask(connection, timeout_s, "describe the cluster", ClusterClient.cluster)

    async def reach_each(
        self, connection: Connection, brokers: Collection[Broker], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        resolved, attempt = await self._begin(connection, timeout_s)
        addresses = {broker.id: address_of(broker) for broker in brokers}
        question = partial(first_contact.why_not_advertised, resolved, addresses, within_s=timeout_s)
        found = await self._bounded(attempt, question)
        if found:
            raise attempt.unreachable("; ".join(found.values()), is_advertised=True)

    async def survey(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Survey:
        return await self._ask(connection, timeout_s, "return versions and settings", _survey)

    async def facts(
        self,
        connection: Connection,
        *,
        topics: Collection[str],
        groups: Collection[str] = (),
        own_client_ids: Collection[str] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> ClusterFacts:
        """Raise only if the cluster is unreachable; refused parts of the answer are None or left out."""

        def question(client: ClusterClient) -> ClusterFacts:
            cluster = client.cluster()
            broker_ids = [broker.id for broker in cluster.brokers]
            return _facts(
                cluster,
                found := client.topic_facts(topics),
                _similar(client, set(topics) - found.keys()),
                list(client.broker_settings(broker_ids).values()),
                client.broker_facts(broker_ids),
                client.descriptions(groups),
                own_client_ids,
            )

        return await self._ask(connection, timeout_s, "describe brokers, topics and groups", question)

    async def topics(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[str, TopicFacts]:
        return await self._ask(connection, timeout_s, "list topics", ClusterClient.all_topics)

    async def describe_group(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupDescription:
        return await self._ask(connection, timeout_s, f"describe {group}", lambda client: client.describe(group))

    async def committed_offsets(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, int]:
        what = f"return the offsets of {group}"
        return await self._ask(connection, timeout_s, what, lambda client: client.committed(group))

    async def offsets_and_markers(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[dict[Partition, int], dict[Partition, QueryMarker]]:
        what = f"return the offsets of {group}"
        return await self._ask(connection, timeout_s, what, lambda client: client.offsets_and_markers(group))

    async def truncated_offsets(
        self,
        connection: Connection,
        group: str,
        partitions: Collection[Partition],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> list[TruncatedOffset]:
        what = f"compare the offsets of {group} with the logs' epochs"
        return await self._ask(connection, timeout_s, what, lambda client: client.truncated(group, partitions))

    async def offsets(
        self, connection: Connection, partitions: Collection[Partition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, PartitionOffsets]:
        return await self._ask(connection, timeout_s, "return offsets", lambda client: client.offsets(partitions))

    async def offsets_of_each(
        self, connection: Connection, partitions: Collection[Partition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, PartitionOffsets | Refused]:
        return await self._ask(
            connection, timeout_s, "return offsets", lambda client: client.offsets_of_each(partitions)
        )

    async def offsets_at(
        self,
        connection: Connection,
        partitions: Collection[Partition],
        *,
        timestamp_ms: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[Partition, int]:
        """As a read_committed consumer sees it: the end is the last stable offset."""
        return await self._ask(
            connection,
            timeout_s,
            "return offsets",
            lambda client: client.offsets_at(partitions, timestamp_ms=timestamp_ms),
        )

    async def alter_offsets(
        self,
        connection: Connection,
        group: str,
        offsets: Mapping[Partition, int],
        *,
        metadata: Mapping[Partition, str] = NO_METADATA,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Refuse also while an open transaction has pending offsets of the group, which it could commit later."""
        what = f"set the offsets of {group}"
        await self._ask(connection, timeout_s, what, lambda client: client.alter(group, offsets, metadata))

    async def read_partition_log(
        self,
        connection: Connection,
        at: Partition,
        *,
        start: LogStart,
        limit: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> LogLook:
        resolved, attempt = await self._begin(connection, timeout_s)
        question = partial(partition_log.read_partition_log, resolved, attempt, at, start=start, limit=limit)
        return await self._bounded(attempt, question)

    async def read_partition_logs(
        self,
        connection: Connection,
        topic: str,
        starts: LogStart | Mapping[int, LogStart],
        bound: ReadBound,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[Partition, LogLook | Refused]:
        resolved, attempt = await self._begin(connection, timeout_s)
        return await self._bounded(
            attempt, partial(partition_logs.read_partition_logs, resolved, attempt, topic, starts, bound)
        )

    async def list_topics(
        self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[ListedTopic, ...]:
        return await self._ask(connection, timeout_s, "list topics", ClusterClient.listed_topics)

    async def describe_topics(
        self, connection: Connection, topics: Collection[str], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, TopicDescription]:
        return await self._ask(
            connection, timeout_s, "describe topics", lambda client: client.described_topics(topics, self._details)
        )

    async def live_topic(
        self, connection: Connection, topic: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> LiveTopic | None:
        return await self._ask(
            connection, timeout_s, "describe the topic", lambda client: client.live_topic(topic, self._details)
        )

    async def read_transactional_ids(
        self, connection: Connection, producer_ids: Collection[int], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> TransactionalIds:
        resolved, attempt = await self._begin(connection, timeout_s)
        return await self._bounded(
            attempt, partial(partition_log.read_transactional_ids, resolved, attempt, producer_ids)
        )

    async def _begin(self, connection: Connection, timeout_s: float) -> tuple[Settings, ConnectionAttempt]:
        resolved = await asyncio.to_thread(self._resolve, connection)
        return resolved, ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)

    async def _ask(
        self, connection: Connection, timeout_s: float, what: str, question: Callable[[ClusterClient], T]
    ) -> T:
        resolved, attempt = await self._begin(connection, timeout_s)
        return await self._bounded(
            attempt, partial(cluster_client.ask, resolved, attempt, what, question, self._clients)
        )

    async def _bounded(self, attempt: ConnectionAttempt, question: Callable[[], T]) -> T:
        """Return the answer to a blocking question."""
        asked = asyncio.get_running_loop().run_in_executor(self._threads, question)
        try:
            return await asyncio.wait_for(asked, attempt.left_s + LEAST_EXPLAINING_S + _LATE_S)
        except TimeoutError:
            # The thread ends by its own time limit soon after.
            raise attempt.unreachable("no answer in time") from None


def _survey(client: ClusterClient) -> Survey:
    cluster = client.cluster()
    broker_ids = [broker.id for broker in cluster.brokers]
    settings, versions = client.broker_settings(broker_ids), client.versions(broker_ids)
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
        features=client.features(),
    )


def _wanted(settings: Settings | None) -> dict[str, str] | None:
    """Read the requested settings only: the others may have any form."""
    return None if settings is None else {name: settings[name] for name in SETTINGS if name in settings}


def _foreign(
    members: Mapping[str, tuple[GroupMember, ...]], own_client_ids: Collection[str]
) -> dict[str, tuple[GroupMember, ...]]:
    own = tuple(own_client_ids)
    return {
        group: tuple(member for member in found if not member.client_id.startswith(own))
        for group, found in members.items()
    }


def _similar(client: ClusterClient, missing: Collection[str]) -> dict[str, str]:
    """Return the most similar name of an existing topic for each missing one; all names are listed only then."""
    if not missing:
        return {}
    names = [topic.name for topic in client.listed_topics() if not topic.is_internal]
    return {topic: found for topic in missing if (found := most_similar(topic, names)) is not None}


def _facts(
    cluster: ClusterDescription,
    topics: dict[str, TopicFacts],
    similar: dict[str, str],
    limits: list[Settings],
    abilities: BrokerFacts,
    groups: dict[str, GroupDescription],
    own_client_ids: Collection[str],
) -> ClusterFacts:
    """Return the strictest value if brokers differ: a coordinator may be any of them."""

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
        similar=similar,
        transaction_max_timeout_ms=of_all("transaction.max.timeout.ms", min),
        abort_sweep_ms=of_all(ABORT_SWEEP, max),
        group_min_session_timeout_ms=of_all("group.min.session.timeout.ms", max),
        group_max_session_timeout_ms=of_all("group.max.session.timeout.ms", min),
        foreign_members=_foreign({name: group.members for name, group in groups.items()}, own_client_ids),
        assignors={name: group.assignor for name, group in groups.items() if group.assignor},
    )


def _allows_consumer_protocol(settings: Settings) -> bool:
    """Return whether this broker's own setting allows it; an unreported one counts as allowed."""
    allowed = settings.get("group.coordinator.rebalance.protocols")
    return allowed is None or "consumer" in [word.strip() for word in allowed.split(",")]
