"""The Brokers port on real brokers: confluent-kafka's admin client, every call bounded, its errors translated here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, cast

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as WireTopicPartition
from confluent_kafka.admin import (
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage] - documented here, not marked as exported
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage] - as above
    ResourceType,  # pyright: ignore[reportPrivateImportUsage] - as above
)

from app.domain.cluster import ClusterFacts, GroupMember, TopicFacts
from app.domain.errors import BrokerUnreachableError, ConflictError, FencelineError, NotFoundError, UnavailableError
from app.kafka.api_versions import OfferedApis, offered_apis
from app.kafka.clients import Client, Clients
from app.ports.brokers import (
    DEFAULT_TIMEOUT_S,
    Broker,
    ClusterDescription,
    Connection,
    GroupDescription,
    PartitionOffsets,
    TopicPartition,
)

T = TypeVar("T")
VERSIONS_KEPT_S = 60.0
MAX_BROKERS_ASKED = 12
"""Brokers whose version is asked for; on a larger cluster the rest is taken to be like these."""

# confluent-kafka says these constants by private names only.
_UNREACHABLE = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)
_COORDINATOR_MOVES = frozenset(
    {
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
"""They pass: the first group of a new cluster, or a broker that just took over. The client does not ask again."""
_COORDINATOR_PAUSE_S = 0.1
_REFUSED_TO_SAY = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)


class KafkaBrokers:
    """See app/ports/brokers.py. One a process; `close` lets its connections go."""

    def __init__(self, *, secrets_dir: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._clients = Clients(environment=environment, secrets_dir=secrets_dir)
        self._versions: dict[str, tuple[float, OfferedApis | None]] = {}

    async def describe_cluster(
        self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> ClusterDescription:
        call = _Call(self._clients, connection, timeout_s)
        found = await call.result(call.client.admin.describe_cluster(request_timeout=call.left_s()))
        return ClusterDescription(
            cluster_id=found.cluster_id,
            controller_id=None if found.controller is None else found.controller.id,
            brokers=tuple(
                Broker(id=node.id, host=node.host, port=node.port) for node in sorted(found.nodes, key=lambda n: n.id)
            ),
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
        """What the checks of a pipeline need. Members whose client id begins with one of `own_client_ids` are ours."""
        call = _Call(self._clients, connection, timeout_s)
        cluster = await self.describe_cluster(connection, timeout_s=call.left_s())
        described, settings, oldest, members = await asyncio.gather(
            self._describe_topics(call, topics),
            self._broker_settings(call, cluster),
            self._oldest(call, cluster),
            asyncio.gather(*(self._foreign_members(call, group, own_client_ids) for group in groups)),
        )
        return ClusterFacts(
            cluster_id=cluster.cluster_id,
            broker_version=None if oldest is None else oldest.version,
            offers_consumer_protocol=None if oldest is None else oldest.offers_consumer_protocol,
            topics=described,
            transaction_max_timeout_ms=settings.get("transaction.max.timeout.ms"),
            group_min_session_timeout_ms=settings.get("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=settings.get("group.max.session.timeout.ms"),
            consumer_group_session_timeout_ms=settings.get("group.consumer.session.timeout.ms"),
            foreign_members=dict(zip(groups, members, strict=True)),
        )

    async def topics(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[str, TopicFacts]:
        """All topics that are not internal, by name; without their configuration."""
        call = _Call(self._clients, connection, timeout_s)
        # The one call of the client that blocks instead of giving a future.
        metadata = await call.blocking(lambda: call.client.admin.list_topics(timeout=call.left_s()))
        return {
            name: TopicFacts(
                partitions=len(topic.partitions),
                replication_factor=max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
            )
            for name, topic in sorted(metadata.topics.items())
            if not name.startswith("__") and topic.error is None
        }

    async def describe_group(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupDescription:
        return await self._describe_group(_Call(self._clients, connection, timeout_s), group)

    async def committed_offsets(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets, without those that an open transaction has pending."""
        call = _Call(self._clients, connection, timeout_s)
        found = await call.of_coordinator(
            lambda: call.client.admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=call.left_s()
            )[group]
        )
        offsets: list[Any] = found.topic_partitions or []
        return {
            TopicPartition(at.topic, at.partition): at.offset for at in offsets if at.offset >= 0 and at.error is None
        }

    async def offsets(
        self, connection: Connection, partitions: Collection[TopicPartition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, PartitionOffsets]:
        call = _Call(self._clients, connection, timeout_s)
        earliest, stable, high = await asyncio.gather(
            self._list_offsets(call, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
            self._list_offsets(call, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
            self._list_offsets(call, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
        )
        return {
            at: PartitionOffsets(earliest=earliest[at], last_stable=stable[at], high_watermark=high[at])
            for at in partitions
        }

    async def offsets_at(
        self,
        connection: Connection,
        partitions: Collection[TopicPartition],
        *,
        timestamp_ms: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[TopicPartition, int]:
        """The first offset at or after the timestamp; the end where there is none."""
        call = _Call(self._clients, connection, timeout_s)
        found, ends = await asyncio.gather(
            self._list_offsets(
                call, partitions, OffsetSpec.for_timestamp(timestamp_ms), IsolationLevel.READ_UNCOMMITTED
            ),
            self._list_offsets(call, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
        )
        return {at: found[at] if found[at] >= 0 else ends[at] for at in partitions}

    async def alter_offsets(
        self,
        connection: Connection,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Set the committed offsets of a group without members. Raises ConflictError while it has any."""
        if not offsets:
            return
        call = _Call(self._clients, connection, timeout_s)
        described = await self._describe_group(call, group)
        if described.members:
            who = ", ".join(f"{member.client_id} on {member.host}" for member in described.members[:3])
            raise ConflictError(
                f"group {group} has {len(described.members)} members ({who}): its offsets can be moved only when they "
                "have left; a member that died leaves when its session times out"
            )
        wanted = [WireTopicPartition(at.topic, at.partition, offset) for at, offset in sorted(offsets.items())]
        result = await call.of_coordinator(
            lambda: call.client.admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=call.left_s()
            )[group]
        )
        altered: list[Any] = result.topic_partitions or []
        for at in altered:
            if at.error is not None:
                raise call.translated(at.error)

    def close(self) -> None:
        self._clients.close()

    async def _describe_topics(self, call: _Call, names: Collection[str]) -> dict[str, TopicFacts]:
        if not names:
            return {}
        futures = call.client.admin.describe_topics(TopicCollection(list(names)), request_timeout=call.left_s())
        found: dict[str, Any] = {}
        for name, future in futures.items():
            described = await call.result(future, absent={KafkaError.UNKNOWN_TOPIC_OR_PART, *_REFUSED_TO_SAY})
            if described is not None:
                found[name] = described
        durability = await self._settings(
            call, [ConfigResource(ResourceType.TOPIC, name) for name in found], {"min.insync.replicas"}
        )
        return {
            name: TopicFacts(
                partitions=len(topic.partitions),
                replication_factor=max((len(partition.replicas) for partition in topic.partitions), default=0),
                min_insync_replicas=durability.get(name, {}).get("min.insync.replicas"),
            )
            for name, topic in found.items()
        }

    async def _broker_settings(self, call: _Call, cluster: ClusterDescription) -> dict[str, int]:
        """Settings that all brokers of a sane cluster share, as the first one has them."""
        wanted = {
            "transaction.max.timeout.ms",
            "group.min.session.timeout.ms",
            "group.max.session.timeout.ms",
            "group.consumer.session.timeout.ms",
        }
        if not cluster.brokers:
            return {}
        broker = str(cluster.brokers[0].id)
        found = await self._settings(call, [ConfigResource(ResourceType.BROKER, broker)], wanted)
        return found.get(broker, {})

    async def _settings(
        self, call: _Call, resources: Collection[ConfigResource], wanted: Collection[str]
    ) -> dict[str, dict[str, int]]:
        """Numbers by resource and setting; a resource whose configuration may not be read is left out."""
        if not resources:
            return {}
        futures = call.client.admin.describe_configs(list(resources), request_timeout=call.left_s())
        found: dict[str, dict[str, int]] = {}
        for resource, future in futures.items():
            entries = await call.result(future, absent={KafkaError.UNKNOWN_TOPIC_OR_PART, *_REFUSED_TO_SAY})
            if entries is not None:
                found[resource.name] = {
                    name: int(entry.value)
                    for name, entry in entries.items()
                    if name in wanted and entry.value is not None
                }
        return found

    async def _oldest(self, call: _Call, cluster: ClusterDescription) -> OfferedApis | None:
        """The oldest of the brokers that say what they offer; asked at most once a minute."""
        asked = [f"{broker.host}:{broker.port}" for broker in cluster.brokers[:MAX_BROKERS_ASKED]]
        now = time.monotonic()
        stale = [
            address for address in asked if self._versions.get(address, (-VERSIONS_KEPT_S,))[0] < now - VERSIONS_KEPT_S
        ]
        answers = await asyncio.gather(
            *(
                asyncio.to_thread(offered_apis, address, call.client.config, timeout_s=min(2.0, call.left_s()))
                for address in stale
            )
        )
        for address, answer in zip(stale, answers, strict=True):
            if answer is not None:
                self._versions[address] = (now, answer)
        known = [kept[1] for address in asked if (kept := self._versions.get(address)) and kept[1] is not None]
        return min(known, key=lambda offered: offered.version, default=None)

    async def _foreign_members(
        self, call: _Call, group: str, own_client_ids: Collection[str]
    ) -> tuple[GroupMember, ...]:
        described = await self._describe_group(call, group)
        return tuple(member for member in described.members if not member.client_id.startswith(tuple(own_client_ids)))

    async def _describe_group(self, call: _Call, group: str) -> GroupDescription:
        found = await call.of_coordinator(
            lambda: call.client.admin.describe_consumer_groups([group], request_timeout=call.left_s())[group],
            absent={KafkaError.GROUP_ID_NOT_FOUND, *_REFUSED_TO_SAY},
        )
        if found is None:
            return GroupDescription(group=group, state="Dead", protocol="", members=())
        return GroupDescription(
            group=group,
            state=_kafka_word(found.state.name),
            protocol=_kafka_word(found.type.name),
            members=tuple(
                GroupMember(member_id=member.member_id, client_id=member.client_id, host=member.host.lstrip("/"))
                for member in found.members
            ),
        )

    async def _list_offsets(
        self, call: _Call, partitions: Collection[TopicPartition], spec: OffsetSpec | None, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        futures = call.client.admin.list_offsets(
            {WireTopicPartition(at.topic, at.partition): spec for at in partitions},
            isolation_level=isolation,
            request_timeout=call.left_s(),
        )
        found: dict[TopicPartition, int] = {}
        for at, future in futures.items():
            found[TopicPartition(at.topic, at.partition)] = (await call.result(future)).offset
        return found


class _Call:
    """One bounded call: its client, how much time is left, and how its errors are told."""

    def __init__(self, clients: Clients, connection: Connection, timeout_s: float) -> None:
        self._clients = clients
        self.client: Client = clients.of(connection)
        self._begun = time.monotonic()
        self._deadline = self._begun + timeout_s

    def left_s(self) -> float:
        """Seconds that a request may still take; never nothing, for the client refuses that."""
        return max(0.1, self._deadline - time.monotonic())

    async def result(self, future: Future[T], *, absent: Iterable[int] = ()) -> Any:
        """The future's result, or None for the error codes in `absent`. Raises our errors."""
        try:
            async with asyncio.timeout(self.left_s() + 1):
                return await asyncio.wrap_future(future)
        except KafkaException as error:
            cause = cast("KafkaError", error.args[0])
            if cause.code() in absent:
                return None
            raise self.translated(cause) from error
        except TimeoutError as error:
            raise self._unreachable(self.client.complaint() or "it did not answer in time") from error

    async def of_coordinator(self, ask: Callable[[], Future[Any]], *, absent: Iterable[int] = ()) -> Any:
        """The result of a call to a group's coordinator, asked again while the coordinator is on its way."""
        while True:
            try:
                return await asyncio.wrap_future(ask())
            except KafkaException as error:
                code = cast("KafkaError", error.args[0]).code()
                if code in absent:
                    return None
                if code not in _COORDINATOR_MOVES or time.monotonic() > self._deadline:
                    raise self.translated(cast("KafkaError", error.args[0])) from error
            await asyncio.sleep(_COORDINATOR_PAUSE_S)

    async def blocking(self, work: Any) -> Any:
        """The result of a call that blocks, in a thread."""
        try:
            return await asyncio.to_thread(work)
        except KafkaException as error:
            raise self.translated(cast("KafkaError", error.args[0])) from error

    def translated(self, error: KafkaError) -> FencelineError:
        """Our error for the broker's or the client's."""
        if error.code() in _UNREACHABLE or error.code() in _COORDINATOR_MOVES:
            return self._unreachable(self.client.complaint() or error.str() or error.name())
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return NotFoundError(f"a topic or partition is not on the cluster at {self.client.address}: {error.str()}")
        if error.code() in (KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID):
            return ConflictError(f"the consumer group has members: its offsets cannot be moved ({error.str()})")
        return UnavailableError(f"the brokers at {self.client.address} refused: {error.str()}")

    def _unreachable(self, why: str) -> BrokerUnreachableError:
        # A client that was refused waits longer and longer; the next call begins anew.
        self._clients.forget(self.client)
        return BrokerUnreachableError(self.client.address, why, time.monotonic() - self._begun)


def _kafka_word(name: str) -> str:
    """`PREPARING_REBALANCING` as Kafka's own tools spell it: `PreparingRebalancing`."""
    return "".join(part.capitalize() for part in name.split("_"))
