"""A log that was cut before the committed offset and has grown past it since: its other records are not skipped.

Only the leader epoch beside the offset shows it. A broker that was restarted leads under a new epoch. So an offset that
is committed under the epoch before, and lies behind that one's end, is the result of an unclean election.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.edges.embedded.kafka import KafkaBroker, KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from tests.conftest import TEST_BROKER_SETTINGS
from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET
from tests.support.tasks import running
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for
from workers.loop.errors import PipelineStopError
from workers.transforms import Failure, Processed, RecordError

EACH = 50


class Unprocessable:
    is_identity = False

    def process(self, messages: list[Message]) -> Processed:
        return Processed([], [Failure(index, RecordError("bad")) for index in range(len(messages))], [])


@pytest.fixture(scope="module")
def own_broker() -> Generator[KafkaCluster]:
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as cluster:
        yield cluster


@contextmanager
def member(pipeline: TestPipeline) -> Generator[Consumer]:
    consumer = Consumer(
        {"bootstrap.servers": pipeline.bootstrap_servers, "group.id": pipeline.definition.group_id, **QUIET}
    )
    yield consumer
    consumer.close()


def committed(pipeline: TestPipeline, *, partition: int = 0) -> TopicPartition:
    with member(pipeline) as consumer:
        [found] = consumer.committed([TopicPartition(pipeline.source, partition)], 20)
    return found


def append_aborted(pipeline: TestPipeline, count: int, *, partition: int = 0) -> None:
    """Records of another application, in one transaction."""
    config = {"bootstrap.servers": pipeline.bootstrap_servers, "transactional.id": f"{pipeline.source}.other"}
    producer = Producer({**config, **QUIET})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(pipeline.source, b"x", partition=partition)
    producer.flush(20)
    producer.abort_transaction(30)


def commit(pipeline: TestPipeline, offset: int, epoch: int, *, partition: int = 0) -> None:
    def is_committed(consumer: Consumer) -> bool:
        """Not at once after a restart: the coordinator is elected and loads first."""
        try:
            consumer.commit(
                offsets=[TopicPartition(pipeline.source, partition, offset, leader_epoch=epoch)], asynchronous=False
            )
        except KafkaException:
            return False
        return True

    with member(pipeline) as consumer:
        wait_for(lambda: is_committed(consumer), 40, f"offset {offset} of {pipeline.source} committed")


async def test_offsets_carry_the_epoch_of_the_record_before_them_and_are_compared_by_it(
    own_broker: KafkaCluster,
) -> None:
    pipelines = [
        TestPipeline.create(own_broker.bootstrap_servers, partitions=1, processing_guarantee=guarantee)
        for guarantee in ProcessingGuarantee
    ]
    for pipeline in pipelines:
        pipeline.feed(EACH)
        with running(pipeline.specification()) as task:
            task.wait_for_records(EACH)
            task.drain()
        assert (committed(pipeline).offset, committed(pipeline).leader_epoch) == (EACH, 0)
    own_broker.broker(1).restart()
    own_broker.wait_until_complete()
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    for pipeline in pipelines[:2]:
        # The records at 50 to 99 under epoch 0 are gone, and 100 others are there.
        commit(pipeline, 2 * EACH, 0)
        pipeline.feed(2 * EACH)
        [cut] = await brokers.truncated_offsets(
            {"bootstrap.servers": pipeline.bootstrap_servers},
            pipeline.definition.group_id,
            [Partition(pipeline.source, 0)],
            timeout_s=20,
        )
        assert (cut.committed, cut.epoch, cut.end) == (2 * EACH, 0, EACH)
        with running(pipeline.specification(attempt=1)) as task:
            error = task.join_error()
        assert isinstance(error, PipelineStopError)
        assert f"the log of {pipeline.source}-0 was cut before the committed offset {2 * EACH}" in str(error)
        assert committed(pipeline).offset == 2 * EACH
    await brokers.close()


def test_offset_without_an_epoch_skips_later_records(own_broker: KafkaCluster) -> None:
    """The negative control: 50 of the 100 records that can be read are skipped, without a report."""
    pipeline = TestPipeline.create(own_broker.bootstrap_servers, partitions=1)
    pipeline.feed(EACH)
    with running(pipeline.specification()) as task:
        task.wait_for_records(EACH)
        task.drain()
    commit(pipeline, 2 * EACH, -1)
    new = pipeline.feed(2 * EACH)
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_records(EACH)
        task.drain()
    assert sorted(pipeline.audit().lost) == sorted(new[:EACH])


@pytest.fixture(scope="module")
def drained(own_broker: KafkaCluster) -> dict[str, TestPipeline]:
    """Each partition is committed at 50 under the epoch before the restart; one pipeline for each test below."""
    pipelines = {
        name: TestPipeline.create(own_broker.bootstrap_servers, partitions=1) for name in ("fed", "idle", "cut")
    }
    pipelines["cut, two"] = TestPipeline.create(own_broker.bootstrap_servers, partitions=2)
    for pipeline in pipelines.values():
        pipeline.feed(EACH)
        with running(pipeline.specification()) as task:
            task.wait_for_records(EACH * pipeline.partitions)
            task.drain()
    own_broker.broker(1).restart()
    own_broker.wait_until_complete()
    return pipelines


def test_markers_of_a_later_epoch_before_the_first_record_are_not_taken_for_a_cut(
    drained: dict[str, TestPipeline],
) -> None:
    """The attempt that meets them dies before its first checkpoint, and leaves its mark."""
    pipeline = drained["fed"]
    append_aborted(pipeline, 10)
    pipeline.feed(20)
    with running(pipeline.specification(attempt=1), transform=Unprocessable()) as task:
        error = task.join_error()
    assert "cannot be processed" in str(error)
    assert (committed(pipeline).offset, committed(pipeline).leader_epoch) == (EACH, 0)
    with running(pipeline.specification(attempt=2)) as task:
        task.wait_for_records(20)
        task.drain()


def test_markers_of_a_later_epoch_alone_are_committed_under_it(drained: dict[str, TestPipeline]) -> None:
    pipeline = drained["idle"]
    append_aborted(pipeline, 10)
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_until(
            lambda seen: [at.committed for at in seen.partitions] == [EACH + 11], "a commit behind the markers"
        )
        task.drain()
    pipeline.feed(20)
    with running(pipeline.specification(attempt=2)) as task:
        task.wait_for_records(20)
        task.drain()


@pytest.mark.parametrize(("name", "partition"), [("cut", 0), ("cut, two", 1)])
def test_cut_log_in_which_only_markers_follow_stops_the_pipeline(
    drained: dict[str, TestPipeline], name: str, partition: int
) -> None:
    """Their offset is not committed over the one that shows the cut; also beside a partition that has records."""
    pipeline = drained[name]
    commit(pipeline, 2 * EACH, 0, partition=partition)
    append_aborted(pipeline, 2 * EACH, partition=partition)
    if pipeline.partitions > 1:
        pipeline.feed(20, partitions=[0])
    with running(pipeline.specification(attempt=1)) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"the log of {pipeline.source}-{partition} was cut before the committed offset {2 * EACH}" in str(error)
    assert committed(pipeline, partition=partition).offset == 2 * EACH


@pytest.mark.faults
async def test_unclean_election_of_a_replica_that_lacks_records_stops_the_pipeline(
    kafka_cluster3: KafkaCluster,
) -> None:
    """The log ends at 50 when its follower is elected, and grows to 200: the committed offset 100 lies inside of it."""
    source = unique_name("unclean")
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    create_topic(kafka_cluster3.bootstrap_servers, source, replication_factor=2, config=config)
    pipeline = TestPipeline.create(kafka_cluster3.bootstrap_servers, partitions=1, source_topics=(source,))
    pipeline.feed(EACH)
    leader, follower = replicas(kafka_cluster3, source)
    try:
        with running(pipeline.specification()) as task:
            task.wait_for_records(EACH)
            follower.kill()
            pipeline.feed(EACH)
            task.wait_for_records(2 * EACH)
            task.drain()
        at = committed(pipeline)
        assert at.offset == 2 * EACH
        leader.kill()
        follower.restart()
        wait_for(lambda: leads(kafka_cluster3, source) == follower.node_id, 60, "the follower is elected")
        pipeline.feed(3 * EACH)
        with running(pipeline.specification(attempt=1)) as task:
            error = task.join_error()
        assert isinstance(error, PipelineStopError)
        assert f"the log of {source}-0 was cut before the committed offset {2 * EACH}" in str(error)
        assert committed(pipeline).offset == 2 * EACH
    finally:
        for broker in (leader, follower):
            if not broker.is_running:
                broker.restart()
        kafka_cluster3.wait_until_complete()


def replicas(cluster: KafkaCluster, topic: str) -> tuple[KafkaBroker, KafkaBroker]:
    """The replicas of its only partition, the leader first."""
    leader = leads(cluster, topic)
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET}).list_topics(topic, timeout=20)
    [follower] = [node for node in metadata.topics[topic].partitions[0].replicas if node != leader]
    return cluster.broker(leader), cluster.broker(follower)


def leads(cluster: KafkaCluster, topic: str) -> int:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET}).list_topics(topic, timeout=20)
    return metadata.topics[topic].partitions[0].leader
