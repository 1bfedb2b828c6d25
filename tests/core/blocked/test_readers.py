"""Blocked readers: one entry for each transaction, with its partitions, its owner, and the groups that wait."""

from __future__ import annotations

import time
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.core.blocked import readers
from app.core.blocked.advice import AdviceVerdict
from app.core.blocked.facts import PartitionFacts, Refused, TaskOwner
from app.core.blocked.loops.blocked_readers import BlockedReadersWatch
from app.core.blocked.readers import BlockedReaders, OpenSince, WaitingGroup, blocked_readers
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.hanging.report import SearchReport
from app.core.journals.group_records import TOPIC as GROUPS
from app.core.journals.group_values.classic import ClassicGroup, ClassicMember
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.kit.clock import SystemClock
from tests.conftest import MakeTopic
from tests.core.blocked.answers import ID, NOW_MS, asked, held, known, read_through
from tests.support.control_plane import CLUSTER, KAFKA_CLUSTER_ID, ControlPlane
from tests.support.kafka_clients import initialise
from tests.support.observing import live_transaction
from tests.support.quiet import QUIET
from tests.support.topics import delete_topics, unique_name
from tests.support.watched import watching

_DEADLINE_S = 20.0
PRODUCER = 4015
OLD = held(known(age_ms=11_000, timeout_ms=20_000))
JOURNAL = JournalStatus(topic="t", phase=ReadingPhase.LIVE, phase_since_ms=NOW_MS)


def snapshot(*states: TransactionState) -> Snapshot:
    return Snapshot(
        cluster="c",
        number=1,
        at_ms=NOW_MS,
        transaction_journal=JOURNAL,
        group_journal=JOURNAL,
        transactions=MappingProxyType({str(n): live_transaction(str(n), state) for n, state in enumerate(states)}),
    )


def state(
    producer_id: int = PRODUCER,
    status: TransactionStatus = TransactionStatus.ONGOING,
    *,
    topic: str = "orders",
    numbers: tuple[int, ...] = (0,),
) -> TransactionState:
    parts = (TopicPartitions(topic, numbers), TopicPartitions(GROUPS, (12,)))
    return TransactionState(producer_id, 2, 60_000, status, parts, start_ms=NOW_MS - 5_000)


def suspected(since: OpenSince, seen: Snapshot, *, at_ms: int) -> list[Partition]:
    return since.see(seen, SearchReport(cluster="c"), now_ms=at_ms)


def group(name: str, offset: int, *, client_id: str = "shop", is_pending: bool = False) -> LiveGroup:
    """With one member, and an offset of orders-0."""
    member = ClassicMember("m", client_id=client_id, client_host="/10.0.0.7")
    stored = CommittedOffset(OffsetCommit(offset), 1, PRODUCER if is_pending else -1, 2 if is_pending else -1)
    return LiveGroup(
        name,
        classic=ClassicGroup("consumer", 1, members=(member,)),
        offsets={} if is_pending else {("orders", 0): stored},
        pending={("orders", 0, PRODUCER): stored} if is_pending else {},
    )


def causes(
    *facts: PartitionFacts, groups: tuple[LiveGroup, ...] = (), owners: dict[str, TaskOwner] | None = None
) -> tuple[BlockedReaders, ...]:
    """Of transactions with the ages that their coordinators measured."""
    by_name = {one.group: one for one in groups}
    found, problem = blocked_readers("c", facts, asked(owners=owners), by_name, OpenSince())
    assert not problem
    return found


def test_only_partitions_of_transactions_that_stay_open_are_suspected() -> None:
    since, seen = OpenSince(), snapshot(state(numbers=(0, 3)), state(9, TransactionStatus.COMPLETE_COMMIT))
    assert suspected(since, seen, at_ms=NOW_MS) == []
    assert suspected(since, seen, at_ms=NOW_MS + 9_999) == []
    assert suspected(since, seen, at_ms=NOW_MS + 10_000) == [Partition("orders", 0), Partition("orders", 3)]
    assert suspected(since, snapshot(state(producer_id=10)), at_ms=NOW_MS + 20_000) == []
    # The first one has ended in between, and begins anew.
    assert suspected(since, seen, at_ms=NOW_MS + 21_000) == []


def test_transactions_of_a_busy_producer_are_told_apart_without_a_new_epoch() -> None:
    since = OpenSince()
    for look in range(20):
        at_ms = NOW_MS + 1_000 * look
        begun = msgspec.structs.replace(state(), start_ms=at_ms - 50)
        assert suspected(since, snapshot(begun), at_ms=at_ms) == []


