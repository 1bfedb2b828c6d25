"""A member is removed from its group by its id, and no other one, on a real broker in both group protocols."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import KAFKA_JARS, OLD_KAFKA_JARS
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.transactions.client import TransactionClient
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

_DEADLINE_S = 20.0
# Longer than the test: the session ends no membership.
_SESSION_MS = 60_000

Join = Callable[[str, str], Consumer]


@pytest.fixture(scope="module", params=[KAFKA_JARS, OLD_KAFKA_JARS])
def jars(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def scene(jars: str) -> Generator[Scene]:
    settings = {**TEST_BROKER_SETTINGS, "group.initial.rebalance.delay.ms": "0"}
    with KafkaCluster.start(jars=jars, overrides=settings) as cluster:
        yield Scene(cluster.bootstrap_servers)


@pytest.fixture(params=["classic", "consumer"])
def join(scene: Scene, jars: str, request: pytest.FixtureRequest) -> Generator[Join]:
    """A new member of a group, which owns partitions of the topic when this returns."""
    if (jars, request.param) == (OLD_KAFKA_JARS, "consumer"):
        pytest.skip("librdkafka joins groups of KIP-848 from Kafka 4.0 on")
    of_classic = {"session.timeout.ms": _SESSION_MS, "partition.assignment.strategy": "cooperative-sticky"}
    members: list[Consumer] = []

    def made(group: str, topic: str) -> Consumer:
        settings: dict[str, Any] = {
            **scene.connection,
            **QUIET,
            "group.id": group,
            "group.protocol": request.param,
            "enable.auto.commit": False,
            **(of_classic if request.param == "classic" else {}),
        }
        member = Consumer(settings)
        members.append(member)
        member.subscribe([topic])
        others = members[:-1]

        def is_in() -> bool:
            for one in others:
                one.poll(0)
            member.poll(0.1)
            return bool(member.assignment())

        wait_for(is_in, _DEADLINE_S, f"an assignment of {topic}")
        return member

    yield made
    for member in members:
        member.close()


def members_of(scene: Scene, group: str) -> set[str]:
    with TransactionClient(scene.connection, ConnectionAttempt(scene.bootstrap_servers, _DEADLINE_S)) as client:
        return {one.member_id for one in client.describe(group).members}


async def test_member_is_removed_once_and_the_other_one_gets_its_partitions(scene: Scene, join: Join) -> None:
    topic, group = scene.topic(partitions=2), unique_name("group")
    first, second = join(group, topic), join(group, topic)
    gone = str(first.memberid())
    assert await scene.brokers.is_member(scene.connection, group, gone)
    assert await scene.brokers.remove_member(scene.connection, group, gone, reason="its process has ended")
    assert not await scene.brokers.is_member(scene.connection, group, gone)
    assert members_of(scene, group) == {str(second.memberid())}

    def has_both() -> bool:
        second.poll(0.1)
        return len(second.assignment()) == 2

    wait_for(has_both, _DEADLINE_S, lambda: f"both partitions; {second.assignment()}")
    assert not await scene.brokers.remove_member(scene.connection, group, gone)


async def test_offsets_of_a_removed_member_are_refused_and_it_joins_again(scene: Scene, join: Join) -> None:
    """If it lives after all: its work cannot be committed beside the next owner's."""
    topic, group = scene.topic(), unique_name("group")
    member = join(group, topic)
    before = str(member.memberid())
    assert await scene.brokers.remove_member(scene.connection, group, before)
    with pytest.raises(KafkaException) as caught:
        member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    error = caught.value.args[0]
    assert isinstance(error, KafkaError)
    assert error.name() in {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "_ASSIGNMENT_LOST"}

    def is_in_again() -> bool:
        member.poll(0.1)
        return members_of(scene, group) == {str(member.memberid())}

    wait_for(is_in_again, _DEADLINE_S, lambda: f"{member.memberid()} in {members_of(scene, group)}")
    # A KIP-848 client keeps its id while it lives, so a repetition would remove it again.
    is_classic = before.startswith("rdkafka-")
    assert (member.memberid() == before) is not is_classic
    assert await scene.brokers.remove_member(scene.connection, group, before) is not is_classic


async def test_unknown_member_is_not_removed_and_no_other_one_either(scene: Scene, join: Join) -> None:
    topic, group = scene.topic(), unique_name("group")
    member = join(group, topic)
    for unknown in ("never-joined", unique_name(), "x" * 10_000):
        assert not await scene.brokers.is_member(scene.connection, group, unknown)
        assert not await scene.brokers.remove_member(scene.connection, group, unknown, reason="y" * 10_000)
    assert members_of(scene, group) == {str(member.memberid())}


async def test_unknown_group_has_no_member(scene: Scene) -> None:
    group = unique_name("never")
    assert not await scene.brokers.is_member(scene.connection, group, "member")
    assert not await scene.brokers.remove_member(scene.connection, group, "member")
