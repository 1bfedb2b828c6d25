"""A cluster, its topics, settings and offsets, asked through librdkafka's admin client."""

# The admin module documents these classes as its own without exporting them by name.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    DescribeClusterResult,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo

from app.domain.clusters.cluster import TopicFacts
from app.domain.errors import UnavailableError
from app.kafka.admin_clients import Admin, error_of
from app.kafka.attempt import Attempt
from app.ports.brokers import Broker, ClusterDescription, PartitionOffsets, TopicPartition

T = TypeVar("T")
Settings = Mapping[str, str]

# Kafka's own list (org.apache.kafka.common.internals.Topic); the flag is not in the answer to a list of all topics.
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero id, as base64."""
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
# Metadata that is a moment old; the next answer will be from the right broker.
_MOVED = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_MOVED_RETRY_S = 0.05


async def describe_cluster(admin: Admin, attempt: Attempt) -> ClusterDescription:
    what = "describe the cluster"
    future = cast("Future[DescribeClusterResult]", admin.client.describe_cluster(request_timeout=attempt.left_s))
    found = _answer(attempt, what, (await admin.answers(attempt, what, {None: future}))[None])
    if not found.cluster_id:
        raise UnavailableError(f"the brokers at {attempt.address} do not say which cluster they are")
    controller = cast("Any", found.controller)
    return ClusterDescription(
        cluster_id=found.cluster_id,
        controller_id=None if controller is None or controller.id < 0 else controller.id,
        brokers=tuple(
            Broker(id=node.id, host=node.host, port=node.port)
            for node in sorted(cast("list[Any]", found.nodes), key=lambda node: node.id)
        ),
    )


async def topic_facts(admin: Admin, attempt: Attempt, topics: Collection[str]) -> dict[str, TopicFacts]:
    """Those that exist and may be seen."""
    if not topics:
        return {}
    what = "describe topics"
    wanted = TopicCollection(sorted(set(topics)))
    described = await admin.answers(
        attempt,
        what,
        cast(
            "dict[str, Future[TopicDescription]]", admin.client.describe_topics(wanted, request_timeout=attempt.left_s)
        ),
    )
    found = {name: topic for name, topic in described.items() if not isinstance(topic, KafkaError)}
    settings = await _settings(admin, attempt, ResourceType.TOPIC, found)
    return {
        name: TopicFacts(
            partitions=len(topic.partitions),
            replication_factor=max((len(cast("list[Any]", p.replicas)) for p in topic.partitions), default=0),
            min_insync_replicas=number(settings.get(name), "min.insync.replicas"),
            retention_ms=number(settings.get(name), "retention.ms"),
            retention_bytes=number(settings.get(name), "retention.bytes"),
            deletes=_deletes(settings.get(name)),
            unclean_leader_election=_is_true(settings.get(name), "unclean.leader.election.enable"),
            topic_id=_topic_id(topic),
        )
        for name, topic in found.items()
    }


async def broker_settings(admin: Admin, attempt: Attempt, broker_ids: Collection[int]) -> dict[int, Settings]:
    """Of each broker that answers: in a request with several, librdkafka takes one broker only."""
    # Half of the time: a broker that is away but still in the metadata must not use up that of the other questions.
    half = attempt.half()
    found = await asyncio.gather(
        *(_settings(admin, half, ResourceType.BROKER, [str(broker_id)]) for broker_id in broker_ids),
        return_exceptions=True,
    )
    answered: dict[int, Settings] = {}
    for broker_id, settings in zip(broker_ids, found, strict=True):
        if isinstance(settings, dict):
            answered.update((broker_id, one) for one in settings.values())
        elif not isinstance(settings, UnavailableError):
            raise settings
    return answered


async def all_topics(admin: Admin, attempt: Attempt) -> dict[str, TopicFacts]:
    """Every topic that is not internal, by name, without its configuration."""
    try:
        # The only question that librdkafka answers without a future.
        listed: ClusterMetadata = await asyncio.to_thread(admin.client.list_topics, timeout=attempt.left_s)
    except KafkaException as error:
        raise attempt.failure(
            "list topics", error_of(error), connection_error=admin.connection_error(attempt)
        ) from error
    return {
        name: TopicFacts(
            partitions=len(topic.partitions),
            replication_factor=max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
        )
        for name, topic in sorted(listed.topics.items())
        if topic.error is None and name not in _INTERNAL_TOPICS
    }


async def offsets(
    admin: Admin, attempt: Attempt, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionOffsets]:
    # In turn, the high watermark first: what lies between the two is behind an open transaction then (ADR 0078).
    earliest, high_watermark = await asyncio.gather(
        _list_offsets(admin, attempt, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
        _list_offsets(admin, attempt, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    )
    last_stable = await _list_offsets(admin, attempt, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    return {
        at: PartitionOffsets(
            earliest=earliest[at],
            last_stable=last_stable[at],
            # What was written between the answers is read by everybody.
            high_watermark=max(high_watermark[at], last_stable[at]),
        )
        for at in earliest
    }


async def offsets_at(
    admin: Admin, attempt: Attempt, partitions: Collection[TopicPartition], *, timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The first offset at or after the timestamp, or the last stable one, as a read_committed reader sees them."""
    # Below zero Kafka understands names: -1 is the end, -2 the beginning.
    spec = OffsetSpec.for_timestamp(max(0, timestamp_ms))
    found, end = await asyncio.gather(
        _list_offsets(admin, attempt, partitions, spec, IsolationLevel.READ_COMMITTED),
        _list_offsets(admin, attempt, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
    )
    return {at: offset if offset >= 0 else end[at] for at, offset in found.items()}


async def _settings(admin: Admin, attempt: Attempt, kind: ResourceType, names: Iterable[str]) -> dict[str, Settings]:
    """By name; without those that may not be read."""
    resources = [ConfigResource(kind, name) for name in names]
    if not resources:
        return {}
    futures = cast(
        "dict[ConfigResource, Future[dict[str, ConfigEntry]]]",
        admin.client.describe_configs(resources, request_timeout=attempt.left_s),
    )
    answers = await admin.answers(attempt, "tell settings", futures)
    return {
        resource.name: {name: entry.value for name, entry in settings.items() if entry.value is not None}
        for resource, settings in answers.items()
        if not isinstance(settings, KafkaError)
    }


async def _list_offsets(
    admin: Admin,
    attempt: Attempt,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec | None,
    isolation: IsolationLevel,
) -> dict[TopicPartition, int]:
    """-1 where a timestamp is after the last record."""
    what = "tell the offsets of a partition"
    wanted = {ClientPartition(*at): spec for at in partitions}
    while wanted:
        call = admin.client.list_offsets(wanted, request_timeout=attempt.left_s, isolation_level=isolation)
        futures = cast("dict[ClientPartition, Future[ListOffsetsResultInfo]]", call)
        answers = await admin.answers(attempt, what, futures)
        has_moved = any(isinstance(found, KafkaError) and found.code() in _MOVED for found in answers.values())
        if not has_moved or attempt.is_over:
            return {
                TopicPartition(at.topic, at.partition): _answer(
                    attempt, f"tell the offsets of {at.topic}-{at.partition}", found
                ).offset
                for at, found in answers.items()
            }
        await asyncio.sleep(_MOVED_RETRY_S)
    return {}


def _answer(attempt: Attempt, what: str, found: T | KafkaError) -> T:
    if isinstance(found, KafkaError):
        raise attempt.failure(what, found, connection_error=None)
    return found


def _deletes(settings: Settings | None) -> bool | None:
    """Whether a topic loses old records; None where it is not told."""
    policy = None if settings is None else settings.get("cleanup.policy")
    return None if policy is None else "delete" in [word.strip() for word in policy.split(",")]


def _is_true(settings: Settings | None, name: str) -> bool | None:
    """A setting that is on or off; None where it is not told."""
    value = None if settings is None else settings.get(name)
    return None if value is None else value == "true"


def _topic_id(topic: Any) -> str | None:
    """None from brokers that know topics by name only."""
    said = str(topic.topic_id)
    return None if said == _NO_TOPIC_ID else said


def number(settings: Settings | None, name: str) -> int | None:
    """A numeric setting; None where it is not told."""
    value = None if settings is None else settings.get(name)
    return int(value) if value is not None and value.lstrip("-").isdigit() else None
