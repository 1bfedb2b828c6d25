"""The basis of `group_only`: the offsets that a broker takes for the group alone."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from workers.loop.group.group_alone import GroupAlone


class Member:
    """The only member of a group, with a partition."""

    def __init__(self, bootstrap_servers: str, topic: str, protocol: GroupProtocol) -> None:
        self.group = unique_name("g")
        self._bootstrap_servers = bootstrap_servers
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": self.group,
                "group.protocol": str(protocol),
                **QUIET,
            }
        )
        self.consumer.subscribe([topic])
        wait_for(self._has_partition, 30, "an assignment")
        (owned,) = self.consumer.assignment()
        self._place = owned.topic, owned.partition

    def _has_partition(self) -> bool:
        self.consumer.poll(0.1)
        return bool(self.consumer.assignment())

    def send_offset(self, metadata: object) -> None:
        """Commit offset 7 of its partition from another client, in a transaction."""
        producer = Producer(
            {"bootstrap.servers": self._bootstrap_servers, "transactional.id": unique_name("t"), **QUIET}
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(*self._place, 7)], metadata, 20)
        producer.commit_transaction(20)

    def committed(self) -> int:
        (found,) = self.consumer.committed([TopicPartition(*self._place)], 20)
        return found.offset


@pytest.fixture(params=list(GroupProtocol))
def member(request: pytest.FixtureRequest, kafka: KafkaCluster, make_topic: MakeTopic) -> Generator[Member]:
    one = Member(kafka.bootstrap_servers, make_topic(), request.param)
    yield one
    one.consumer.close()


def test_offsets_for_the_group_alone_are_taken_while_a_member_owns_the_partition(member: Member) -> None:
    member.send_offset(GroupAlone(member.group).consumer_group_metadata())
    assert member.committed() == 7


@pytest.mark.parametrize("member", [GroupProtocol.CONSUMER], indirect=True)
def test_consumer_that_never_subscribed_is_refused_in_a_group_of_kip_848(member: Member) -> None:
    """Its metadata carries a member id that it has made up."""
    outsider = Consumer({"group.id": member.group, "group.protocol": "consumer", "bootstrap.servers": "", **QUIET})
    with pytest.raises(KafkaException) as refused:
        member.send_offset(outsider.consumer_group_metadata())
    assert refused.value.args[0].txn_requires_abort()
    outsider.close()
