"""Settings and sizes of topics are remembered for a moment, only for the same topic and the same permissions."""

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.clusters.topic import TopicDescription
from app.edges.kafka import cluster_client
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.topic_details import KNOWN_S, KnownDetails, TopicDetails
from tests.support.kafka_clients import write
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

MINE = {"bootstrap.servers": "a:1", "sasl.username": "anna"}
WHOLE = TopicDetails({"retention.ms": "1"}, {Partition("t", 0): 9})


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_details_are_known_until_their_time_is_over() -> None:
    clock = Clock()
    known = KnownDetails(now=clock)
    known.keep(MINE, "id", WHOLE)
    assert known.of(MINE, ["id", "other"]) == {"id": WHOLE}
    clock.now_s += KNOWN_S
    assert known.of(MINE, ["id"]) == {}


def test_other_permissions_know_nothing() -> None:
    known = KnownDetails()
    known.keep(MINE, "id", WHOLE)
    assert known.of({**MINE, "sasl.username": "bert"}, ["id"]) == {}


@pytest.mark.parametrize("part", [WHOLE._replace(settings=None), WHOLE._replace(note="broker 2 did not answer")])
def test_incomplete_details_are_asked_for_again(part: TopicDetails) -> None:
    known = KnownDetails()
    known.keep(MINE, "id", part)
    assert known.of(MINE, ["id"]) == {}


def test_many_topics_do_not_fill_the_memory() -> None:
    known = KnownDetails()
    for number in range(20_001):
        known.keep(MINE, str(number), WHOLE)
    assert known.of(MINE, ["0", "20000"]) == {"20000": WHOLE}


@pytest.mark.slow
def test_new_topic_of_the_same_name_has_its_own_details(connection: Connection) -> None:
    clock, topic = Clock(), unique_name("details")
    known = KnownDetails(now=clock)

    def described() -> TopicDescription:
        def question(client: cluster_client.ClusterClient) -> TopicDescription:
            return client.described_topics([topic], known)[topic]

        return cluster_client.ask(connection, ConnectionAttempt("", 10), "describe topics", question)

    admin: Any = AdminClient(dict(connection))
    with admin:
        create(admin, topic, retention_ms=1_111_111)
        write(connection, topic, records=100)
        first = described()
        write(connection, topic, records=100)
        assert described() == first
        clock.now_s += KNOWN_S
        second = described()
        assert (second.size_bytes or 0) > (first.size_bytes or 0) > 100
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(10)
        wait_for(lambda: len(described().partitions) == 2, 10, "the second partition")
        assert described().size_bytes == second.size_bytes, "its size is asked for at once"
        admin.delete_topics([topic])[topic].result(10)
        create(admin, topic, retention_ms=2_222_222)
        third = described()
    settings = [found.settings or {} for found in (first, second, third)]
    assert [found["retention.ms"] for found in settings] == ["1111111", "1111111", "2222222"]
    assert third.size_bytes == 0


def create(admin: Any, topic: str, *, retention_ms: int) -> None:
    new = NewTopic(topic, 1, 1, config={"retention.ms": str(retention_ms)})
    admin.create_topics([new])[topic].result(10)
