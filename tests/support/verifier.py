"""An independent judge of a pipeline: reads source, sink and group with its own consumers, and counts.

It shares no code with the loop. For an exactly-once pipeline that was drained it must find:
  every expected id is in the sink under read_committed, once;
  ids of one source partition keep their order within a sink partition;
  the group's committed offsets are the ends of the source;
  nothing is open: the last stable offset of the sink is its high watermark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from tests.support.quiet import QUIET
from tests.support.waiting import wait_for

READ_COMMITTED = IsolationLevel.READ_COMMITTED
READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
_TIMEOUT_S = 30.0
_COORDINATOR_MOVES = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)


Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Found:
    """One record of the sink."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list[tuple[str, bytes | None]])
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings, compared with the expectation."""

    expected: int
    found: int
    lost: tuple[str, ...]
    duplicated: tuple[str, ...]
    unexpected: tuple[str, ...]
    out_of_order: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected or self.out_of_order)

    def __str__(self) -> str:
        def some(ids: tuple[str, ...]) -> str:
            return f"{len(ids)}" + (f" (such as {', '.join(ids[:5])})" if ids else "")

        return (
            f"expected {self.expected}, found {self.found}: lost {some(self.lost)}, "
            f"duplicated {some(self.duplicated)}, unexpected {some(self.unexpected)}, "
            f"out of order {some(self.out_of_order)}"
        )


def make_id(partition: int, sequence: int) -> str:
    """An id that says where in the source its record is, so that order can be judged from the sink alone."""
    return f"{partition}:{sequence:08d}"


def id_of(value: bytes | None) -> str:
    """The id at the beginning of a value, up to the first space."""
    return (value or b"").partition(b" ")[0].decode()


def audit(found: Iterable[Found], expected: Iterable[str], *, id_of: Callable[[bytes | None], str] = id_of) -> Audit:
    """Compare the ids in `found` with `expected`, as multisets and in order."""
    wanted = set(expected)
    times: Counter[str] = Counter()
    last: defaultdict[tuple[int, str], str] = defaultdict(str)
    out_of_order: list[str] = []
    for record in found:
        identity = id_of(record.value)
        times[identity] += 1
        stream = (record.partition, identity.partition(":")[0])
        if identity < last[stream]:
            out_of_order.append(identity)
        last[stream] = max(identity, last[stream])
    return Audit(
        expected=len(wanted),
        found=times.total(),
        lost=tuple(sorted(wanted - set(times))),
        duplicated=tuple(sorted(identity for identity, count in times.items() if count > 1)),
        unexpected=tuple(sorted(set(times) - wanted)),
        # A duplicate necessarily comes late; it is named once, as a duplicate.
        out_of_order=tuple(identity for identity in out_of_order if times[identity] == 1),
    )


def read_all(
    bootstrap_servers: str,
    topic: str,
    *,
    isolation: str = "read_committed",
    headers_of: Callable[[Message], Headers] | None = None,
) -> list[Found]:
    """Every record of the topic up to its end of now, partition by partition in order.

    headers_of: for records whose header names confluent-kafka cannot read.
    """
    level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    ends = end_offsets(bootstrap_servers, topic, level)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            **QUIET,
            "group.id": "verifier",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 20,
        }
    )
    found: list[Found] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])

        def is_read_through() -> bool:
            for message in consumer.consume(5_000, 0.05):
                error = message.error()
                assert error is None, error
                found.append(
                    Found(
                        message.partition() or 0,
                        message.offset() or 0,
                        message.key(),
                        message.value(),
                        (headers_of or _headers)(message),
                        message.timestamp()[1],
                    )
                )
            reached = consumer.position([TopicPartition(topic, partition) for partition in ends])
            return all(entry.offset >= ends[entry.partition] for entry in reached if ends[entry.partition] > 0)

        wait_for(is_read_through, _TIMEOUT_S, lambda: f"the end of {topic} at {ends}, read {len(found)} records")
    finally:
        consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


def read_decided(bootstrap_servers: str, topic: str) -> list[Found]:
    """Every committed record, once no transaction is open there."""
    wait_until_decided(bootstrap_servers, topic)
    return read_all(bootstrap_servers, topic)


def wait_until_decided(bootstrap_servers: str, topic: str) -> None:
    """Wait for the markers: a coordinator answers the end of a transaction first, then writes them topic by topic."""
    wait_for(lambda: not has_open_transaction(bootstrap_servers, topic), _TIMEOUT_S, f"the markers of {topic}")


def end_offsets(bootstrap_servers: str, topic: str, level: IsolationLevel) -> dict[int, int]:
    """Last stable offset (read_committed) or high watermark (read_uncommitted) of each partition."""
    admin = _admin(bootstrap_servers)
    numbers = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in numbers}
    answers = admin.list_offsets(wanted, isolation_level=level)
    return {entry.partition: answer.result(_TIMEOUT_S).offset for entry, answer in answers.items()}


def has_open_transaction(bootstrap_servers: str, topic: str) -> bool:
    """True while some partition of the topic has a transaction that is not decided."""
    stable = end_offsets(bootstrap_servers, topic, IsolationLevel.READ_COMMITTED)
    return stable != end_offsets(bootstrap_servers, topic, IsolationLevel.READ_UNCOMMITTED)


def committed_offsets(bootstrap_servers: str, group: str) -> dict[tuple[str, int], int]:
    """The group's committed offsets, for any topic; partitions without a commit are absent.

    Not by AdminClient.list_consumer_group_offsets: while a coordinator moves or loads, that call ends the process.
    librdkafka 2.16.0 asks the handle's consumer group to search it again, and an admin handle has none.
    """
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, **QUIET, "group.id": group}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        topics = consumer.list_topics(timeout=_TIMEOUT_S).topics
        wanted = [TopicPartition(topic, number) for topic in topics for number in topics[topic].partitions]
        found = _committed(consumer, wanted)
    finally:
        consumer.close()
    return {(entry.topic, entry.partition): entry.offset for entry in found if entry.offset >= 0}


def _committed(consumer: Consumer, wanted: list[TopicPartition]) -> list[TopicPartition]:
    """Asked again while the group's coordinator moves: what a group has committed is not known then."""
    found: list[TopicPartition] | None = None

    def is_told() -> bool:
        nonlocal found
        try:
            found = consumer.committed(wanted, _TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_MOVES:
                raise
        return found is not None

    wait_for(is_told, _TIMEOUT_S, "a coordinator of the group")
    assert found is not None
    return found


def group_members(bootstrap_servers: str, group: str) -> int:
    """How many members the group has now."""
    admin = _admin(bootstrap_servers)
    return len(admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S).members)


def _admin(bootstrap_servers: str) -> Any:
    # The admin client's answers are futures of nothing in particular: there is no type to keep.
    return AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})


def _headers(message: Message) -> Headers:
    headers: Any = message.headers() or []
    return list(headers)
