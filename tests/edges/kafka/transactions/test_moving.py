"""Changes during a diagnosis are not taken for hanging: busy producers, moving coordinators."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from app.core.blocked.diagnosis import AdviceVerdict, diagnose_partition
from app.core.blocked.facts import Coordinators, KnownTransaction, LogEnds, Refused
from app.core.blocked.service.explaining import explain_topic
from app.core.clusters.partition import Partition
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_client import errors
from app.edges.kafka.transactions.client import TransactionClient
from app.edges.kafka.transactions.leaders import Leaders
from app.edges.kafka.transactions.looking import look_at_partitions
from app.edges.kafka.transactions.searching import KafkaSearch
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

_ASK_FOR_S = 6.0
_DEADLINE_S = 60.0


@pytest.mark.slow
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
    seen: Counter[AdviceVerdict] = Counter()
    try:
        until = time.monotonic() + _ASK_FOR_S
        while time.monotonic() < until:
            (facts,) = await scene.brokers.look_at_partitions(scene.connection, [Partition(topic, 0)])
            seen[diagnose_partition(facts, await scene.asked(())).verdict] += 1
    finally:
        stop.set()
        busy.join(_DEADLINE_S)
    assert not failures
    assert seen.keys() <= {AdviceVerdict.FREE, AdviceVerdict.WAIT, AdviceVerdict.UNSETTLED}, seen
    assert seen[AdviceVerdict.UNSETTLED] + seen[AdviceVerdict.WAIT], f"none was open in any look: {seen}"


@pytest.mark.parametrize(
    ("end", "by_two_answers"),
    [
        (Producer.abort_transaction, AdviceVerdict.END),
        # Its marker may have been left out: then it would be committed, and an abort would take that back.
        (Producer.commit_transaction, AdviceVerdict.CANNOT_TELL),
    ],
    ids=["aborted", "committed"],
)
async def test_transaction_that_ends_between_two_questions_does_not_hang(
    scene: Scene, end: Callable[[Producer, float], None], by_two_answers: AdviceVerdict
) -> None:
    """Its leader has it open, its coordinator has not any more: by these two answers alone it would hang."""
    at = Partition(scene.topic(), 0)
    name, producer = scene.leave_open(at.topic)

    class Slow(TransactionClient):
        """The transaction ends after the leader was asked, and before its coordinator is."""

        def coordinators(self, producer_ids: Collection[int], *, now_ms: Callable[[], int]) -> Coordinators:
            end(producer, _DEADLINE_S)
            wait_for(self._is_decided, _DEADLINE_S, f"{name} to be decided in every partition")
            return super().coordinators(producer_ids, now_ms=now_ms)

        def _is_decided(self) -> bool:
            known = self.describe_transactions([name])[name]
            return isinstance(known, KnownTransaction) and not known.is_open

    attempt = ConnectionAttempt(scene.bootstrap_servers, _DEADLINE_S)
    with Slow(scene.connection, attempt) as client:
        (facts,) = look_at_partitions(client, scene.connection, attempt, [at])
    asked = await scene.asked(())
    assert diagnose_partition(facts, asked).verdict is AdviceVerdict.UNSETTLED
    assert not isinstance(facts.open, Refused)
    by_first_answer = replace(facts, still_open=frozenset(row.identity for row in facts.open))
    assert diagnose_partition(by_first_answer, asked).verdict is by_two_answers


async def test_transaction_whose_coordinator_is_killed_does_not_hang(kafka_cluster3: KafkaCluster) -> None:
    """Until its partition of the journal has a new leader no broker knows the id, and it lives all the same."""
    scene = Scene(kafka_cluster3.bootstrap_servers)
    topic = scene.topic()
    name, producer = scene.leave_open(topic)
    known = await scene.brokers.describe_transaction(scene.connection, name)
    assert isinstance(known, KnownTransaction)
    victim = kafka_cluster3.broker(known.coordinator_id)
    victim.kill()
    seen: list[AdviceVerdict] = []
    try:
        deadline = time.monotonic() + _DEADLINE_S
        while not seen or seen[-1] is not AdviceVerdict.WAIT:
            assert time.monotonic() < deadline, f"not told by the new coordinator: {seen}"
            found = await explain_topic(scene.brokers, scene.connection, topic, scene.asked)
            seen.append(found.verdict)
            assert found.verdict is not AdviceVerdict.END, seen
        again = await scene.brokers.describe_transaction(scene.connection, name)
        assert isinstance(again, KnownTransaction)
        assert again.coordinator_id != known.coordinator_id
    finally:
        victim.start()
    producer.abort_transaction(_DEADLINE_S)


class AskedNoSecondTime(TransactionClient):
    """Its time is over when it comes to ask for the leaders again."""

    _rounds = 0

    def _leaders_by_topic(self, topics: Collection[str]) -> Leaders:
        self._rounds += 1
        if self._rounds == 2:
            raise errors.RequestTimedOutError("Request timed out after 0 ms")
        return super()._leaders_by_topic(topics)


async def test_partition_whose_only_broker_is_gone_costs_the_others_no_answer(kafka_cluster3: KafkaCluster) -> None:
    scene = Scene(kafka_cluster3.bootstrap_servers)
    topic = unique_name()
    create_topic(scene.bootstrap_servers, topic, partitions=3, replication_factor=1)
    scene.leave_open(topic)
    with TransactionClient(scene.connection, ConnectionAttempt(scene.bootstrap_servers, _DEADLINE_S)) as client:
        leaders = client.leaders([Partition(topic, number) for number in range(3)])
    gone = Partition(topic, 1)
    victim = kafka_cluster3.broker(leaders[gone])
    with KafkaSearch(environment={}, secrets_dir=None).open_search(scene.connection, timeout_s=4) as search:
        there = search.all_partitions()
        victim.kill()
        try:
            found = await explain_topic(scene.brokers, scene.connection, topic, scene.asked)
            ends = search.stable_ends(there)
            with AskedNoSecondTime(scene.connection, ConnectionAttempt(scene.bootstrap_servers, _DEADLINE_S)) as client:
                of_one_round = client.ends([Partition(topic, number) for number in range(3)])
        finally:
            victim.start()
    assert isinstance(of_one_round[gone], Refused)
    assert isinstance(of_one_round[Partition(topic, 2)], LogEnds), "time that ran out costs what was answered"
    assert gone not in ends.ends
    assert (topic, 2) in ends.ends
    assert ends.is_stale
    assert f"broker {leaders[gone]} does not answer" in ends.silent[0]
    verdicts = {one.subject: one.verdict for one in found.partitions}
    assert verdicts.pop(f"{topic}-1") is AdviceVerdict.CANNOT_TELL
    assert verdicts.pop(f"{topic}-0") in {AdviceVerdict.WAIT, AdviceVerdict.CANNOT_TELL}
    assert verdicts == {f"{topic}-2": AdviceVerdict.FREE}
