"""A broker that accepts late records, and clients that leave transactions open."""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.core.blocked.diagnosis import Asked
from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.looking import now_ms
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.hanging import UNVERIFIED
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.topics import create_topic, unique_name
from tests.support.verifier import wait_until_decided

_DEADLINE_S = 20.0


@dataclass(frozen=True)
class Scene:
    """A broker of its own kind, and who acts on it."""

    bootstrap_servers: str

    @property
    def connection(self) -> Connection:
        return {"bootstrap.servers": self.bootstrap_servers}

    @property
    def brokers(self) -> KafkaTransactions:
        return KafkaTransactions(environment={}, secrets_dir=None)

    async def asked(self, _: Collection[str]) -> Asked:
        return Asked(bootstrap_servers=self.bootstrap_servers, now_ms=now_ms())

    def topic(self, *, partitions: int = 1) -> str:
        name = unique_name()
        create_topic(self.bootstrap_servers, name, partitions=partitions)
        return name

    def write(self, topic: str, *, records: int = 1) -> None:
        """Without a transaction."""
        producer = Producer({**self.connection, **QUIET})
        for _ in range(records):
            producer.produce(topic, b"plain", partition=0)
        assert producer.flush(_DEADLINE_S) == 0

    def leave_open(
        self, topic: str, *, records: int = 1, timeout_ms: int = 60_000, transactional_id: str | None = None
    ) -> tuple[str, Producer]:
        """A producer that has written and neither commits nor aborts; its transactional id."""
        name = transactional_id or unique_name("tx")
        settings = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, "message.timeout.ms": timeout_ms}
        producer = Producer({**self.connection, **QUIET, "linger.ms": 0, **settings})
        initialise(producer)
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"undecided", partition=0)
        assert producer.flush(_DEADLINE_S) == 0
        return name, producer

    def decided_values(self, at: Partition) -> list[bytes]:
        """Return all committed records, once no transaction is open in the topic."""
        wait_until_decided(self.bootstrap_servers, at.topic)
        return self.committed_values(at)

    def committed_values(self, at: Partition) -> list[bytes]:
        """Return the records of a read_committed consumer, up to the last stable offset."""
        consumer = Consumer({**self.connection, **QUIET, "group.id": unique_name(), "enable.partition.eof": True})
        try:
            consumer.assign([TopicPartition(at.topic, at.partition, 0)])
            found: list[bytes] = []
            while True:
                message = consumer.poll(_DEADLINE_S)
                assert message is not None, "nothing was read, and no end either"
                if message.error() is not None:
                    return found
                found.append(message.value() or b"")
        finally:
            consumer.close()


@pytest.fixture(scope="package")
def scene() -> Generator[Scene]:
    """On a broker that does not verify to which transaction a record belongs."""
    overrides = {
        **TEST_BROKER_SETTINGS,
        **UNVERIFIED,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with KafkaCluster.start(overrides=overrides) as cluster:
        yield Scene(cluster.bootstrap_servers)