def test_a_transaction_that_began_after_the_suspected_one_is_left_out() -> None:
    young, old = held(known(age_ms=9_000)), held(known(age_ms=11_000))
    assert blocked_readers("c", [young], asked(), {}, OpenSince()) == ((), "")
    (one,), _ = blocked_readers("c", [old], asked(), {}, OpenSince())
    assert one.since_ms == NOW_MS - 11_000
    # Without an observer, a transaction of unknown age is told.
    unmeasured = held(known(age_ms=9_000, clock=None))
    assert blocked_readers("c", [unmeasured], asked(), {}, OpenSince()) == ((), "")
    assert len(blocked_readers("c", [unmeasured], asked(), {})[0]) == 1
    assert blocked_readers("c", [young], asked(), {}) == ((), "")


def test_partitions_without_an_answer_are_a_problem_and_not_free() -> None:
    refused = Refused("ListOffsets", "TOPIC_AUTHORIZATION_FAILED", "DESCRIBE on the topic orders")
    hidden = msgspec.structs.replace(held(known()), ends=refused)
    causes, problem = blocked_readers("c", [hidden, hidden], asked(), {}, OpenSince())
    assert causes == ()
    assert "The end offset of orders-0 is not known" in problem
    assert "And 1 other partition." in problem


def test_a_clock_that_goes_back_makes_no_transaction_old() -> None:
    since, seen = OpenSince(), snapshot(state())
    assert suspected(since, seen, at_ms=NOW_MS) == []
    assert suspected(since, seen, at_ms=NOW_MS - 3_600_000) == []
    assert suspected(since, seen, at_ms=NOW_MS - 3_600_000 + 9_999) == []


def test_partitions_of_one_transaction_are_one_cause() -> None:
    second = msgspec.structs.replace(OLD, partition=1)
    (one,) = causes(OLD, second, msgspec.structs.replace(read_through(OLD), partition=2))
    assert [part.name for part in one.partitions] == ["orders-0", "orders-1"]
    assert (one.transactional_id, one.producer_id, one.producer_epoch, one.records) == (ID, PRODUCER, 2, 8)
    assert one.since_ms == NOW_MS - 11_000
    assert one.sentence == "orders-0 and 1 other partition: 8 records blocked by orders-7"


def test_a_producer_without_an_id_is_named_by_itself() -> None:
    (one,) = causes(held(None))
    assert one.verdict is AdviceVerdict.END
    assert one.sentence == "orders-0: 4 records blocked by producer 4015, whose transactional id is not known"


def test_groups_that_wait_have_members_and_are_not_beyond_the_last_stable_offset() -> None:
    empty = msgspec.structs.replace(group("gone", 10), classic=None)
    (one,) = causes(OLD, groups=(group("behind", 4), group("waits", 10), group("uncommitted", 12), empty))
    assert one.groups == (WaitingGroup(group="waits", before=0), WaitingGroup(group="behind", before=6))


def test_owner_is_the_task_or_the_clients_of_the_producers_group() -> None:
    task = TaskOwner(name="flights, instance 0, task 0 on h (running)", heartbeat_ms=NOW_MS - 60_000)
    (ours,) = causes(OLD, owners={ID: task})
    assert (ours.owner, ours.is_ours) == (task.name, True)
    (foreign,) = causes(OLD, groups=(group("billing", 10, is_pending=True),), owners={})
    assert (foreign.owner, foreign.is_ours) == ("a client of group billing: shop on /10.0.0.7", False)
    (unknown,) = causes(OLD, owners={})
    assert unknown.owner == ""


def test_a_task_at_work_is_no_problem_for_a_while() -> None:
    task = TaskOwner(name="writer 0 of the query windows", heartbeat_ms=NOW_MS - 500)
    assert causes(held(known(age_ms=29_000, timeout_ms=60_000)), owners={ID: task}) == ()
    (late,) = causes(held(known(age_ms=31_000, timeout_ms=60_000)), owners={ID: task})
    assert late.verdict is AdviceVerdict.OWNER


def registered(plane: ControlPlane, bootstrap_servers: str) -> Cluster:
    return Cluster(
        name=CLUSTER,
        kafka_cluster_id=KAFKA_CLUSTER_ID,
        bootstrap_servers=bootstrap_servers,
        created_at=plane.now,
        created_by="anna",
    )


def watch_of(plane: ControlPlane, observations: Observations) -> BlockedReadersWatch:
    return BlockedReadersWatch(
        unit_of_work=plane.uow,
        brokers=KafkaTransactions(environment={}, secrets_dir=None),
        observations=observations,
        clock=SystemClock(),
        where="here",
    )


def open_one(kafka: KafkaCluster, topic: str) -> tuple[str, Producer]:
    name = unique_name("blocker")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET, "transactional.id": name})
    initialise(producer)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0)
    assert producer.flush(_DEADLINE_S) == 0
    return name, producer


def waiting_member(kafka: KafkaCluster, topic: str) -> tuple[str, Consumer]:
    """A member of a group that has read up to the open transaction."""
    name = unique_name("waits")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, **QUIET, "group.id": name, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + _DEADLINE_S
    while (message := consumer.poll(0.5)) is None:
        assert time.monotonic() < deadline, "the member has read nothing"
    assert message.error() is None
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    return name, consumer


