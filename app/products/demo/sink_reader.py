"""Read the committed outputs of a demo pipeline as an ordinary downstream service."""

import time
from collections import Counter
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient

from app.edges.embedded.errors import EmbeddedError
from app.kit.patience import BUSY_MACHINE_S
from app.products.demo.offsets import ANSWER_S, answered, stable_offsets
from app.products.demo.outputs import Outputs, WrongOutputError


@dataclass(slots=True)
class SinkReader:
    """Reads a topic as an ordinary downstream service: committed records only, each offset once.

    seen: the count of each output. wrong: the reason for each record that is no output, shortened.
    """

    bootstrap_servers: str
    topic: str
    outputs: Outputs
    seen: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    _consumer: Consumer | None = None
    _partitions: tuple[int, ...] = ()
    _next: dict[int, int] = field(default_factory=dict[int, int])

    def read_to_end(self, admin: AdminClient) -> None:
        """Read up to the current last stable offsets."""
        consumer = self._open(admin)
        ends = stable_offsets(admin, self.topic, self._partitions, is_end=True)
        deadline = time.monotonic() + BUSY_MACHINE_S
        while behind := {p: end for p, end in ends.items() if self._next.get(p, 0) < end}:
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"reading {self.topic} to {ends} took more than {BUSY_MACHINE_S:.0f} s; behind: {behind}"
                )
            for message in consumer.consume(2_000, timeout=0.2):
                error = message.error()
                if error is None:
                    self._take(message.value())
                elif error.code() == Code._PARTITION_EOF:  # noqa: SLF001 - its public name has the underscore
                    # The position after commit markers and aborted records, which are never delivered.
                    self._read_up_to(message.partition(), message.offset())
                else:
                    raise EmbeddedError(f"reading {self.topic}: {error.str()}")
            for position in consumer.position([TopicPartition(self.topic, p) for p in self._partitions]):
                self._read_up_to(position.partition, position.offset)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self, admin: AdminClient) -> Consumer:
        if self._consumer is None:
            described = answered(f"the topic {self.topic}", lambda: admin.list_topics(self.topic, timeout=ANSWER_S))
            metadata = described.topics[self.topic]
            self._partitions = tuple(sorted(metadata.partitions))
            starts = stable_offsets(admin, self.topic, self._partitions, is_end=False)
            self._next = dict(starts)
            self._consumer = Consumer(
                {
                    "bootstrap.servers": self.bootstrap_servers,
                    # It never joins or commits: partitions are assigned by hand.
                    "group.id": "fenceline-demo-proof",
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "log_level": 0,
                }
            )
            self._consumer.assign([TopicPartition(self.topic, p, starts[p]) for p in self._partitions])
        return self._consumer

    def _read_up_to(self, partition: int | None, offset: int | None) -> None:
        if partition is not None and offset is not None:
            self._next[partition] = max(self._next[partition], offset)

    def _take(self, value: bytes | str | None) -> None:
        try:
            self.seen.update(self.outputs.found(value.encode() if isinstance(value, str) else value or b""))
        except WrongOutputError as error:
            self.wrong.append(str(error)[:200])
