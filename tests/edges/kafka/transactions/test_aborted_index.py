"""A fact about brokers: a follower that appends several ended transactions at once notes a wrong last stable offset for
them, and when it leads, `read_committed` readers are shown what was aborted (docs/client-facts.md)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import KAFKA_JARS, OLD_KAFKA_JARS
from tests.support.aborted_index import AbortedIndex
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

_WITHIN_S = 60.0
_ABORTED = [b"first", b"second", b"third"]
_RECORDS = 50
_LAST = b"committed"
# An aborted transaction is five batches, and the three of them a small part of what a follower fetches at once.
_BATCH_RECORDS = 10
_RECORD_BYTES = 1_000
_SMALL, _LARGE = 25_000, 1_000_000


@pytest.mark.slow
# If this fails, brokers have fixed it: docs/client-facts.md describes the bug.
@pytest.mark.parametrize("jars", [OLD_KAFKA_JARS, KAFKA_JARS], ids=["3.9.2", "4.3.1"])
def test_records_aborted_without_a_follower_are_returned_when_it_leads(jars: str, tmp_path: Path) -> None:
    topic = unique_name("aborted-index")
    with KafkaCluster.start(brokers=3, data_dir=tmp_path, overrides=TEST_BROKER_SETTINGS, jars=jars) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
        leader, follower = cluster.brokers[0], cluster.brokers[1]
        replicas = [leader.node_id, follower.node_id]
        new = NewTopic(topic, 1, replica_assignment=[replicas], config={"min.insync.replicas": "1"})
        # Futures of the admin client have no type for their result, which is None here.
        admin.create_topics([new])[topic].result(_WITHIN_S)  # pyright: ignore[reportUnknownMemberType]
        wait_for(lambda: _in_sync(admin, topic) == set(replicas), _WITHIN_S, "both replicas in sync")
        aborting, committing = _producer(cluster, "aborting"), _producer(cluster, "committing")
        follower.stop()
        wait_for(lambda: _in_sync(admin, topic) == {leader.node_id}, _WITHIN_S, "the follower to be out")
        for name in _ABORTED:
            _write(aborting, topic, [name.ljust(_RECORD_BYTES, b".")] * _RECORDS)
            aborting.abort_transaction(_WITHIN_S)
        _write(committing, topic, [_LAST])
        follower.start()
        wait_for(lambda: _in_sync(admin, topic) == set(replicas), _WITHIN_S, "the follower in sync again")
        committing.commit_transaction(_WITHIN_S)
        assert _leader(admin, topic) == leader.node_id
        right, wrong = AbortedIndex.of_replicas([one.log_dir for one in cluster.brokers], topic, 0)
        ends = [(one.producer_id, one.first_offset, one.last_offset) for one in right.entries]
        assert [one[:3] for one in wrong.entries] == ends
        assert [one.last_stable_offset for one in right.entries] == [last + 1 for *_, last in ends]
        # All of them: where the other one's transaction begins, which is not aborted.
        assert {one.last_stable_offset for one in wrong.entries} == {ends[-1][-1] + 1}
        whole = {_LAST: [ends[-1][-1] + 1]}
        assert _read(cluster, topic, fetch_bytes=_SMALL) == whole
        leader.stop()
        wait_for(lambda: _leader(admin, topic) == follower.node_id, _WITHIN_S, "the follower to lead")
        found = _read(cluster, topic, fetch_bytes=_SMALL)
        assert found.keys() == {*_ABORTED[1:], _LAST}
        assert len(found[_ABORTED[1]]) == _RECORDS
        shown = [offset for name in _ABORTED[1:] for offset in found[name]]
        assert all(wrong.hides(ends[0][0], offset) and not right.hides(ends[0][0], offset) for offset in shown)
        # Remove the index only: a fetch that ends beyond its entries reads all of it.
        assert _read(cluster, topic, fetch_bytes=_LARGE) == whole
        # A broker without an offset index rebuilds all indexes of the segment, batch by batch.
        leader.start()
        wait_for(lambda: _in_sync(admin, topic) == set(replicas), _WITHIN_S, "the old leader in sync again")
        follower.stop()
        for index in (follower.log_dir / f"{topic}-0").glob("*.index"):
            index.unlink()
        follower.start()
        wait_for(lambda: _in_sync(admin, topic) == set(replicas), _WITHIN_S, "the follower in sync once more")
        assert AbortedIndex.of_replicas([follower.log_dir], topic, 0) == [right]


def _leader(admin: AdminClient, topic: str) -> int:
    return admin.list_topics(topic, 10).topics[topic].partitions[0].leader


def _in_sync(admin: AdminClient, topic: str) -> set[int]:
    partitions = admin.list_topics(topic, 10).topics[topic].partitions
    return set(partitions[0].isrs) if partitions else set()


def _producer(cluster: KafkaCluster, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUIET,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 120_000,
            "batch.num.messages": _BATCH_RECORDS,
            "linger.ms": 100,
        }
    )
    producer.init_transactions(_WITHIN_S)
    return producer


def _write(producer: Producer, topic: str, values: list[bytes]) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(_WITHIN_S) == 0


def _read(cluster: KafkaCluster, topic: str, *, fetch_bytes: int) -> dict[bytes, list[int]]:
    """Return the records of a read_committed consumer, up to the committed end: the offsets of each transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUIET,
            "group.id": topic,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": fetch_bytes,
        }
    )
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def is_read() -> bool:
            for message in consumer.consume(1_000, 0.2):
                assert message.error() is None, message.error()
                found[(message.value() or b"").rstrip(b".")].append(message.offset() or 0)
            return _LAST in found

        wait_for(is_read, _WITHIN_S, lambda: f"what was committed; read were {dict(found)}")
    finally:
        consumer.close()
    return dict(found)
