"""The guarantees that no client can observe: committed records survive the loss of a broker, others may not."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from confluent_kafka import KafkaException

from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.transaction_state import TOPIC as TRANSACTION_STATE
from app.edges.embedded.kafka import KafkaCluster
from app.products.conformance.checking.bench import Bench, BenchPlace
from app.products.conformance.checking.clients import Writer
from app.products.conformance.comparing import judge
from app.products.conformance.report import ConformanceVerdict
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow]
_MOVED_WITHIN_S = 60.0


@pytest.fixture
def bench(kafka_cluster3: KafkaCluster) -> Generator[Bench]:
    place = BenchPlace(
        {"bootstrap.servers": kafka_cluster3.bootstrap_servers},
        prefix=unique_name("lost-brokers"),
        replication_factor=3,
        brokers={},
        patience_s=_MOVED_WITHIN_S,
    )
    with Bench(place, "durability") as made:
        yield made
        kafka_cluster3.wait_until_complete()
    assert place.left_behind == []
    place.close()


def leader_of(bench: Bench, topic: str, partition: int) -> int:
    return bench.place.admin.list_topics(topic, timeout=20).topics[topic].partitions[partition].leader


def test_transactions_outlive_the_broker_that_coordinates_them(kafka_cluster3: KafkaCluster, bench: Bench) -> None:
    # A partition for each broker, so that the coordinator also leads some of what was written.
    topic = bench.topic(partitions=3, min_insync_replicas="2")
    committed, still_open = bench.writer("committed"), bench.writer("open")
    for writer, value in ((committed, "committed before"), (still_open, "committed after")):
        writer.begin()
        for partition in range(3):
            writer.send(topic, value, partition=partition)
    committed.commit()
    coordinator = leader_of(bench, TRANSACTION_STATE, transaction_log_partition(still_open.transactional_id or ""))
    assert coordinator in {leader_of(bench, topic, partition) for partition in range(3)}
    broker = kafka_cluster3.broker(coordinator)
    broker.kill()
    try:
        wait_for(lambda: is_committed(still_open), _MOVED_WITHIN_S, "the commit by the next coordinator")
        seen = bench.reader(topic).read(6, within_s=_MOVED_WITHIN_S)
    finally:
        broker.restart()
    expected = {partition: ["committed before", "committed after"] for partition in range(3)}
    finding = judge(seen, expected, "all")
    assert finding.verdict is ConformanceVerdict.KEPT, finding.said


def is_committed(writer: Writer) -> bool:
    try:
        writer.commit()
    except KafkaException as error:
        if not error.args[0].retriable():
            raise
        return False
    return True


def test_records_acknowledged_by_one_broker_are_lost_with_it(kafka_cluster3: KafkaCluster, bench: Bench) -> None:
    """The negative control: `acks=1`, and a leader that dies before the others have its record."""
    topic = bench.topic(min_insync_replicas="2")
    settings = {**bench.place.resolved, "log_level": 0}
    careless, careful = Writer({**settings, "acks": 1}), Writer(settings)
    # The first of them may get away: each of the others has asked for what comes next, and is paused only now.
    acknowledged = [f"by acks=1, number {number}" for number in range(10)]
    # Both have found the leader before: who looks for it later may ask the paused ones first, 10 s each.
    careful.send(topic, "before")
    careless.send(topic, "before, by acks=1")
    leader = leader_of(bench, topic, 0)
    others = [kafka_cluster3.broker(number) for number in (1, 2, 3) if number != leader]
    for other in others:
        other.pause()
    try:
        careless.send(topic, *acknowledged)
        careful.producer.produce(topic, "by acks=all", partition=0)
        assert careful.producer.flush(1.0) == 1, "acknowledged without the others"
        kafka_cluster3.broker(leader).kill()
    finally:
        careful.producer.purge()
        for other in others:
            other.resume()
    try:
        wait_for(
            lambda: leader_of(bench, topic, 0) in {1, 2, 3} - {leader}, _MOVED_WITHIN_S, "another leader of the topic"
        )
        careless.send(topic, "after")
        reader = bench.reader(topic)
        reader.wait_for("before", "after")
    finally:
        kafka_cluster3.broker(leader).restart()
    seen = [one.value for one in reader.seen]
    assert acknowledged[-1] not in seen, f"nothing was lost: {seen}"
    assert seen[0] == "before"
    assert seen[-1] == "after"
