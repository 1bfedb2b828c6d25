"""A fact about brokers: who was killed while a transaction was open leaves its markers out (docs/loop.md)."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.domain.journals import transaction_state
from app.domain.journals.record_batch import RecordBatch, read_records
from app.domain.journals.transaction_state import TransactionState, TransactionStatus
from app.embedded.kafka import KafkaCluster
from app.embedded.maven import KAFKA_JARS, OLD_KAFKA_JARS
from app.kafka.attempt import Attempt
from app.kafka.raw_fetch import read_logs
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.quiet import QUIET
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for

_ID = "once"
_ENDED_S = 60.0
_READ_S = 60.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jars", "shown"),
    [
        pytest.param(OLD_KAFKA_JARS, [b"committed"], id="3.9.2"),
        # If this fails, brokers have mended it: then a lone one may be taken away in runs of faults again.
        pytest.param(KAFKA_JARS, [b"aborted", b"committed"], id="4.3.1"),
    ],
)
def test_what_a_lone_broker_was_killed_in_comes_out_with_the_next_commit(jars: str, shown: list[bytes]) -> None:
    """It comes back under its old registration, takes its coordinator up, and times the transaction out; then it is
    fenced, since it is a second one of its name, and has no leader for the markers."""
    topic = unique_name("left-out")
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, jars=jars) as cluster:
        create_topic(cluster.bootstrap_servers, topic)
        first = _producer(cluster)
        first.begin_transaction()
        first.produce(topic, b"aborted", partition=0)
        assert first.flush(10) == 0
        (broker,) = cluster.brokers
        broker.kill()
        broker.start()
        wait_for(lambda: _status(cluster) is TransactionStatus.COMPLETE_ABORT, _ENDED_S, "the end of the transaction")
        second = _producer(cluster)
        second.begin_transaction()
        second.produce(topic, b"committed", partition=0)
        second.commit_transaction(_ENDED_S)
        assert _committed(cluster, topic) == shown
        del first


def _producer(cluster: KafkaCluster) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUIET,
            "transactional.id": _ID,
            "transaction.timeout.ms": 2_000,
        }
    )
    producer.init_transactions(_ENDED_S)
    return producer


def _status(cluster: KafkaCluster) -> TransactionStatus | None:
    """The last that its coordinator has written of it."""
    last: TransactionStatus | None = None
    servers = cluster.bootstrap_servers
    for _, batch in read_logs({"bootstrap.servers": servers}, Attempt(servers, _READ_S), transaction_state.TOPIC):
        assert isinstance(batch, RecordBatch)
        records = read_records(batch)
        assert isinstance(records, list)
        for record in records:
            state = transaction_state.decode_value(record.value)
            if transaction_state.decode_key(record.key or b"") == _ID and isinstance(state, TransactionState):
                last = state.status
    return last


def _committed(cluster: KafkaCluster, topic: str) -> list[bytes]:
    """What a reader under read_committed is given up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUIET,
            "group.id": topic,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def is_read() -> bool:
            found.extend(message.value() or b"" for message in consumer.consume(10, 0.2))
            return b"committed" in found

        wait_for(is_read, _READ_S, lambda: f"what was committed; read were {found}")
    finally:
        consumer.close()
    return found
