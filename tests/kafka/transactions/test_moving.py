"""What moves while it is asked about is not taken for hanging: busy producers, coordinators that are away."""

from __future__ import annotations

import threading
import time
from collections import Counter

from confluent_kafka import Producer
from msgspec.structs import replace

from app.domain.stuck.diagnosis import Verdict, diagnose_partition
from app.domain.stuck.facts import KnownTransaction, Refused
from app.embedded.kafka import KafkaCluster
from app.ports.brokers import TopicPartition
from app.services.stuck.explaining import explain_topic
from tests.kafka.transactions.conftest import Scene
from tests.support.kafka_clients import QUIET, initialise
from tests.support.topics import unique_name

_ASK_FOR_S = 6.0
_DEADLINE_S = 60.0


async def test_transactions_that_come_and_go_while_brokers_are_asked_never_hang(scene: Scene) -> None:
    topic = scene.topic()
    stop = threading.Event()
    failures: list[BaseException] = []

    def commit_all_the_time() -> None:
        settings = {"transactional.id": unique_name("busy"), "linger.ms": 0}
        producer = Producer({**scene.connection, **QUIET, **settings})
        try:
            initialise(producer)
            while not stop.is_set():
                producer.begin_transaction()
                producer.produce(topic, b"value", partition=0)
                producer.commit_transaction(_DEADLINE_S)
        except BaseException as error:
            failures.append(error)
            raise

    busy = threading.Thread(target=commit_all_the_time, daemon=True)
    busy.start()
    seen: Counter[Verdict] = Counter()
    by_one_look: Counter[Verdict] = Counter()
    try:
        until = time.monotonic() + _ASK_FOR_S
        # The control: with the leader's first answer alone, some of them do look as if they hung.
        while time.monotonic() < until or not by_one_look[Verdict.END]:
            assert time.monotonic() < until + _DEADLINE_S, f"no look fell into the end of a transaction: {seen}"
            (facts,) = await scene.brokers.look_at_partitions(scene.connection, [TopicPartition(topic, 0)])
            asked = await scene.asked(())
            seen[diagnose_partition(facts, asked).verdict] += 1
            assert not isinstance(facts.open, Refused)
            as_first_seen = replace(facts, still_open=frozenset(row.identity for row in facts.open))
            by_one_look[diagnose_partition(as_first_seen, asked).verdict] += 1
    finally:
        stop.set()
        busy.join(_DEADLINE_S)
    assert not failures
    assert set(seen) <= {Verdict.FREE, Verdict.WAIT, Verdict.UNSETTLED}, seen


async def test_transaction_whose_coordinator_is_killed_does_not_hang(kafka_cluster3: KafkaCluster) -> None:
    """Until its partition of the journal has a new leader no broker knows the id, and it lives all the same."""
    scene = Scene(kafka_cluster3.bootstrap_servers)
    topic = scene.topic()
    name, producer = scene.leave_open(topic)
    known = await scene.brokers.describe_transaction(scene.connection, name)
    assert isinstance(known, KnownTransaction)
    victim = kafka_cluster3.broker(known.coordinator_id)
    victim.kill()
    seen: list[Verdict] = []
    try:
        deadline = time.monotonic() + _DEADLINE_S
        while not seen or seen[-1] is not Verdict.WAIT:
            assert time.monotonic() < deadline, f"not told by the new coordinator: {seen}"
            found = await explain_topic(scene.brokers, scene.connection, topic, scene.asked)
            seen.append(found.verdict)
            assert found.verdict is not Verdict.END, seen
        again = await scene.brokers.describe_transaction(scene.connection, name)
        assert isinstance(again, KnownTransaction)
        assert again.coordinator_id != known.coordinator_id
    finally:
        victim.start()
    producer.abort_transaction(_DEADLINE_S)
