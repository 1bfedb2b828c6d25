"""References on a real broker, as a reader with `read_committed` gets them, and what becomes of the topic meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, cast

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from app.core.clusters.brokers import Connection
from app.edges.embedded.kafka import KafkaCluster
from app.kit.errors import BrokerUnreachableError
from app.products.files.reference_topics import KafkaReferenceTopics
from app.products.files.topic_ports import ReferenceConnection
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.topics import add_partition, create_topic, delete_topics, unique_name
from tests.support.waiting import wait_for

_TIMEOUT_S = 20.0


@pytest.fixture
def reader(connection: Connection) -> Generator[ReferenceConnection]:
    topics = KafkaReferenceTopics(environment={}, secrets_dir=None)
    with topics.open_topics(connection, timeout_s=_TIMEOUT_S) as opened:
        yield opened


class Writing:
    """A task that writes references, each in a batch of its own."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {**connection, **QUIET, "transactional.id": unique_name("tx"), "linger.ms": 0, "batch.num.messages": 1}
        )
        initialise(self._producer)

    def transaction(self, *values: str, partition: int = 0, commits: bool = True) -> None:
        self.begin(*values, partition=partition)
        if commits:
            self._producer.commit_transaction(_TIMEOUT_S)
        else:
            self._producer.abort_transaction(_TIMEOUT_S)

    def begin(self, *values: str, partition: int = 0) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(self._topic, value.encode(), partition=partition)
        assert self._producer.flush(_TIMEOUT_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(_TIMEOUT_S)


def wait_until_decided(connection: Connection, topic: str, *, partitions: int = 1) -> None:
    """A commit is answered before its markers lie in the partitions."""
    admin = AdminClient({**connection, **QUIET})

    def ends(isolation: IsolationLevel) -> list[int]:
        wanted: Any = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        futures: dict[Any, Future[Any]] = cast("Any", admin).list_offsets(wanted, isolation_level=isolation)
        return [future.result(_TIMEOUT_S).offset for future in futures.values()]

    wait_for(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        _TIMEOUT_S,
        f"the markers in {topic}",
    )


def values_of(reader: ReferenceConnection, topic: str, positions: dict[int, int], *, most: int = 100) -> list[str]:
    found = reader.read(topic, positions, most_messages=most)
    assert found.silent == ""
    return [(message.value or b"").decode() for one in found.portions for message in one.messages]


def test_committed_messages_are_read_and_aborted_ones_are_not(
    connection: Connection, make_topic: MakeTopic, reader: ReferenceConnection
) -> None:
    topic = make_topic(partitions=2)
    first, second = Writing(connection, topic), Writing(connection, topic)
    first.transaction("a", "b")
    second.transaction("never", partition=0, commits=False)
    first.transaction("c")
    second.transaction("d", partition=1)
    second.transaction("never", partition=1, commits=False)
    wait_until_decided(connection, topic, partitions=2)
    found = reader.read(topic, {0: 0, 1: 0}, most_messages=100)
    assert {one.partition: [m.value for m in one.messages] for one in found.portions} == {
        0: [b"a", b"b", b"c"],
        1: [b"d"],
    }
    for one in found.portions:
        assert one.start_offset == 0
        assert one.next_offset == one.end_offset, "markers are passed, so that nothing is behind"
        for message in one.messages:
            assert message.committed_ms is not None
            assert 0 <= message.committed_ms - message.timestamp_ms < 60_000
    again = reader.read(topic, {one.partition: one.next_offset for one in found.portions}, most_messages=100)
    assert [one.messages for one in again.portions] == [(), ()]


def test_open_transaction_is_waited_for(
    connection: Connection, make_topic: MakeTopic, reader: ReferenceConnection
) -> None:
    topic = make_topic(partitions=1)
    Writing(connection, topic).transaction("before")
    wait_until_decided(connection, topic)
    holder, other = Writing(connection, topic), Writing(connection, topic)
    holder.begin("pending")
    other.transaction("behind it")
    assert values_of(reader, topic, {0: 0}) == ["before"]
    (one,) = reader.read(topic, {0: 0}, most_messages=100).portions
    assert one.next_offset == one.end_offset == 2
    holder.commit()
    wait_until_decided(connection, topic)
    assert values_of(reader, topic, {0: one.next_offset}) == ["pending", "behind it"]


def test_portions_are_bounded_and_follow_each_other(
    connection: Connection, make_topic: MakeTopic, reader: ReferenceConnection
) -> None:
    topic = make_topic(partitions=1)
    writing = Writing(connection, topic)
    expected = [f"{number}" for number in range(12)]
    for value in expected:
        writing.transaction(value)
    wait_until_decided(connection, topic)
    found: list[str] = []
    position = 0
    for _ in range(20):
        (one,) = reader.read(topic, {0: position}, most_messages=5).portions
        assert len(one.messages) <= 5
        found += [(message.value or b"").decode() for message in one.messages]
        position = one.next_offset
        if position == one.end_offset:
            break
    assert found == expected


def test_topic_that_is_made_anew_has_another_id(
    kafka: KafkaCluster, connection: Connection, reader: ReferenceConnection
) -> None:
    topic = unique_name("anew")
    create_topic(kafka.bootstrap_servers, topic)
    Writing(connection, topic).transaction("old", "old", "old")
    wait_until_decided(connection, topic)
    assert values_of(reader, topic, {0: 0}) == ["old"] * 3
    before = reader.describe(topic)
    assert before.partitions == (0,)
    delete_topics(kafka.bootstrap_servers, [topic])
    wait_for(lambda: reader.describe(topic).refusal, _TIMEOUT_S, "brokers saying that the topic is gone")
    assert f"no topic {topic}" in reader.describe(topic).refusal
    create_topic(kafka.bootstrap_servers, topic)
    try:
        after = wait_for(
            lambda: found if (found := reader.describe(topic)).partitions else None, _TIMEOUT_S, "the topic made anew"
        )
        assert after is not None
        assert after.topic_id not in ("", before.topic_id)
        Writing(connection, topic).transaction("new")
        wait_until_decided(connection, topic)
        found = wait_for(lambda: reader.read(topic, {0: 4}, most_messages=9).portions, _TIMEOUT_S, "its leader")
        assert (found[0].start_offset, found[0].messages) == (0, ()), "what lies at the old position is another's"
        assert values_of(reader, topic, {0: 0}) == ["new"]
    finally:
        delete_topics(kafka.bootstrap_servers, [topic])


def test_what_was_deleted_is_passed_and_told(
    kafka: KafkaCluster, connection: Connection, make_topic: MakeTopic, reader: ReferenceConnection
) -> None:
    topic = make_topic(partitions=1)
    Writing(connection, topic).transaction("gone", "gone", "there")
    wait_until_decided(connection, topic)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    deleted = cast("dict[Any, Future[Any]]", cast(Any, admin).delete_records([TopicPartition(topic, 0, 2)]))
    for future in deleted.values():
        future.result(_TIMEOUT_S)
    (one,) = reader.read(topic, {0: 1}, most_messages=9).portions
    assert (one.start_offset, one.next_offset, one.messages) == (2, 2, ())
    assert values_of(reader, topic, {0: one.next_offset}) == ["there"]
    (fresh,) = reader.read(topic, {0: 0}, most_messages=9).portions
    assert (fresh.start_offset, fresh.next_offset) == (2, 2)


def test_partition_that_is_added_is_described(
    kafka: KafkaCluster, connection: Connection, make_topic: MakeTopic, reader: ReferenceConnection
) -> None:
    topic = make_topic(partitions=1)
    before = reader.describe(topic)
    assert values_of(reader, topic, {0: 0}) == []
    add_partition(kafka.bootstrap_servers, topic)
    after = wait_for(
        lambda: found if len((found := reader.describe(topic)).partitions) == 2 else None, _TIMEOUT_S, "both partitions"
    )
    assert after is not None
    assert after.topic_id == before.topic_id
    Writing(connection, topic).transaction("there", partition=1)
    wait_until_decided(connection, topic, partitions=2)
    assert values_of(reader, topic, {0: 0, 1: 0}) == ["there"]


def test_topic_that_is_not_there_is_a_refusal_and_no_failure(reader: ReferenceConnection) -> None:
    assert "no topic no-such-topic" in reader.describe("no-such-topic").refusal
    assert "no topic a b" in reader.describe("a b").refusal
    assert reader.kafka_cluster_id


def test_broker_that_does_not_answer_is_named() -> None:
    topics = KafkaReferenceTopics(environment={}, secrets_dir=None)
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:9"):
        topics.open_topics({"bootstrap.servers": "127.0.0.1:9"}, timeout_s=1.0).__enter__()


def test_reading_goes_on_with_the_next_leader(kafka_cluster3: KafkaCluster) -> None:
    connection = {"bootstrap.servers": kafka_cluster3.bootstrap_servers}
    topic = unique_name("led")
    create_topic(kafka_cluster3.bootstrap_servers, topic, partitions=3)
    for partition in range(3):
        Writing(connection, topic).transaction(f"{partition}", partition=partition)
    wait_until_decided(connection, topic, partitions=3)
    topics = KafkaReferenceTopics(environment={}, secrets_dir=None)
    with topics.open_topics(connection, timeout_s=_TIMEOUT_S) as reader:
        assert sorted(values_of(reader, topic, dict.fromkeys(range(3), 0))) == ["0", "1", "2"]
        victim = kafka_cluster3.broker(2)
        victim.kill()
        try:

            def all_of_them() -> bool:
                found = reader.read(topic, dict.fromkeys(range(3), 0), most_messages=9)
                assert found.silent or len(found.portions) == 3, "who is missing is named"
                return len(found.portions) == 3 and sum(len(one.messages) for one in found.portions) == 3

            wait_for(all_of_them, 40, "all three partitions without the killed broker")
        finally:
            victim.start()


def test_partition_that_nobody_leads_is_named_and_the_others_are_read(kafka_cluster3: KafkaCluster) -> None:
    """Also one whose beginning was never asked for: nobody waits for it until the time is up."""
    connection = {"bootstrap.servers": kafka_cluster3.bootstrap_servers}
    topic = unique_name("unled")
    create_topic(kafka_cluster3.bootstrap_servers, topic, partitions=3, replication_factor=1)
    for partition in range(3):
        Writing(connection, topic).transaction(f"{partition}", partition=partition)
    wait_until_decided(connection, topic, partitions=3)
    topics = KafkaReferenceTopics(environment={}, secrets_dir=None)
    victim = kafka_cluster3.broker(2)
    victim.kill()
    try:
        with topics.open_topics(connection, timeout_s=_TIMEOUT_S) as reader:

            def two_of_them() -> bool:
                found = reader.read(topic, dict.fromkeys(range(3), 0), most_messages=9)
                return len(found.portions) == 2 and f"{topic}-" in found.silent

            wait_for(two_of_them, 60, "the two that are led, and a word about the third")
    finally:
        victim.start()