async def test_loop_finds_the_blocker_on_a_broker_until_it_ends(
    plane: ControlPlane, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=1)
    monkeypatch.setattr(readers, "OPEN_AFTER_MS", 0)
    async with plane.uow() as uow:
        await uow.of(ClusterStore).add(registered(plane, kafka.bootstrap_servers))
        await uow.commit()
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
    plain.produce(topic, b"before", partition=0)
    assert plain.flush(_DEADLINE_S) == 0
    name, blocker = open_one(kafka, topic)
    for _ in range(3):
        plain.produce(topic, b"behind it", partition=0)
    assert plain.flush(_DEADLINE_S) == 0
    waits, member = waiting_member(kafka, topic)
    observations = Observations(is_on=True)
    watch = watch_of(plane, observations)
    with watching(kafka, tmp_path) as watched:
        seen = watched.until(
            lambda one: (
                name in one.transactions
                and one.transactions[name].is_open
                and waits in one.groups
                and one.groups[waits].offsets
            ),
            "the transaction and the group",
        )
        observations.publish(msgspec.structs.replace(seen, cluster=CLUSTER))
        await watch.turn()
        report = observations.blocked_of(CLUSTER)
        (one,) = [one for one in report.causes if one.transactional_id == name]
        (part,) = one.partitions
        assert (part.topic, part.last_stable, part.high_watermark, part.records) == (topic, 1, 5, 4)
        assert waits in [group.group for group in one.groups]
        assert not report.problem
        blocker.abort_transaction(_DEADLINE_S)
        ended = watched.until(lambda one: not one.transactions[name].is_open, "the end of the transaction")
        observations.publish(msgspec.structs.replace(ended, cluster=CLUSTER))
        await watch.turn()
    assert name not in [one.transactional_id for one in observations.blocked_of(CLUSTER).causes]
    member.close()


async def test_partitions_of_a_deleted_topic_have_no_readers(
    plane: ControlPlane, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "OPEN_AFTER_MS", 0)
    async with plane.uow() as uow:
        await uow.of(ClusterStore).add(registered(plane, kafka.bootstrap_servers))
        await uow.commit()
    topic = make_topic(partitions=1)
    name, blocker = open_one(kafka, topic)
    observations = Observations(is_on=True)
    watch = watch_of(plane, observations)
    with watching(kafka, tmp_path) as watched:
        seen = watched.until(
            lambda one: name in one.transactions and one.transactions[name].is_open, "the open transaction"
        )
    alone = MappingProxyType({name: seen.transactions[name]})
    observations.publish(msgspec.structs.replace(seen, cluster=CLUSTER, transactions=alone, open_transactions=alone))
    await watch.turn()
    assert [one.transactional_id for one in observations.blocked_of(CLUSTER).causes] == [name]
    delete_topics(kafka.bootstrap_servers, [topic])
    await watch.turn()
    assert (observations.blocked_of(CLUSTER).causes, observations.blocked_of(CLUSTER).problem) == ((), "")
    blocker.purge()


async def test_a_cluster_without_an_observer_is_not_called_free(plane: ControlPlane) -> None:
    observations = Observations(is_on=True)
    watch = watch_of(plane, observations)
    lost = msgspec.structs.replace(JOURNAL, phase=ReadingPhase.LOST, problem="no broker answers", as_of_ms=NOW_MS)
    observations.publish(msgspec.structs.replace(snapshot(), transaction_journal=lost))
    await watch.turn()
    assert (observations.blocked_of("c").at_ms, observations.blocked_of("c").problem) == (-1, "no broker answers")
    live = msgspec.structs.replace(JOURNAL, as_of_ms=int(time.time() * 1000))
    observations.publish(msgspec.structs.replace(snapshot(), transaction_journal=live, number=2))
    await watch.turn()
    assert observations.blocked_of("c").at_ms > 0
    assert observations.blocked_of("c").problem == ""


async def test_last_known_causes_stay_with_the_problem_while_brokers_do_not_answer(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "OPEN_AFTER_MS", 0)
    async with plane.uow() as uow:
        await uow.of(ClusterStore).add(registered(plane, "127.0.0.1:1"))
        await uow.commit()
    observations = Observations(is_on=True)
    observations.publish(msgspec.structs.replace(snapshot(state()), cluster=CLUSTER))
    (before,) = causes(OLD)
    observations.note_blocked(readers.BlockedReport(cluster=CLUSTER, at_ms=NOW_MS, causes=(before,)))
    watch = watch_of(plane, observations)
    await watch.turn()
    report = observations.blocked_of(CLUSTER)
    assert (report.at_ms, report.causes) == (NOW_MS, (before,))
    assert "127.0.0.1:1" in report.problem
