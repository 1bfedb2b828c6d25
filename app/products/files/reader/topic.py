"""A sink topic for readers of committed references, by librdkafka."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, cast

import msgspec
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    DescribeClusterResult,  # pyright: ignore[reportPrivateImportUsage]
    ListOffsetsResultInfo,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.products.files.reader.errors import ReferencesUnreadableError

Offsets = Mapping[int, int]
"""By partition."""

_ANSWER_S = 20.0
_STALL_S = 30.0
_BATCH = 1_000
_POLL_S = 0.1
_MAX_TIMEOUT = "transaction.max.timeout.ms"
_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes are public
_FINAL = frozenset(
    {
        # Records were deleted before they were read, so the rest is not complete.
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._BAD_MSG,  # noqa: SLF001
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)


class ReferenceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a sink topic; `timestamp_ms` None: it has no timestamp."""

    partition: int
    offset: int
    timestamp_ms: int | None
    value: bytes | None


class Topic:
    """One sink topic of one cluster. It joins no group, commits nothing and writes nothing. Close it after use.

    Args:
        client_config: librdkafka settings, with secrets resolved.

    Its methods raise ReferencesUnreadableError if the brokers do not answer.
    """

    def __init__(self, name: str, client_config: Mapping[str, Any], *, stall_s: float = _STALL_S) -> None:
        self.name = name
        self._client_config: dict[str, Any] = {
            "log_level": 0,
            **client_config,
            "client.id": "fenceline-files",
            **NEVER_CREATE_TOPICS,
        }
        self._stall_s = stall_s
        with self._asked("the connection"):
            # Its answers are untyped futures; each has a cast where it is used.
            self._admin: Any = AdminClient(self._client_config)

    def close(self) -> None:
        # Closed explicitly, since the garbage collector may run on the client's own thread.
        self._admin.__exit__(None, None, None)

    def partitions(self) -> tuple[int, ...]:
        with self._asked("its partitions"):
            metadata = cast(ClusterMetadata, self._admin.list_topics(self.name, timeout=_ANSWER_S))
        found = metadata.topics[self.name]
        if found.error is not None:
            raise self._unreadable(found.error.str())
        return tuple(sorted(found.partitions))

    def begins(self) -> Offsets:
        """Return the log start offsets."""
        return self._offsets(OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)

    def ends(self) -> Offsets:
        """Return the high watermarks, after all records of open transactions too."""
        return self._offsets(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def last_stable(self) -> Offsets:
        """Return the last stable offsets, below which every transaction is complete."""
        return self._offsets(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def at_time(self, at_ms: int) -> Offsets:
        """Return the first offsets with this timestamp or a later one, else the last stable offsets."""
        found = self._offsets(OffsetSpec.for_timestamp(max(0, at_ms)), IsolationLevel.READ_COMMITTED)
        end = self.last_stable()
        return {partition: end[partition] if offset < 0 else offset for partition, offset in found.items()}

    def require_cluster(self, name: str, kafka_cluster_id: str) -> None:
        """Raise ReferencesUnreadableError if another cluster answers than the registered one.

        It may have a topic of this name, such as a staging or mirror cluster. Files without a reference there are no
        orphans.
        """
        found = self._described().cluster_id
        if found is not None and found != kafka_cluster_id:
            raise self._unreadable(
                f"the cluster at the address of {name} has the id {found}, but {name} is registered with "
                f"{kafka_cluster_id}"
            )

    def _described(self) -> DescribeClusterResult:
        with self._asked("the brokers of the cluster"):
            future = cast("Future[DescribeClusterResult]", self._admin.describe_cluster(request_timeout=_ANSWER_S))
            return future.result(_ANSWER_S)

    def transaction_max_timeout_ms(self) -> int:
        """Return the longest transaction timeout that any broker allows."""
        nodes = cast("list[Any]", self._described().nodes)
        values: list[int] = []
        for node in nodes:
            # A request of librdkafka has at most one broker.
            resource = ConfigResource(ResourceType.BROKER, str(node.id))
            with self._asked(f"{_MAX_TIMEOUT} of broker {node.id}"):
                futures = cast(
                    "dict[ConfigResource, Future[dict[str, ConfigEntry]]]",
                    self._admin.describe_configs([resource], request_timeout=_ANSWER_S),
                )
                entry = futures[resource].result(_ANSWER_S).get(_MAX_TIMEOUT)
            if entry is None or not str(entry.value).isdigit():
                raise self._unreadable(f"broker {node.id} does not report {_MAX_TIMEOUT}")
            values.append(int(str(entry.value)))
        if not values:
            raise self._unreadable("the cluster has no broker")
        return max(values)

    def committed(self, start: Offsets, end: Offsets) -> Iterator[ReferenceRecord]:
        """Return records of committed transactions from `start` up to `end`, partition by partition.

        `end` must not exceed the last stable offset: records of open transactions are not returned, and waiting for
        them fails after the stall time.
        """
        yield from self._read(start, end, isolation="read_committed")

    def record_at(self, partition: int, offset: int) -> ReferenceRecord | None:
        """Return the first record from this offset on, committed or not; None: there is none."""
        end = self.ends()[partition]
        if offset >= end:
            return None
        reading = self._read({partition: offset}, {partition: end}, isolation="read_uncommitted")
        try:
            return next(reading, None)
        finally:
            reading.close()

    def _read(self, start: Offsets, end: Offsets, *, isolation: str) -> Generator[ReferenceRecord]:
        consumer = Consumer(
            {
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
                "queued.max.messages.kbytes": 16_384,
                **self._client_config,
                # The client requires one, but joins no group.
                "group.id": "fenceline-files",
                "isolation.level": isolation,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
            }
        )
        try:
            for partition in sorted(end):
                yield from self._read_partition(consumer, partition, start[partition], end[partition])
        finally:
            consumer.close()

    def _read_partition(self, consumer: Consumer, partition: int, start: int, end: int) -> Iterator[ReferenceRecord]:
        """Read up to `end`, which a later record or the end of the partition confirms."""
        if start >= end:
            return
        consumer.assign([TopicPartition(self.name, partition, start)])
        position, moved_at, said = start, time.monotonic(), "no records from the brokers"
        while position < end:
            before = position
            for message in consumer.consume(_BATCH, timeout=_POLL_S):
                if message.partition() != partition:
                    # Fetched before the assignment was changed.
                    continue
                error = message.error()
                offset = message.offset() or 0
                if error is None:
                    if offset < end:
                        yield _record(message, partition, offset)
                    position = max(position, offset + 1)
                elif error.code() == _EOF:
                    position = max(position, offset)
                elif error.code() in _FINAL:
                    raise self._unreadable(f"partition {partition} at offset {position}: {error.str()}")
                else:
                    said = error.str()
            if position > before:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > self._stall_s:
                raise self._unreadable(f"partition {partition} at offset {position}: {said} for {self._stall_s:g} s")

    def _offsets(self, spec: OffsetSpec | None, isolation: IsolationLevel) -> Offsets:
        wanted = {TopicPartition(self.name, partition): spec for partition in self.partitions()}
        with self._asked("its offsets"):
            futures = cast(
                "dict[TopicPartition, Future[ListOffsetsResultInfo]]",
                self._admin.list_offsets(wanted, request_timeout=_ANSWER_S, isolation_level=isolation),
            )
            return {at.partition: future.result(_ANSWER_S).offset for at, future in futures.items()}

    @contextlib.contextmanager
    def _asked(self, what: str) -> Generator[None]:
        try:
            yield
        except KafkaException as exception:
            raise self._unreadable(f"the brokers did not report {what}: {exception.args[0].str()}") from exception
        except TimeoutError as error:
            raise self._unreadable(f"the brokers did not report {what} within {_ANSWER_S:g} s") from error

    def _unreadable(self, why: str) -> ReferencesUnreadableError:
        return ReferencesUnreadableError(f"the references in {self.name} cannot be read: {why}")


def _record(message: Message, partition: int, offset: int) -> ReferenceRecord:
    kind, timestamp_ms = message.timestamp()
    value = message.value()
    return ReferenceRecord(
        partition=partition,
        offset=offset,
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        value=value,
    )
