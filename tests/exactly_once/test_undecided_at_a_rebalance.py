"""Pending offsets while the assignment changes: the client stops asking for them, the loop does not."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.core.pipelines.pipeline import GroupProtocol
from app.core.wire.heartbeat import DesiredTaskState, TaskState
from app.edges.embedded.kafka import KafkaCluster
from tests.support.kafka_clients import initialise
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.topics import unique_name

DEADLINE_S = 20


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_partition_that_the_client_has_stopped_over_pending_offsets_is_read_once_they_are_decided(
    kafka: KafkaCluster, is_paused: bool
) -> None:
    """librdkafka 2.16.0 starts it without an offset then, and says that none was committed: it stops there for good."""
    pipeline = TestPipeline.create(kafka.bootstrap_servers, partitions=2, group_protocol=GroupProtocol.CONSUMER)
    pipeline.feed(20)
    connection = {"bootstrap.servers": kafka.bootstrap_servers}
    former = Producer({**connection, "transactional.id": unique_name("former"), "transaction.timeout.ms": 60_000})
    initialise(former)
    former.begin_transaction()
    alone = Consumer({**connection, "group.id": pipeline.definition.group_id})
    offsets = [TopicPartition(pipeline.source, partition, 0) for partition in range(2)]
    former.send_offsets_to_transaction(offsets, alone.consumer_group_metadata(), DEADLINE_S)
    with running(pipeline.specification(task=0)) as first:
        first.wait_for_partitions(2)
        with running(pipeline.specification(task=1)) as second:
            first.wait_for_partitions(1)
            second.wait_for_partitions(1)
            if is_paused:
                first.control.wanted = DesiredTaskState.PAUSE
                first.wait_until(lambda seen: seen.state is TaskState.PAUSED, "a pause")
                first.control.wanted = DesiredTaskState.RUN
            former.commit_transaction(DEADLINE_S)
            first.wait_for_records(20)
            first.wait_for_records(20)
            second.wait_for_records(20)
    alone.close()
    pipeline.assert_whole()
