"""Several partitions' logs on real brokers: starts, bounds, and leaders that do not answer."""

from __future__ import annotations

import time

import pytest

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.journals.log_look import FromTime, Landmark, LogLook, LogStart, ReadBound
from app.core.journals.record_batch import RecordBatch
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import InvalidError, NotFoundError
from tests.conftest import MakeTopic
from tests.support.topics import create_topic, delete_records, unique_name
from tests.support.transactions import producer, take_over

BOUND = ReadBound(partitions=10, records=1_000, size_bytes=8 << 20, for_s=5, before_end=2)


def fill(connection: Connection, topic: str, *, partitions: int, records: int = 5, size: int = 1) -> None:
    """One batch for each record, a second apart."""
    writer = producer(connection)
    for number in range(records):
        for partition in range(partitions):
            writer.produce(topic, "x" * size, partition=partition, timestamp=1_000_000 + 1_000 * number)
            assert writer.flush(30) == 0


def offsets(look: LogLook | Refused) -> tuple[int, int, int]:
    """Start, next offset, and the number of batches."""
    assert isinstance(look, LogLook), look
    return look.start, look.next_offset, len(look.batches)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (Landmark.START, 1),
        (Landmark.END, 3),
        (Landmark.LSO, 5),
        (2, 2),
        (0, 1),
        (99, 5),
        (FromTime(1_002_000), 2),
        (FromTime(1_002_001), 3),
        (FromTime(0), 1),
        (FromTime(9_999_999_999), 5),
    ],
)
async def test_each_partition_is_read_from_its_start(
    brokers: KafkaBrokers,
    kafka: KafkaCluster,
    connection: Connection,
    make_topic: MakeTopic,
    start: LogStart,
    first: int,
) -> None:
    topic = make_topic(partitions=2)
    fill(connection, topic, partitions=2)
    for partition in range(2):
        delete_records(kafka.bootstrap_servers, topic, partition, before=1)
    found = await brokers.read_partition_logs(connection, topic, start, BOUND)
    assert {at: offsets(look) for at, look in found.items()} == {
        Partition(topic, number): (first, 5, 5 - first) for number in range(2)
    }


async def test_a_partitions_log_is_read_from_a_time(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(connection, topic, partitions=1)
    at = Partition(topic, 0)
    found = await brokers.read_partition_log(connection, at, start=FromTime(1_003_000), limit=10)
    assert offsets(found) == (3, 5, 2)
    assert offsets(await brokers.read_partition_log(connection, at, start=FromTime(2**40), limit=10)) == (5, 5, 0)


async def test_outcomes_of_aborted_and_open_transactions_come_with_the_batches(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    clients = take_over(connection, topic, unique_name())
    first, second = (await brokers.read_partition_logs(connection, topic, Landmark.START, BOUND)).values()
    assert isinstance(first, LogLook)
    assert (first.bounds.last_stable_offset, first.bounds.high_watermark, first.decided_until) == (2, 3, 2)
    assert [one.first_offset for one in first.aborted] == [0]
    assert offsets(second) == (0, 0, 0)
    del clients


async def test_a_bound_ends_the_reading_and_every_partition_has_a_share_of_it(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=6)
    fill(connection, topic, partitions=6, records=8, size=400_000)
    small = ReadBound(partitions=10, records=1_000, size_bytes=6 << 20, for_s=10, before_end=2)
    found = await brokers.read_partition_logs(connection, topic, Landmark.START, small)
    counts = [offsets(look)[2] for look in found.values()]
    assert all(1 <= count < 8 for count in counts), counts
    read = sum(batch.size_bytes for look in found.values() if isinstance(look, LogLook) for batch in look.batches)
    assert 6 << 20 <= read <= 11 << 20
    few = ReadBound(partitions=10, records=3, size_bytes=8 << 20, for_s=10, before_end=2)
    (one,) = (await brokers.read_partition_logs(connection, topic, {4: Landmark.START}, few)).values()
    assert isinstance(one, LogLook)
    assert 3 <= len(one.batches) < 8
    assert all(isinstance(batch, RecordBatch) for batch in one.batches)


async def test_what_is_missing_or_too_much_is_named(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=11)
    with pytest.raises(InvalidError, match="has 11 partitions, and at most 10 are read at once: choose one"):
        await brokers.read_partition_logs(connection, topic, Landmark.START, BOUND)
    with pytest.raises(NotFoundError, match="no partition 11"):
        await brokers.read_partition_logs(connection, topic, {11: 0}, BOUND)
    with pytest.raises(NotFoundError, match="no topic no-such-topic"):
        await brokers.read_partition_logs(connection, "no-such-topic", Landmark.END, BOUND)


@pytest.mark.slow
async def test_a_leader_that_does_not_answer_costs_the_others_nothing(
    brokers: KafkaBrokers, kafka_cluster3: KafkaCluster
) -> None:
    kafka_cluster3.wait_until_complete()
    connection = {"bootstrap.servers": kafka_cluster3.bootstrap_servers}
    topic = unique_name()
    create_topic(
        kafka_cluster3.bootstrap_servers, topic, partitions=3, replication_factor=1, config={"min.insync.replicas": "1"}
    )
    fill(connection, topic, partitions=3)
    described = (await brokers.describe_topics(connection, [topic], timeout_s=20))[topic]
    lost = described.partitions[0].leader
    assert lost is not None
    broker = kafka_cluster3.broker(lost)
    # A paused broker of the bootstrap servers takes time of any question.
    living = next(one for one in kafka_cluster3.brokers if one is not broker)
    connection = {"bootstrap.servers": living.address}
    broker.pause()
    try:
        began = time.monotonic()
        found = await brokers.read_partition_logs(connection, topic, Landmark.START, BOUND, timeout_s=8)
        assert time.monotonic() - began < 10
        for one in described.partitions:
            look = found[Partition(topic, one.number)]
            if one.leader == lost:
                assert isinstance(look, Refused), look
            else:
                assert offsets(look) == (0, 5, 5)
        sizes = (await brokers.describe_topics(connection, [topic], timeout_s=8))[topic]
        assert [one.size_bytes is None for one in sizes.partitions] == [
            one.leader == lost for one in described.partitions
        ]
        assert sizes.size_note
    finally:
        broker.resume()
        kafka_cluster3.wait_until_complete()
