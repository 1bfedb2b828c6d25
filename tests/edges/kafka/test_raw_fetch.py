"""Raw fetches from a broker: all batches of the log, from its start, from any leader."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._records import DeletedRecords

from app.core.clusters.partition import Partition
from app.core.journals.record_batch import Marker, MarkerType, RecordBatch, read_marker
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import RawFetcher, read_logs
from app.kit.errors import BrokerUnreachableError, UnavailableError
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise
from tests.support.kafka_tools import run_tool
from tests.support.recordings import parse_dump
from tests.support.topics import create_topic, unique_name

_TIMEOUT_S = 30.0


def batches_of(bootstrap_servers: str, topic: str) -> list[tuple[int, RecordBatch]]:
    found: list[tuple[int, RecordBatch]] = []
    attempt = ConnectionAttempt(bootstrap_servers, _TIMEOUT_S)
    for partition, batch in read_logs({"bootstrap.servers": bootstrap_servers}, attempt, topic):
        assert isinstance(batch, RecordBatch)
        found.append((partition, batch))
    return found


def produce(bootstrap_servers: str, topic: str, values: list[str], *, transactional_id: str | None = None) -> Producer:
    """One batch for each value; a transaction that this opens stays open."""
    settings: dict[str, str | int] = {"bootstrap.servers": bootstrap_servers, "linger.ms": 0}
    producer = Producer(settings | ({"transactional.id": transactional_id} if transactional_id else {}))
    if transactional_id:
        initialise(producer)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
        assert producer.flush(_TIMEOUT_S) == 0
    return producer


def fill(bootstrap_servers: str, topic: str, *, each: int) -> None:
    """60 kB records into three partitions: seventeen fill an answer's megabyte for one of them."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    for number in range(3 * each):
        producer.produce(topic, b"x" * 60_000, partition=number % 3)
    assert producer.flush(_TIMEOUT_S) == 0


def test_batches_are_those_that_lie_on_the_brokers_disk(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    produce(kafka.bootstrap_servers, topic, ["plain", "plain"])
    produce(kafka.bootstrap_servers, topic, ["aborted"], transactional_id=unique_name()).abort_transaction(_TIMEOUT_S)
    still_open = produce(kafka.bootstrap_servers, topic, ["pending"], transactional_id=unique_name())
    found = [batch for _, batch in batches_of(kafka.bootstrap_servers, topic)]
    (segment,) = (kafka.broker(1).data_dir / "data" / f"{topic}-0").glob("*.log")
    dump = parse_dump(run_tool("org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(segment)))
    assert [(str(one.base_offset), str(one.producer_id), str(one.producer_epoch), one.is_control) for one in found] == [
        (one.header["baseOffset"], one.header["producerId"], one.header["producerEpoch"], one.is_control)
        for one in dump
    ]
    (marker,) = [read_marker(batch) for batch in found if batch.is_control]
    assert isinstance(marker, Marker)
    assert marker.type is MarkerType.ABORT
    assert found[-1].is_transactional
    assert not found[-1].is_control
    still_open.abort_transaction(_TIMEOUT_S)


def test_open_transaction_holds_the_last_stable_offset_back(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    produce(kafka.bootstrap_servers, topic, ["plain"])
    still_open = produce(kafka.bootstrap_servers, topic, ["pending", "pending"], transactional_id=unique_name())
    at = Partition(topic, 0)
    with RawFetcher({"bootstrap.servers": kafka.bootstrap_servers}, ConnectionAttempt("", _TIMEOUT_S)) as fetcher:
        found = fetcher.fetch({at: 0})[at]
        assert (found.log_start_offset, found.last_stable_offset, found.high_watermark, found.next_offset) == (
            0,
            1,
            3,
            3,
        )
        still_open.commit_transaction(_TIMEOUT_S)
        (batch,) = fetcher.fetch({at: 3})[at].batches
        assert isinstance(batch, RecordBatch)
        assert batch.is_control


def test_every_partition_is_read_in_order_over_many_answers(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    fill(kafka.bootstrap_servers, topic, each=20)
    positions = dict.fromkeys(range(3), 0)
    for partition, batch in batches_of(kafka.bootstrap_servers, topic):
        assert batch.base_offset == positions[partition]
        positions[partition] = batch.last_offset + 1
    assert positions == dict.fromkeys(range(3), 20)


def test_log_whose_beginning_is_gone_is_read_from_where_it_begins(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    produce(kafka.bootstrap_servers, topic, ["gone", "gone", "there", "there"])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    deleted = cast(
        "dict[TopicPartition, Future[DeletedRecords]]",
        admin.delete_records([TopicPartition(topic, 0, 2)]),  # pyright: ignore[reportUnknownMemberType]
    )
    for future in deleted.values():
        future.result(_TIMEOUT_S)
    assert [batch.base_offset for _, batch in batches_of(kafka.bootstrap_servers, topic)] == [2, 3]


def test_reading_goes_on_when_a_leader_is_gone(kafka_cluster3: KafkaCluster) -> None:
    topic = unique_name()
    servers = kafka_cluster3.bootstrap_servers
    create_topic(servers, topic, partitions=3)
    fill(servers, topic, each=60)
    # Each broker leads one partition, and one answer has a third of it: the killed one's rest needs its next leader.
    reading = read_logs({"bootstrap.servers": servers}, ConnectionAttempt(servers, 60), topic)
    seen = [next(reading)]
    found = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
    victim = kafka_cluster3.broker(found.partitions[seen[0][0]].leader)
    victim.kill()
    try:
        seen += reading
        counts: Counter[int] = Counter()
        for partition, batch in seen:
            assert isinstance(batch, RecordBatch)
            counts[partition] += batch.record_count
        assert counts == dict.fromkeys(range(3), 60)
    finally:
        victim.start()


def test_new_leader_does_not_say_that_the_log_ends_early(kafka_cluster3: KafkaCluster) -> None:
    """Its high watermark starts at the one it had from its predecessor, which may be lower (KIP-207)."""
    topic = unique_name()
    servers = kafka_cluster3.bootstrap_servers
    create_topic(servers, topic, partitions=30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(30):
        producer.produce(topic, "value", partition=number)
    assert producer.flush(_TIMEOUT_S) == 0
    victim = kafka_cluster3.broker(2)
    victim.kill()
    try:
        assert sorted(partition for partition, _ in batches_of(servers, topic)) == list(range(30))
    finally:
        victim.start()


def test_topic_that_is_not_there_is_named(kafka: KafkaCluster) -> None:
    with pytest.raises(UnavailableError, match="no-such-topic"):
        batches_of(kafka.bootstrap_servers, "no-such-topic")


def test_broker_that_does_not_answer_is_named() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:9"):
        list(read_logs({"bootstrap.servers": "127.0.0.1:9"}, ConnectionAttempt("127.0.0.1:9", 1.0), "any"))
