"""Ask a cluster for its topics, settings and offsets by raw requests.

librdkafka's admin client would end the whole process on an unexpected answer. A Metadata answer without a cluster id
is one (confluent-kafka 2.16.1, `describe_cluster`), and any listener registered as a broker may send it. In such a
case, kafka-python raises an exception.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from kafka.protocol.admin import DescribeConfigsRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.admin.cluster import DescribeLogDirsRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.metadata.metadata import MetadataRequest  # pyright: ignore[reportMissingTypeStubs]

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Broker, ClusterDescription, LiveTopic, PartitionOffsets
from app.core.clusters.cluster import TopicFacts
from app.core.clusters.partition import Partition
from app.core.clusters.topic import SETTINGS, ActiveProducer, DescribedPartition, ListedTopic, TopicDescription
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.group_client import GroupClient
from app.edges.kafka.kept_clients import KeptClients
from app.edges.kafka.raw_client import errors, failure, is_transient, reading_answers
from app.edges.kafka.raw_fetch import LATEST, FetchIsolation
from app.edges.kafka.topic_details import KnownDetails, TopicDetails
from app.edges.kafka.transactions.asking import error_in, error_of_answer
from app.edges.kafka.transactions.leaders import LeaderClient, Leaders
from app.edges.kafka.transactions.questions import DESCRIBE_LOG_DIRS
from app.kit.errors import UnavailableError

T = TypeVar("T")
Settings = Mapping[str, str]

_RETRY_S = 0.1
_TOPIC, _BROKER = 2, 4
_CONFIGS_VERSION = 1
_METADATA_VERSION = 12
"""Answers have topic ids from version 10 on."""
_NAMES_VERSION = 9
"""A list of all topics needs no ids; they take much of its time."""

_Metadata: Any = MetadataRequest
_Configs: Any = DescribeConfigsRequest
_LogDirs: Any = DescribeLogDirsRequest
_LOG_DIRS_VERSION = 3
"""It names a refusal; answers of earlier versions are empty then."""


def ask(
    resolved: Settings,
    attempt: ConnectionAttempt,
    what: str,
    question: Callable[[ClusterClient], T],
    clients: KeptClients[ClusterClient] | None = None,
) -> T:
    """Return the answer to a question, with retries while brokers are not ready. Blocks.

    clients: those to use again; None: a client for this question only.

    Raises BrokerUnreachableError, UnavailableError with the refusal, and the question's own Fenceline errors.
    """
    while True:
        try:
            with (
                ClusterClient(resolved, attempt) if clients is None else clients.client(resolved, attempt) as client,
                reading_answers(),
            ):
                return question(client)
        except errors.KafkaError as error:
            if not is_transient(error) or attempt.left_s <= _RETRY_S:
                raise failure(attempt, what, error) from error
        time.sleep(_RETRY_S)


class ClusterClient(LeaderClient, GroupClient):
    """A connection to the cluster; a context manager. Its methods block."""

    def cluster(self) -> ClusterDescription:
        answer = self._metadata([])
        if not answer.cluster_id:
            raise UnavailableError(f"the brokers at {self._attempt.address} do not say which cluster they are")
        return ClusterDescription(
            cluster_id=str(answer.cluster_id),
            controller_id=None if answer.controller_id < 0 else answer.controller_id,
            brokers=tuple(
                Broker(id=node.node_id, host=node.host, port=node.port)
                for node in sorted(answer.brokers, key=lambda node: node.node_id)
            ),
        )

    def topic_facts(self, topics: Collection[str]) -> dict[str, TopicFacts]:
        """Return the existing topics that this client may describe."""
        if not topics:
            return {}
        found = [topic for topic in self._metadata(sorted(set(topics))).topics if topic.error_code == 0]
        settings = self._topic_settings([topic.name for topic in found])
        return {topic.name: _topic_facts(topic, settings.get(topic.name)) for topic in found}

    def broker_settings(self, broker_ids: Collection[int]) -> dict[int, Settings]:
        """Return the settings of each broker that answers, as each knows only its own."""
        requests = {number: _configs(_BROKER, [str(number)]) for number in broker_ids}
        return {
            number: settings
            for number, answer in self._from_each(requests).items()
            if not isinstance(answer, Exception)
            for settings in _settings(answer).values()
        }

    def all_topics(self) -> dict[str, TopicFacts]:
        """Return every topic that is not internal, by name, without its configuration."""
        return {
            topic.name: _topic_facts(topic, None)
            for topic in sorted(self._metadata(None).topics, key=lambda topic: topic.name)
            if topic.error_code == 0 and not topic.is_internal
        }

    def listed_topics(self) -> tuple[ListedTopic, ...]:
        """Return every topic, internal ones too, by name."""
        return tuple(
            ListedTopic(
                topic.name,
                len(topic.partitions),
                max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
                bool(topic.is_internal),
            )
            for topic in sorted(self._metadata(None).topics, key=lambda topic: topic.name)
            if topic.error_code == 0
        )

    def described_topics(
        self, topics: Collection[str], known: KnownDetails | None = None
    ) -> dict[str, TopicDescription]:
        """Return the existing topics that this client may describe, with settings and sizes as far as it may.

        known: settings and sizes of a moment ago, for topics that were described then; None: ask for all.
        """
        if not topics:
            return {}
        found = {topic.name: topic for topic in self._metadata(sorted(set(topics))).topics if topic.error_code == 0}
        ids = {name: _topic_id(topic) or "" for name, topic in found.items()}
        kept = {} if known is None else known.of(self._resolved, ids.values())
        # A topic with new partitions has no size of them yet.
        details = {
            name: its
            for name, topic in found.items()
            if (its := kept.get(ids[name])) is not None and len(its.sizes) == len(topic.partitions)
        }
        for name, its in self._details([found[name] for name in found.keys() - details.keys()]).items():
            details[name] = its
            if known is not None and ids[name]:
                known.keep(self._resolved, ids[name], its)
        return {name: _described(topic, details[name]) for name, topic in found.items()}

    def live_topic(self, topic: str, known: KnownDetails | None = None) -> LiveTopic | None:
        description = self.described_topics([topic], known).get(topic)
        if description is None:
            return None
        partitions = [Partition(topic, one.number) for one in description.partitions]
        leaders = {topic: {one.number: -1 if one.leader is None else one.leader for one in description.partitions}}
        offsets = self.offsets_of_each(partitions, leaders)
        return LiveTopic(description, offsets, *self._active_producers(partitions, leaders))

    def _details(self, topics: Collection[Any]) -> dict[str, TopicDetails]:
        settings = self._topic_settings([topic.name for topic in topics])
        sizes, note = self._sizes(topics)
        found: dict[str, TopicDetails] = {}
        for topic in topics:
            at = [Partition(topic.name, part.partition_index) for part in topic.partitions]
            its = {one: sizes[one] for one in at if one in sizes}
            why = "" if len(its) == len(at) else note or "the leaders do not report the size of each log"
            found[topic.name] = TopicDetails(settings.get(topic.name), its, why)
        return found

    def _active_producers(
        self, partitions: Collection[Partition], leaders: Leaders
    ) -> tuple[tuple[ActiveProducer, ...], tuple[Refused, ...]]:
        found: dict[int, ActiveProducer] = {}
        refused: list[Refused] = []
        for answer in self.producers(partitions, leaders).values():
            if isinstance(answer, Refused):
                refused.append(answer)
                continue
            for row in answer:
                known = found.get(row.producer_id)
                since = row.start_offset if row.start_offset >= 0 else None
                found[row.producer_id] = ActiveProducer(
                    producer_id=row.producer_id,
                    producer_epoch=max(row.producer_epoch, -1 if known is None else known.producer_epoch),
                    partitions=1 if known is None else known.partitions + 1,
                    last_ms=max(row.last_ms, -1 if known is None else known.last_ms),
                    open_since=since if since is not None or known is None else known.open_since,
                )
        return tuple(sorted(found.values(), key=lambda one: (-one.last_ms, one.producer_id))), tuple(refused)

    def _sizes(self, topics: Iterable[Any]) -> tuple[dict[Partition, int], str]:
        """Return the size of each leader's log, and why some are missing."""
        led: dict[int, dict[str, list[int]]] = {}
        for topic in topics:
            for part in topic.partitions:
                if part.leader_id >= 0:
                    led.setdefault(part.leader_id, {}).setdefault(topic.name, []).append(part.partition_index)
        of_topic = _LogDirs.DescribableLogDirTopic
        requests = {
            broker: _LogDirs(
                topics=[of_topic(topic=name, partitions=numbers) for name, numbers in by_topic.items()],
                max_version=_LOG_DIRS_VERSION,
            )
            for broker, by_topic in led.items()
        }
        sizes: dict[Partition, int] = {}
        note = ""
        for broker, answer in self._from_each(requests).items():
            if (error := error_of_answer(answer)) is not None:
                note = DESCRIBE_LOG_DIRS.refused(f"broker {broker}", error).sentence
            for folder in () if isinstance(answer, Exception) else answer.results:
                for topic in folder.topics:
                    for part in topic.partitions:
                        if not part.is_future_key:
                            sizes[Partition(topic.name, part.partition_index)] = int(part.partition_size)
        return sizes, note

    def offsets(self, partitions: Collection[Partition]) -> dict[Partition, PartitionOffsets]:
        return self._told(self.offsets_of_each(partitions))

    def offsets_of_each(
        self, partitions: Collection[Partition], leaders: Leaders | None = None
    ) -> dict[Partition, PartitionOffsets | Refused]:
        return {
            at: ends
            if isinstance(ends, Refused)
            else PartitionOffsets(
                earliest=ends.earliest, last_stable=ends.last_stable, high_watermark=ends.high_watermark
            )
            for at, ends in self.ends(partitions, leaders).items()
        }

    def offsets_at(self, partitions: Collection[Partition], *, timestamp_ms: int) -> dict[Partition, int]:
        """Return the first offset at or after the timestamp, or the last stable one."""
        # Negative timestamps are names in Kafka: -1 is the end, -2 the beginning.
        at_time = self._offsets(partitions, max(0, timestamp_ms), FetchIsolation.READ_COMMITTED)
        end = self._told(self._offsets(partitions, LATEST, FetchIsolation.READ_COMMITTED))
        return {at: offset if offset >= 0 else end[at] for at, offset in self._told(at_time).items()}

    def _told(self, answers: Mapping[Partition, T | Refused]) -> dict[Partition, T]:
        """Return all of them, or raise UnavailableError with the first refusal."""
        found: dict[Partition, T] = {}
        for at, answer in answers.items():
            if isinstance(answer, Refused):
                raise self._attempt.refused(f"return the offsets of {at}", answer.error)
            found[at] = answer
        return found

    def _metadata(self, topics: Collection[str] | None) -> Any:
        """Request all topics for None, without their ids. Creates none of them."""
        named = None if topics is None else [_Metadata.MetadataRequestTopic(name=name) for name in topics]
        version = _NAMES_VERSION if topics is None else _METADATA_VERSION
        return self._ask_any(_Metadata(topics=named, allow_auto_topic_creation=False, max_version=version))

    def _topic_settings(self, names: Collection[str]) -> dict[str, Settings]:
        """Return those of SETTINGS by name, without topics that this client may not describe."""
        return _settings(self._ask_any(_configs(_TOPIC, names, [*SETTINGS]))) if names else {}


