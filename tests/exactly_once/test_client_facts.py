"""Facts about confluent-kafka 2.16.1 that the loop uses: another version fails here first (docs/client-facts.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise
from tests.support.messages import a_message
from tests.support.pipelines import TestPipeline
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from workers.loop.client_config import transactional_producer_config
from workers.loop.errors import LoopError
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.records.polled import PolledMessages


@pytest.fixture
def make_producer(kafka: KafkaCluster) -> Callable[..., Producer]:
    def make(**settings: Any) -> Producer:
        chosen = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique_name("id"), "linger.ms": 5}
        producer = Producer({**chosen, **{key.replace("_", "."): value for key, value in settings.items()}})
        initialise(producer)
        return producer

    return make


@pytest.fixture
def reader(kafka: KafkaCluster, make_topic: MakeTopic) -> Generator[tuple[Consumer, str]]:
    """A subscribed consumer that has one partition with a hundred records."""
    topic = make_topic()
    filler = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(100):
        filler.produce(topic, str(number), partition=0)
    assert filler.flush(20) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": unique_name("group"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.subscribe([topic])
    yield consumer, topic
    consumer.close()


def error_of(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        call()
    return caught.value.args[0]


def test_transaction_after_a_refused_batch_fails_out_of_order(
    make_producer: Callable[..., Producer], make_topic: MakeTopic
) -> None:
    """So a producer is replaced after a refusal, although the error says that an abort is enough."""
    topic = make_topic(max_message_bytes="2000")
    producer = make_producer()
    producer.begin_transaction()
    for _ in range(50):
        producer.produce(topic, b"x" * 100, partition=0)
    refused = error_of(lambda: producer.commit_transaction(20))
    assert (refused.code(), refused.txn_requires_abort()) == (KafkaError.MSG_SIZE_TOO_LARGE, True)
    producer.abort_transaction(20)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    after = error_of(lambda: producer.commit_transaction(20))
    assert (after.code(), after.txn_requires_abort()) == (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, True)


def test_produce_in_a_broken_transaction_says_state_and_begin_says_why(
    make_producer: Callable[..., Producer], make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="2000")
    producer = make_producer()
    producer.begin_transaction()
    producer.produce(topic, b"x" * 5_000, partition=0)
    producer.flush(20)
    assert error_of(lambda: producer.produce(topic, b"x")).code() == KafkaError._STATE
    assert error_of(producer.begin_transaction).code() == KafkaError.MSG_SIZE_TOO_LARGE
    producer.abort_transaction(20)


def test_record_that_the_client_does_not_take_is_named_with_its_own_reason(kafka: KafkaCluster) -> None:
    """In a transaction that is whole, asking why it is broken would only hide what is wrong."""
    pipeline = TestPipeline.create(kafka.bootstrap_servers, partitions=1)
    producer = TransactionalProducer(transactional_producer_config(pipeline.specification()))
    producer.init(20)
    assert producer.partition_count(pipeline.sink, 20) == 1
    producer.begin()
    with pytest.raises(LoopError, match="_UNKNOWN_PARTITION"):
        producer.write_records(
            PolledMessages([a_message(b"for partition 3")]), topic=pipeline.sink, keep_partition=True
        )
    producer.discard()


def test_statistics_name_producer_id_and_epoch_even_after_the_fencing(kafka: KafkaCluster) -> None:
    pipeline = TestPipeline.create(kafka.bootstrap_servers, partitions=1)
    config = transactional_producer_config(pipeline.specification())
    fenced, taker = TransactionalProducer(config), TransactionalProducer(config)
    fenced.init(20)
    fenced.begin()
    fenced.live.produce(pipeline.sink, b"open")
    fenced.live.flush(20)
    taker.init(20)
    assert error_of(lambda: fenced.live.commit_transaction(20)).code() == KafkaError._FENCED
    seen, newer = fenced.identity(timeout_s=5), taker.identity(timeout_s=5)
    assert seen is not None
    assert newer is not None
    assert seen.producer_id == newer.producer_id
    assert newer.epoch == seen.epoch + 2, "one for the abort of the open transaction, one for the init"


def test_metadata_beside_offsets_survives_the_transaction(
    make_producer: Callable[..., Producer], reader: tuple[Consumer, str]
) -> None:
    consumer, topic = reader
    wait_for(lambda: consumer.consume(1, 0.2), 20, "a first record")
    producer = make_producer()
    for note in ("fenceline1 limit=0 begun=1 until=-1", ""):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, 5, metadata=note)], consumer.consumer_group_metadata(), 20
        )
        producer.commit_transaction(20)
        (found,) = consumer.committed([TopicPartition(topic, 0)], 20)
        assert (found.offset, found.metadata or "") == (5, note)


def test_paused_partition_delivers_nothing_of_its_buffer_and_goes_on_where_it_was_sought(
    reader: tuple[Consumer, str],
) -> None:
    consumer, topic = reader
    wait_for(lambda: consumer.consume(10, 0.2), 20, "first records")
    here = [TopicPartition(topic, 0)]
    consumer.pause(here)
    assert consumer.consume(100, 0.3) == []
    consumer.seek(TopicPartition(topic, 0, 5))
    assert consumer.consume(100, 0.3) == []
    consumer.resume(here)
    read = wait_for(lambda: consumer.consume(3, 1.0), 20, "records after the resume")
    assert read[0].offset() == 5


def test_purged_producer_is_gone_at_once_though_its_commit_is_not_answered(
    kafka: KafkaCluster, make_producer: Callable[..., Producer], make_topic: MakeTopic
) -> None:
    topic = make_topic()
    only_reference = [make_producer()]
    only_reference[0].begin_transaction()
    only_reference[0].produce(topic, b"x")
    only_reference[0].flush(20)
    kafka.broker(1).pause()
    try:
        unanswered = error_of(lambda: only_reference[0].commit_transaction(0.5))
        assert (unanswered.code(), unanswered.retriable()) == (KafkaError._TIMED_OUT, True)
        began_at = time.monotonic()
        only_reference[0].purge()
        only_reference.clear()
        assert time.monotonic() - began_at < 1.0
    finally:
        kafka.broker(1).resume()
