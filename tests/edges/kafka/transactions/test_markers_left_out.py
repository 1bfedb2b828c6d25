"""A fact about brokers: who was killed while a transaction was open leaves its markers out (docs/client-facts.md)."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from app.core.blocked.ending import EndPlan
from app.core.blocked.service.ending import plan_ending
from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals import transaction_state
from app.core.journals.record_batch import RecordBatch, read_records
from app.core.journals.transaction_state import TransactionState, TransactionStatus
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import KAFKA_JARS, OLD_KAFKA_JARS
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from tests.edges.kafka.transactions.conftest import Scene
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
        # If this fails, brokers have fixed it: then a lone one may be killed in fault runs again.
        pytest.param(KAFKA_JARS, [b"aborted", b"committed"], id="4.3.1"),
    ],
)
def test_the_transaction_of_a_killed_lone_broker_ends_with_the_next_commit(jars: str, shown: list[bytes]) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jars", "shown"),
    [
        pytest.param(OLD_KAFKA_JARS, [b"committed", b"later"], id="3.9.2"),
        # If this fails, brokers have fixed it: docs/client-facts.md warns that committed records can be lost.
        pytest.param(KAFKA_JARS, [b"later"], id="4.3.1"),
    ],
)
def test_records_committed_without_the_only_replica_are_lost_with_the_next_abort(jars: str, shown: list[bytes]) -> None:
    """Three brokers, a topic of one replica: the client is told that its transaction is committed, which is so in the
    coordinator's journal, and nowhere else."""
    topic = unique_name("left-out")
    with KafkaCluster.start(brokers=3, overrides=TEST_BROKER_SETTINGS, jars=jars) as cluster:
        create_topic(cluster.bootstrap_servers, topic, replication_factor=1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
        wait_for(lambda: _leader(admin, topic) != -1, _ENDED_S, "a leader")
        holder = cluster.broker(_leader(admin, topic))
        _producer(cluster)  # the journal is created for the first requested id
        wait_for(lambda: _coordinators(admin), _ENDED_S, "the coordinators")
        transactional_id = _coordinated_elsewhere(admin, holder.node_id)
        producer = _producer(cluster, transactional_id, timeout_ms=60_000)
        producer.begin_transaction()
        producer.produce(topic, b"committed", partition=0)
        assert producer.flush(10) == 0
        holder.kill()
        wait_for(lambda: _leader(admin, topic) == -1, _ENDED_S, "the leader to be gone")
        producer.commit_transaction(_ENDED_S)
        if jars == KAFKA_JARS:
            wait_for(
                lambda: _status(cluster, transactional_id) is TransactionStatus.COMPLETE_COMMIT,
                _ENDED_S,
                "the end of a transaction whose only partition is away",
            )
        holder.start()
        wait_for(lambda: _leader(admin, topic) == holder.node_id, _ENDED_S, "its leader to be back")
        if jars == KAFKA_JARS:
            plan = asyncio.run(_plan_end(cluster, topic))
            assert any("may be committed" in one for one in plan.objections), plan
        producer.begin_transaction()
        producer.produce(topic, b"aborted", partition=0)
        assert producer.flush(_ENDED_S) == 0
        producer.abort_transaction(_ENDED_S)
        producer.begin_transaction()
        producer.produce(topic, b"later", partition=0)
        producer.commit_transaction(_ENDED_S)
        assert _committed(cluster, topic, up_to=b"later") == shown


async def _plan_end(cluster: KafkaCluster, topic: str) -> EndPlan:
    """Return the diagnosis for a user who wants to end the hanging transaction."""
    scene = Scene(cluster.bootstrap_servers)
    return await plan_ending(scene.brokers, scene.connection, topic, 0, scene.asked)


def _leader(admin: AdminClient, topic: str) -> int:
    """-1: none, or unknown to this broker."""
    partitions = admin.list_topics(topic, 10).topics[topic].partitions
    return partitions[0].leader if partitions else -1


def _coordinators(admin: AdminClient) -> list[int]:
    """The coordinator of each partition of the journal; none while it is not there whole."""
    partitions = admin.list_topics(transaction_state.TOPIC, 10).topics[transaction_state.TOPIC].partitions
    leaders = [partitions[number].leader for number in sorted(partitions)]
    return leaders if all(leader >= 0 for leader in leaders) else []


def _coordinated_elsewhere(admin: AdminClient, node_id: int) -> str:
    """A transactional id whose coordinator is another broker than that one."""
    leaders = _coordinators(admin)
    return next(
        name
        for name in (f"elsewhere-{number}" for number in range(1_000))
        if leaders[transaction_log_partition(name, len(leaders))] != node_id
    )


def _producer(cluster: KafkaCluster, transactional_id: str = _ID, *, timeout_ms: int = 2_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUIET,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    producer.init_transactions(_ENDED_S)
    return producer


def _status(cluster: KafkaCluster, transactional_id: str = _ID) -> TransactionStatus | None:
    """The last that its coordinator has written of it."""
    last: TransactionStatus | None = None
    servers = cluster.bootstrap_servers
    for _, batch in read_logs(
        {"bootstrap.servers": servers}, ConnectionAttempt(servers, _READ_S), transaction_state.TOPIC
    ):
        assert isinstance(batch, RecordBatch)
        records = read_records(batch)
        assert isinstance(records, list)
        for record in records:
            state = transaction_state.decode_value(record.value)
            key = transaction_state.decode_key(record.key or b"")
            if key == transactional_id and isinstance(state, TransactionState):
                last = state.status
    return last


def _committed(cluster: KafkaCluster, topic: str, *, up_to: bytes = b"committed") -> list[bytes]:
    """Return the records of a read_committed consumer up to that one."""
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
            return up_to in found

        wait_for(is_read, _READ_S, lambda: f"what was committed; read were {found}")
    finally:
        consumer.close()
    return found
