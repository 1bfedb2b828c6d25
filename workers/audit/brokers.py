"""The requests of an audit to the cluster, by librdkafka."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ListOffsetsResultInfo,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.core.clusters.partition import Partition
from app.products.audits.result import AuditSide
from workers.audit.cluster import TopicSettings
from workers.audit.collecting import timestamp_of
from workers.audit.reading import AuditReadError, committed_records, reader
from workers.audit.references import partition_name
from workers.audit.splits import Split

_ANSWER_S = 20.0
_TIME_STALL_S = 20.0


class ClusterBrokers:
    """The port `cluster.Brokers`; `client_config` has its secrets resolved."""

    def __init__(self, client_config: Mapping[str, str], *, audit_id: str) -> None:
        self._client_config = client_config
        self._audit_id = audit_id
        # Its answers are futures without a type; each is named where it is used.
        self._admin: Any = AdminClient(
            {**client_config, **NEVER_CREATE_TOPICS, "client.id": f"fenceline-audit-{audit_id}"}
        )

    def partitions(self, topic: str) -> Sequence[int]:
        with _asked(f"the partitions of {topic}"):
            metadata = cast(ClusterMetadata, self._admin.list_topics(topic, timeout=_ANSWER_S))
        found = metadata.topics[topic]
        return () if found.error is not None else tuple(found.partitions)

    def settings(self, topic: str) -> TopicSettings | None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            futures = cast(
                "dict[ConfigResource, Future[dict[str, ConfigEntry]]]",
                self._admin.describe_configs([resource], request_timeout=_ANSWER_S),
            )
            entries = futures[resource].result(_ANSWER_S)
        except (KafkaException, TimeoutError):
            return None
        policy: Any = entries["cleanup.policy"].value
        time: Any = entries["message.timestamp.type"].value
        return TopicSettings(is_compacted="compact" in str(policy), has_append_time=str(time) == "LogAppendTime")

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> Mapping[Partition, int | None]:
        # Not by the AdminClient: it ends the process while a coordinator moves. Uncommitted: pending offsets are not
        # waited for, and not in the answer either.
        consumer = Consumer(
            {
                **self._client_config,
                "client.id": f"fenceline-audit-{self._audit_id}",
                "group.id": group_id,
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
            }
        )
        try:
            with _asked(f"the committed offsets of the group {group_id}"):
                found = consumer.committed([TopicPartition(*at) for at in partitions], timeout=_ANSWER_S)
        finally:
            consumer.close()
        for one in found:
            if one.error is not None:
                where = partition_name(one.topic, one.partition)
                raise AuditReadError(
                    f"the brokers did not report the committed offset of {group_id} for {where}: {one.error.str()}"
                )
        return {Partition(one.topic, one.partition): one.offset if one.offset >= 0 else None for one in found}

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return self._offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)

    def last_stable(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def high_watermarks(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def at_time(self, partitions: Iterable[Partition], at_ms: int) -> Mapping[Partition, int | None]:
        found = self._offsets(partitions, OffsetSpec.for_timestamp(at_ms), IsolationLevel.READ_UNCOMMITTED)
        return {at: offset if offset >= 0 else None for at, offset in found.items()}

    def time_at(self, partition: Partition, offset: int) -> int | None:
        topic, number = partition
        end = self.last_stable([partition])[partition]
        if offset >= end:
            return None
        split = Split(
            number=0,
            side=AuditSide.SOURCE,
            topic=topic,
            partition=number,
            start=offset,
            end=end,
            window_start=offset,
            window_end=end,
        )
        with reader(self._client_config, audit_id=self._audit_id) as consumer:
            for batch in committed_records(consumer, split, stall_s=_TIME_STALL_S, deleted=lambda _start, _end: None):
                return timestamp_of(batch[0])
        return None

    def _offsets(
        self, partitions: Iterable[Partition], spec: OffsetSpec | None, isolation: IsolationLevel
    ) -> dict[Partition, int]:
        wanted = {TopicPartition(*at): spec for at in partitions}
        if not wanted:
            return {}
        with _asked("the offsets of partitions"):
            futures = cast(
                "dict[TopicPartition, Future[ListOffsetsResultInfo]]",
                self._admin.list_offsets(wanted, request_timeout=_ANSWER_S, isolation_level=isolation),
            )
            return {
                Partition(at.topic, at.partition): future.result(_ANSWER_S).offset for at, future in futures.items()
            }


@contextlib.contextmanager
def _asked(what: str) -> Generator[None]:
    try:
        yield
    except KafkaException as exception:
        raise AuditReadError(f"the brokers did not report {what}: {exception.args[0].str()}") from exception
    except TimeoutError as error:
        raise AuditReadError(f"the brokers did not report {what} within {_ANSWER_S:g} s") from error
