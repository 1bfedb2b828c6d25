"""The broker of `bench.guarantees`: what is fed to it, and what it is asked."""

from __future__ import annotations

import time
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from app.core.pipelines.pipeline import PipelineDefinition
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.transactions.client import TransactionClient
from tests.support.kafka_tools import run_tool

VALUE = b"x" * 100
DEADLINE_S = 240.0


class Scene:
    """One broker, and what is asked of it."""

    def __init__(self, kafka: KafkaCluster, jmx_port: int) -> None:
        self.bootstrap_servers = kafka.bootstrap_servers
        self.broker_pid = kafka.broker(1).pid
        self._jmx_url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{jmx_port}/jmxrmi"
        # Its answers are futures of nothing in particular: there is no type to keep.
        self._admin: Any = AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def topic(self, partitions: int) -> str:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        return name

    def delete(self, *names: str) -> None:
        for deleted in self._admin.delete_topics(list(names)).values():
            deleted.result(60)

    def requests(self) -> float:
        """How many the broker has answered since it started, of every kind."""
        told = run_tool(
            "org.apache.kafka.tools.JmxTool",
            *("--jmx-url", self._jmx_url, "--one-time", "--report-format", "properties"),
            *("--object-name", "kafka.network:type=RequestMetrics,name=RequestsPerSec,*", "--attributes", "Count"),
        )
        counts = [line.rpartition("=") for line in told.splitlines() if line.startswith("kafka.network:")]
        assert counts, told
        return sum(float(count) for _, _, count in counts)

    def ids(self, prefix: str) -> int:
        with TransactionClient(
            {"bootstrap.servers": self.bootstrap_servers}, ConnectionAttempt(self.bootstrap_servers, 60)
        ) as client:
            found, refused = client.transactional_ids()
        assert not refused, refused
        return sum(name.startswith(prefix) for name in found.values())

    def committed_records(self, topic: str, partitions: int) -> int:
        """Read to the end, as committed, and counted: markers are no records."""
        ends = self._admin.list_offsets({TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)})
        left = {at.partition for at, end in ends.items() if end.result(60).offset > 0}
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "bench-counter",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 10,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        count, deadline = 0, time.monotonic() + DEADLINE_S
        try:
            while left:
                assert time.monotonic() < deadline, f"no end of {topic} in {sorted(left)}"
                for message in consumer.consume(10_000, 1.0):
                    if message.error() is None:
                        count += 1
                    else:
                        left.discard(message.partition())
        finally:
            consumer.close()
        return count


def fill(scene: Scene, topic: str, partitions: int, records: int) -> None:
    """As many as asked for, evenly over the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": scene.bootstrap_servers,
            "linger.ms": 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    batch = [{"value": VALUE} for _ in range(500)]
    for number in range(records // len(batch)):
        while len(producer) > 400_000:
            producer.poll(0.01)
        assert producer.produce_batch(topic, batch, partition=number % partitions) == len(batch)
    assert producer.flush(120) == 0


def feed(scene: Scene, topic: str, partitions: int, per_s: int, seconds: float) -> int:
    """So many records a second, a tenth of a second's at a time, over all partitions in turn; returns how many."""
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers, "linger.ms": 5})
    fed, at, due = 0, 0, time.monotonic()
    end = due + seconds
    while due < end:
        for _ in range(per_s // 10):
            producer.produce(topic, VALUE, partition=at)
            at = (at + 1) % partitions
        fed += per_s // 10
        producer.poll(0)
        due += 0.1
        time.sleep(max(0.0, due - time.monotonic()))
    assert producer.flush(60) == 0
    return fed


def wait_for_commits(scene: Scene, chosen: PipelineDefinition, partitions: int, wanted: int) -> tuple[float, int]:
    """When at least so many records were committed for the group, and how many."""
    consumer = Consumer(
        {
            "bootstrap.servers": scene.bootstrap_servers,
            "group.id": chosen.group_id,
            "isolation.level": "read_uncommitted",
        }
    )
    asked = [TopicPartition(chosen.source_topics[0], number) for number in range(partitions)]
    deadline = time.monotonic() + DEADLINE_S
    try:
        while True:
            total = sum(max(0, entry.offset) for entry in consumer.committed(asked, 10))
            if total >= wanted:
                return time.monotonic(), total
            assert time.monotonic() < deadline, f"{total} of {wanted} records committed after {DEADLINE_S:g} s"
            time.sleep(0.05)
    finally:
        consumer.close()
