"""Records that C holds are the same as confluent-kafka's messages: what the loop asks of both, on a real broker."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Generator, Mapping
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from app.core.clusters.partition import Partition
from app.core.journals.record_batch import RecordBatch, read_records
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from tests.conftest import MakeTopic
from tests.support.odd_records import OddRecord, drawn, json_objects, now_ms, records, values, write_raw
from tests.support.quiet import QUIET
from tests.support.topics import delete_topics, unique_name
from tests.support.waiting import wait_for
from workers.loop.errors import AbortableError, LoopError, RefusedError
from workers.loop.records.polled import MessageSource, PolledMessages, Records, RecordSource
from workers.loop.records.writing import UnfitError
from workers.native.held import HeldRecords
from workers.native.library import NativeLibrary, native_library
from workers.native.taking import NativeSource

PARTITIONS = 3
EACH = 40
ROOM_S = 10.0


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    found = native_library()
    assert isinstance(found, NativeLibrary), found
    return found


def consumer_of(kafka: KafkaCluster, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": unique_name("held"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUIET,
            **settings,
        }
    )


def begin(consumer: Consumer, source: RecordSource, topic: str, partitions: int = PARTITIONS) -> None:
    names = [Partition(topic, number) for number in range(partitions)]
    source.assigned(names)
    consumer.assign([TopicPartition(*name, 0) for name in names])


class Both:
    """The same records twice: held by C, and as messages."""

    def __init__(self, kafka: KafkaCluster, library: NativeLibrary, topic: str, count: int) -> None:
        self.consumers = [consumer_of(kafka), consumer_of(kafka)]
        self.native = NativeSource(self.consumers[0], library)
        python = MessageSource(self.consumers[1], why="of this test")
        begin(self.consumers[0], self.native, topic)
        begin(self.consumers[1], python, topic)
        self.held = max(polls(self.native, count), key=len)
        assert isinstance(self.held, HeldRecords)
        polled = {(_place(one), one.offset()) for one in objects(self.held)}
        everything = [one for records in polls(python, count) for one in objects(records)]
        self.messages = PolledMessages(one for one in everything if (_place(one), one.offset()) in polled)

    def close(self) -> None:
        self.native.close()
        for consumer in self.consumers:
            consumer.close()


def _place(message: Message) -> Partition:
    return Partition(message.topic() or "", message.partition() or 0)


def polls(source: RecordSource, count: int) -> list[Records]:
    """Poll until so many records came."""
    found: list[Records] = []

    def is_there() -> bool:
        records, errors = source.poll(count, 1.0)
        assert not errors
        found.append(records)
        return sum(map(len, found)) >= count

    wait_for(is_there, 30, lambda: f"{count} records; {sum(map(len, found))}")
    return [records for records in found if records]


def objects(records: Records) -> list[Message]:
    return records if isinstance(records, PolledMessages) else records.messages()[0]


def row_of(message: Message) -> tuple[object, ...]:
    return (
        _place(message),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp(),
        len(message),
    )


@pytest.fixture
def both(kafka: KafkaCluster, library: NativeLibrary, make_topic: MakeTopic, seed: int) -> Generator[Both]:
    topic = make_topic(partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
    rng = random.Random(seed)
    for number in range(PARTITIONS * EACH):
        producer.produce(
            topic,
            value=rng.choice([None, b"", rng.randbytes(rng.randrange(200))]),
            key=rng.choice([None, b"", rng.randbytes(5)]),
            partition=number % PARTITIONS,
            headers=rng.choice([None, [], [("a", b"1"), ("a", None), ("", b"")], [("ü", rng.randbytes(9))]]),
            timestamp=1_600_000_000_000 + number,
        )
    assert producer.flush(20) == 0
    made = Both(kafka, library, topic, PARTITIONS * EACH)
    yield made
    made.close()


def test_held_records_are_the_messages(both: Both) -> None:
    held, messages = both.held, both.messages
    assert isinstance(held, HeldRecords)
    assert len(held) == len(messages) >= EACH
    assert held.size_bytes == messages.size_bytes
    assert held.first_offsets() == messages.first_offsets()
    copied, unreadable = held.messages()
    by_place = sorted(copied, key=lambda one: (_place(one), one.offset()))
    expected = sorted(messages, key=lambda one: (_place(one), one.offset()))
    assert list(map(row_of, by_place)) == list(map(row_of, expected))
    assert [one.headers() or None for one in by_place] == [one.headers() or None for one in expected]
    assert unreadable == {}
    assert held.span == (copied[0].offset(), copied[-1].offset())
    assert [row_of(held[index]) for index in (0, 7, -1)] == [row_of(copied[index]) for index in (0, 7, -1)]
    with pytest.raises(IndexError):
        held[len(held)]


def test_parts_of_held_records_are_the_same_parts_of_the_messages(both: Both, rng: random.Random) -> None:
    held = both.held
    copied = PolledMessages(held.messages()[0])
    names = list(held.first_offsets())
    assert rows_by_partition(held) == rows_by_partition(copied)
    for gone in ([], names[:1], names[1:], names):
        assert rows(held.without(gone)) == rows(copied.without(gone))
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        indexes = {index for index in range(len(held)) if rng.random() < share}
        part, expected = held.without_those(indexes), copied.without_those(indexes)
        assert rows(part) == rows(expected)
        assert (part.size_bytes, part.first_offsets()) == (expected.size_bytes, expected.first_offsets())
        again = {0, len(part) - 1} & set(range(len(part)))
        assert rows(part.without_those(again)) == rows(expected.without_those(again))


def rows(records: Records) -> list[tuple[object, ...]]:
    return [row_of(one) for one in objects(records)]


def rows_by_partition(records: Records) -> Mapping[Partition, list[tuple[object, ...]]]:
    return {name: rows(part) for name, part in records.by_partition().items()}


def producer_of(kafka: KafkaCluster, **settings: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique_name("held"), **QUIET, **settings}
    )


def test_records_are_written_as_they_are_with_names_that_no_python_client_can_carry(
    kafka: KafkaCluster, library: NativeLibrary, make_topic: MakeTopic, seed: int
) -> None:
    """Through a queue of seven records."""
    source_topic, sink_topic = make_topic(), make_topic()
    now = now_ms()
    written = drawn(records(values(json_objects(msgspec.json.encode)), now, are_odd=False), 80, seed=seed)
    written.append(OddRecord(b"k", b"v", ((b"\xff\xfe", b"1"), (b"two", None)), now))
    write_raw(kafka.bootstrap_servers, source_topic, written)
    consumer = consumer_of(kafka)
    source = NativeSource(consumer, library)
    begin(consumer, source, source_topic, 1)
    found = polls(source, len(written))
    producer = producer_of(kafka, **{"queue.buffering.max.messages": 7})
    producer.init_transactions(30)
    producer.begin_transaction()
    for one in found:
        one.write(producer, topic=sink_topic, keep_partition=True, room_within_s=ROOM_S)
    producer.commit_transaction(30)
    source.close()
    consumer.close()

    again = consumer_of(kafka, **{"isolation.level": "read_committed"})
    copies = NativeSource(again, library)
    begin(again, copies, sink_topic, 1)
    sink = [one for copied in polls(copies, len(written)) for one in objects(copied)]
    copies.close()
    again.close()
    assert [(one.key(), one.value(), one.timestamp()[1]) for one in sink] == [
        (one.key, one.value, one.timestamp_ms) for one in written
    ]
    assert raw_headers(kafka, sink_topic) == raw_headers(kafka, source_topic)
    assert raw_headers(kafka, sink_topic)[-1] == (("\\xff\\xfe", b"1"), ("two", None))


def raw_headers(kafka: KafkaCluster, topic: str) -> list[tuple[tuple[str, bytes | None], ...]]:
    """The headers of all records as the broker has them; bytes of names that are not UTF-8 are escaped."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    found: list[tuple[tuple[str, bytes | None], ...]] = []
    for _, batch in read_logs(settings, ConnectionAttempt("", 30.0), topic):
        if isinstance(batch, RecordBatch) and not batch.is_control:
            records = read_records(batch)
            assert isinstance(records, list)
            found += [one.headers for one in records]
    return found


