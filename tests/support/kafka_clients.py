"""Clients that a test moves by hand: a transactional producer, members of a group, records with timestamps."""

from typing import Any, Literal

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

Protocol = Literal["classic", "consumer"]


def initialise(producer: Producer, *, timeout_s: float = 30) -> None:
    """As the client's documentation asks for: called again while the journal's partitions get their coordinators."""

    def is_done() -> bool:
        try:
            producer.init_transactions(timeout_s)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    wait_for(is_done, timeout_s, "a coordinator for the transactional id")


class Writer:
    """A producer whose transactions a test opens and ends by hand."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._producer = Producer({**connection, **QUIET, "transactional.id": unique_name("tx")})
        initialise(self._producer)

    def begin(self, topic: str, *, records: int) -> None:
        self._producer.begin_transaction()
        for number in range(records):
            self._producer.produce(topic, str(number).encode(), partition=0)
        self._producer.flush(10)

    def send_offset(self, group: str, at: Partition, offset: int) -> None:
        """As a consumer that never subscribed: the broker asks for no membership."""
        consumer = Consumer({**self._connection, **QUIET, "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([TopicPartition(*at, offset)], metadata, 10)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(10)

    def abort(self) -> None:
        self._producer.abort_transaction(10)


def write(connection: Connection, topic: str, *, records: int, timestamp_ms: int = 0) -> None:
    """Records one second apart from `timestamp_ms` on, all in partition 0."""
    producer = Producer({**connection, **QUIET})
    for number in range(records):
        producer.produce(topic, str(number).encode(), partition=0, timestamp=timestamp_ms + number * 1000)
    assert producer.flush(10) == 0


class Members:
    """Consumers that are in a group until the test is over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumers: list[Consumer] = []

    def join(self, group: str, topic: str, *, protocol: Protocol, client_id: str) -> None:
        settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol, "client.id": client_id}
        if protocol == "classic":
            settings["session.timeout.ms"] = 6000
        consumer = Consumer({**self._connection, **QUIET, **settings})
        self._consumers.append(consumer)
        consumer.subscribe([topic])

        def is_member() -> bool:
            # All of them: a classic group waits for every member before it gives partitions to one.
            for each in self._consumers:
                each.poll(0.02)
            return bool(consumer.assignment())

        wait_for(is_member, 30, f"{client_id} having partitions of {topic} in {group}")

    def leave(self) -> None:
        while self._consumers:
            self._consumers.pop().close()
