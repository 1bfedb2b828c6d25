"""The work of every system: records with ids, and the required outputs."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from tests.support.topics import create_topic, delete_topics

PARTITIONS = 4
KEPT_OF = 4
"""The filter keeps one record of so many of each partition."""
_BATCH = 1_000
_QUEUE = 500_000
_FIRST_ID = 10**11
"""For JSON: every id has as many digits, and the first one is a 1."""
_DIGITS = 12
_DEADLINE_S = 240.0


class Job(StrEnum):
    IDENTITY = "identity"
    FILTER = "filter and project"
    FUNCTION = "a Python function"
    ARROW = "a polars function"


class Work(NamedTuple):
    """A row's conditions, the same for every system.

    Attributes:
        size: bytes of a value.
        tasks: how many tasks, or threads, share the partitions.
        compression: of what is written, `none` or `lz4`.
        headers: of each record.
    """

    job: Job = Job.IDENTITY
    size: int = 100
    commit_interval_ms: int = 100
    tasks: int = 1
    compression: str = "none"
    headers: int = 0

    @property
    def outputs_of_each(self) -> float:
        """Records that come out for each that goes in."""
        return 1 / KEPT_OF if self.job is Job.FILTER else 1.0

    def values(self, partition: int, first: int) -> list[bytes]:
        """A batch of a partition's records from its `first` one on."""
        numbers = range(first, first + _BATCH)
        if self.job is Job.IDENTITY:
            padding = b"x" * (self.size - 8)
            return [struct.pack(">q", partition + PARTITIONS * number) + padding for number in numbers]
        padding = "x" * max(0, self.size - len(_json(0, 0, "")))
        return [_json(partition, number, padding) for number in numbers]

    def ids(self, values: list[bytes]) -> Any:
        """The ids of output records, as an array."""
        if self.job is Job.IDENTITY:
            return np.frombuffer(b"".join(value[:8] for value in values), ">i8")
        # By what it was that wrote them, a blank stands before the id or not.
        at = values[0].index(b"1")
        return np.array([value[at : at + _DIGITS] for value in values]).astype(np.int64) - _FIRST_ID


def _json(partition: int, number: int, padding: str) -> bytes:
    delay = 15 + number % 60 if number % KEPT_OF == 0 else number % 15
    return (
        f'{{"id":{_FIRST_ID + partition + PARTITIONS * number},"carrier":"UA","origin":"EWR",'
        f'"arr_delay":{delay:2d},"pad":"{padding}"}}'
    ).encode()


class Topics:
    """The topics of one broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        # Its answers are futures of nothing in particular: there is no type to keep.
        self._admin: Any = AdminClient({"bootstrap.servers": bootstrap_servers})

    def create(self, name: str, **config: str) -> str:
        """config: of the topic, as Kafka calls it."""
        create_topic(self.bootstrap_servers, name, partitions=PARTITIONS, config=config)
        return name

    def delete(self, name: str) -> None:
        delete_topics(self.bootstrap_servers, [name])

    def fill(self, topic: str, work: Work, records: int, *, partitions: range = range(PARTITIONS)) -> None:
        """As many as asked for, evenly over all partitions; those of these partitions are written."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "linger.ms": 20,
                "batch.num.messages": 100_000,
                "queue.buffering.max.messages": _QUEUE,
                "queue.buffering.max.kbytes": 512_000,
                "compression.type": work.compression,
            }
        )
        for first in range(0, records // PARTITIONS, _BATCH):
            for partition in partitions:
                _enqueue(producer, topic, work.values(partition, first), partition, work.headers)
        assert producer.flush(_DEADLINE_S) == 0

    def ends(self, topic: str) -> dict[int, int]:
        """The offset up to which `read_committed` reads, of each partition."""
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        answers = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        return {at.partition: answer.result(30).offset for at, answer in answers.items()}

    def values(self, topic: str, ends: Mapping[int, int]) -> Iterator[list[bytes]]:
        """All committed records before these offsets, some at a time."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "bench-judge",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 10,
                "queued.max.messages.kbytes": 65_536,
            }
        )
        left = {number for number, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        deadline = time.monotonic() + _DEADLINE_S
        try:
            while left:
                assert time.monotonic() < deadline, f"{topic} was not read to its end within {_DEADLINE_S:g} s"
                messages = consumer.consume(10_000, 1.0)
                found = [message.value() or b"" for message in messages if message.error() is None]
                left -= {message.partition() or 0 for message in messages if message.error() is not None}
                if found:
                    yield found
        finally:
            consumer.close()


def _enqueue(producer: Producer, topic: str, values: list[bytes], partition: int, headers: int) -> None:
    if headers:
        names: list[tuple[str, str | bytes | None]] = [
            (f"header-{number}", b"of some bytes") for number in range(headers)
        ]
        while len(producer) > _QUEUE - len(values):
            producer.poll(0.01)
        for value in values:
            producer.produce(topic, value, partition=partition, headers=names)
        return
    left: list[dict[str, Any]] = [{"value": value} for value in values]
    while left:
        producer.produce_batch(topic, left, partition=partition)
        left = [{"value": one["value"]} for one in left if "_error" in one]
        producer.poll(0.01 if left else 0)


class Judged(NamedTuple):
    """The committed content of a sink. The progress of a system is not judged: records after the last one of each
    partition of the source are not missed."""

    records: int
    lost: int
    duplicated: int


def judge(topics: Topics, topic: str, work: Work, *, records: int) -> Judged:
    """Every id of a source of so many records, up to the last that came out of each of its partitions."""
    seen = np.zeros(records, np.uint16)
    for values in topics.values(topic, topics.ends(topic)):
        ids, times = np.unique(work.ids(values), return_counts=True)
        seen[ids] += times.astype(np.uint16)
    step = KEPT_OF if work.job is Job.FILTER else 1
    lost = 0
    for partition in range(PARTITIONS):
        of_partition = seen[partition::PARTITIONS]
        expected = of_partition[::step]
        assert of_partition.sum(dtype=np.int64) == expected.sum(dtype=np.int64), (
            f"{topic}: records came out that do not belong there"
        )
        came = np.flatnonzero(expected)
        lost += 0 if not len(came) else int(came[-1] + 1 - len(came))
    total, different = int(seen.sum(dtype=np.int64)), int(np.count_nonzero(seen))
    return Judged(total, lost, total - different)