def test_records_without_a_time_are_named_and_none_is_written(
    kafka: KafkaCluster, library: NativeLibrary, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    write_raw(kafka.bootstrap_servers, topic, [OddRecord(None, b"x", (), at) for at in (5, 0, 6, 0)])
    consumer = consumer_of(kafka)
    source = NativeSource(consumer, library)
    begin(consumer, source, topic, 1)
    found = max(polls(source, 4), key=len)
    producer = producer_of(kafka)
    with pytest.raises(UnfitError) as refused:
        found.write(producer, topic=topic, keep_partition=True, room_within_s=ROOM_S)
    assert set(refused.value.found) == {1, 3}
    rest = found.without_those({1, 3})
    assert [one.timestamp()[1] for one in rest.messages()[0]] == [5, 6]
    with pytest.raises(UnfitError):
        found.without_those({0}).write(producer, topic=topic, keep_partition=True, room_within_s=ROOM_S)
    assert len(producer) == 0
    source.close()
    consumer.close()


def test_refusals_of_the_client_are_those_of_the_python_path(both: Both, kafka: KafkaCluster) -> None:
    """Without a transaction, with a record that is too large, and with a queue that never has room."""
    with pytest.raises(LoopError) as refused:
        both.held.write(producer_of(kafka), topic="nowhere", keep_partition=False, room_within_s=ROOM_S)
    with pytest.raises(LoopError) as expected:
        both.messages.write(producer_of(kafka), topic="nowhere", keep_partition=False, room_within_s=ROOM_S)
    assert (type(refused.value), refused.value.code) == (type(expected.value), expected.value.code)

    small = producer_of(kafka, **{"message.max.bytes": 1_000, "queue.buffering.max.messages": 5})
    small.init_transactions(30)
    small.begin_transaction()
    with pytest.raises(AbortableError, match="no room") as full:
        # The broker cannot answer within no time.
        both.held.write(small, topic="nowhere", keep_partition=False, room_within_s=0.0)
    assert not isinstance(full.value, RefusedError)
    small.purge()


def test_consumer_closes_while_records_are_still_referred_to(both: Both) -> None:
    held = both.held
    both.native.close()
    closed = threading.Thread(target=both.consumers[0].close, daemon=True)
    closed.start()
    closed.join(20)
    assert not closed.is_alive(), "the consumer waits for records"
    with pytest.raises(ValueError, match="were released"):
        held.messages()
    del held
    gc.collect()


def test_deletion_of_a_topic_does_not_end_the_process(
    kafka: KafkaCluster, library: NativeLibrary, make_topic: MakeTopic
) -> None:
    """The client puts that error into the partition's queue, and confluent-kafka's callback for it must not run there.

    Control: the callback of another client here, whose error comes in confluent-kafka's own poll, still runs.
    """
    topic = make_topic()
    told: list[KafkaError] = []
    settings = {"topic.metadata.refresh.interval.ms": 500, "topic.metadata.propagation.max.ms": 500}
    consumer = consumer_of(kafka, **settings)
    other = consumer_of(kafka, **settings, error_cb=told.append)
    source = NativeSource(consumer, library)
    beside = NativeSource(other, library)
    begin(consumer, source, topic, 1)
    beside.assigned([])
    other.assign([TopicPartition(topic, 0, 0)])
    source.poll(1, 1.0)
    delete_topics(kafka.bootstrap_servers, [topic])

    def is_told() -> bool:
        source.poll(10, 0.1)
        other.consume(10, 0.1)
        return bool(told)

    wait_for(is_told, 30, lambda: "the error of the deleted topic")
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        assert source.poll(10, 0.1)[1] == []
    source.close()
    beside.close()
    consumer.close()
    other.close()