def _configs(kind: int, names: Collection[str], settings: Collection[str] | None = None) -> Any:
    """settings: the wanted ones; None: all."""
    resource = _Configs.DescribeConfigsResource
    resources = [resource(resource_type=kind, resource_name=name, configuration_keys=settings) for name in names]
    return _Configs(resources=resources, max_version=_CONFIGS_VERSION)


def _settings(answer: Any) -> dict[str, Settings]:
    """Return settings by topic or broker, without refused ones. Secret settings have no value."""
    return {
        result.resource_name: {one.name: one.value for one in result.configs if one.value is not None}
        for result in answer.results
        if error_in(result.error_code) is None
    }


def _topic_facts(topic: Any, settings: Settings | None) -> TopicFacts:
    return TopicFacts(
        partitions=len(topic.partitions),
        replication_factor=max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
        min_insync_replicas=number(settings, "min.insync.replicas"),
        retention_ms=number(settings, "retention.ms"),
        retention_bytes=number(settings, "retention.bytes"),
        deletes=_cleans_by("delete", settings),
        compacts=_cleans_by("compact", settings),
        unclean_leader_election=_is_true(settings, "unclean.leader.election.enable"),
        topic_id=_topic_id(topic),
    )


def _described(topic: Any, details: TopicDetails) -> TopicDescription:
    partitions = tuple(
        DescribedPartition(
            number=part.partition_index,
            leader=None if part.leader_id < 0 else part.leader_id,
            replicas=tuple(part.replica_nodes),
            in_sync=tuple(part.isr_nodes),
            size_bytes=details.sizes.get(Partition(topic.name, part.partition_index)),
        )
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    )
    settings = details.settings
    return TopicDescription(
        name=topic.name,
        is_internal=bool(topic.is_internal),
        facts=_topic_facts(topic, settings),
        partitions=partitions,
        settings=None if settings is None else {name: settings[name] for name in SETTINGS if name in settings},
        size_note=details.note,
    )


def _is_true(settings: Settings | None, name: str) -> bool | None:
    """Return a boolean setting; None if it is not reported."""
    value = None if settings is None else settings.get(name)
    return None if value is None else value == "true"


def _topic_id(topic: Any) -> str | None:
    """Format the id as librdkafka, which the workers report; None from brokers that know topics by name only."""
    said: UUID | None = getattr(topic, "topic_id", None)
    return None if said is None or not said.int else urlsafe_b64encode(said.bytes).rstrip(b"=").decode()


def _cleans_by(policy_name: str, settings: Settings | None) -> bool | None:
    """Return whether a topic's `cleanup.policy` includes it; None if it is not reported."""
    policy = None if settings is None else settings.get("cleanup.policy")
    return None if policy is None else policy_name in [word.strip() for word in policy.split(",")]


def number(settings: Settings | None, name: str) -> int | None:
    """Return a numeric setting; None if it is not reported."""
    value = None if settings is None else settings.get(name)
    # 64 bits have 19 digits; Python refuses to read thousands of them.
    return int(value) if value is not None and len(value) <= 20 and value.removeprefix("-").isdecimal() else None
