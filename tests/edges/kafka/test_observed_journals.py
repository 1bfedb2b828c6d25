"""The observer on real brokers: it knows their records, and reports and survives their failures."""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient

from app.core.journals import group_records, transaction_state
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_transactions import LiveTransaction, LiveTransactions
from app.core.observing.journals import FetchOutcome
from app.core.observing.snapshot import ReadingPhase, SnapshotSource
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import KAFKA_JARS
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.journal_tail import JournalTail
from app.edges.kafka.raw_fetch import read_logs
from tests.conftest import MakeTopic
from tests.edges.kafka.test_raw_fetch import produce
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.journal_recording import VERSIONS, Stage, Version, play
from tests.support.permissions import GUARDED_BROKER_SETTINGS, allow_again, deny
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for
from tests.support.watched import watching

TRANSACTIONS = transaction_state.TOPIC
GROUPS = group_records.TOPIC
_TIMEOUT_S = 30.0


@contextmanager
def tail_of(kafka: KafkaCluster, *topics: str) -> Generator[JournalTail]:
    attempt = ConnectionAttempt(kafka.bootstrap_servers, _TIMEOUT_S)
    with JournalTail({"bootstrap.servers": kafka.bootstrap_servers}, attempt, topics, timeout_s=5) as tail:
        yield tail


@pytest.mark.slow
@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_the_published_state_is_the_state_of_the_journals(version: Version, tmp_path: Path) -> None:
    """Watched from before the journals were there, through every scene of the recordings."""
    with KafkaCluster.start(jars=version.jars, overrides={**TEST_BROKER_SETTINGS, **version.settings}) as kafka:
        with watching(kafka, tmp_path) as watched:
            absent = watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.ABSENT, "no journal yet")
            assert not absent.transactions
            topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=_TIMEOUT_S).topics
            assert not {TRANSACTIONS, GROUPS} & set(topics), "looking for the journals has created them"
            play(Stage(kafka.bootstrap_servers, version.jars))
            watched.until(lambda seen: "open-0" in seen.transactions and "waiting" in seen.groups, "the last scene")
            seen = watched.until_live()
        transactions, groups = LiveTransactions(), LiveGroups()
        attempt = ConnectionAttempt(kafka.bootstrap_servers, _TIMEOUT_S)
        for partition, batch in read_logs({"bootstrap.servers": kafka.bootstrap_servers}, attempt, TRANSACTIONS):
            transactions.apply(partition, batch)
        for partition, batch in read_logs({"bootstrap.servers": kafka.bootstrap_servers}, attempt, GROUPS):
            groups.apply(partition, batch)
        assert dict(seen.transactions) == transactions.ids
        # A member's session may end meanwhile; what is stored and pending does not change by itself.
        assert {name: (group.offsets, group.pending) for name, group in seen.groups.items()} == {
            name: (group.offsets, group.pending) for name, group in groups.groups.items()
        }
        assert seen.transaction_journal.complete_since_ms is None
        assert not seen.transaction_journal.unreadable
        assert not seen.group_journal.unreadable


def test_restart_reads_only_the_rest(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, before, after = make_topic(), unique_name("before"), unique_name("after")
    produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=before).commit_transaction(_TIMEOUT_S)
    with watching(kafka, tmp_path) as watched:
        first = watched.until(
            lambda seen: before in seen.transactions and not seen.transactions[before].is_open, "the commit"
        )
    produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=after).commit_transaction(_TIMEOUT_S)
    begun_at: dict[tuple[str, int], int] = {}
    follow = JournalTail.follow

    def noted(self: JournalTail, topic: str, partition: int, offset: int) -> None:
        begun_at[topic, partition] = offset
        follow(self, topic, partition, offset)

    monkeypatch.setattr(JournalTail, "follow", noted)
    with watching(kafka, tmp_path) as watched:
        second = watched.until(
            lambda seen: after in seen.transactions and not seen.transactions[after].is_open, "the id after the restart"
        )
    assert second.transactions[before] == first.transactions[before]
    partition, offset = second.transactions[before].partition, second.transactions[before].offset
    assert begun_at[TRANSACTIONS, partition] > offset


def test_log_without_the_read_position_is_reported_and_read_from_its_start(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    produce(kafka.bootstrap_servers, topic, ["0", "1", "2", "3"])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        deleted.result(_TIMEOUT_S)
    # Before its beginning, as after a deletion; behind its end, as after an unclean election.
    for lost in (0, 99):
        with tail_of(kafka, topic) as tail:
            tail.follow(topic, 0, lost)
            (gone,) = tail.poll(timeout_s=_TIMEOUT_S)
            assert (gone.heard, gone.next_offset) == (FetchOutcome.GONE, 2)
            (read,) = tail.poll(timeout_s=_TIMEOUT_S)
            assert (read.heard, read.next_offset, read.end) == (FetchOutcome.READ, 4, 4)


def test_frozen_leader_delays_its_own_partitions_only(kafka_cluster3: KafkaCluster) -> None:
    topic = unique_name()
    create_topic(kafka_cluster3.bootstrap_servers, topic, partitions=3)
    admin = AdminClient({"bootstrap.servers": kafka_cluster3.bootstrap_servers})
    leaders = {
        number: partition.leader
        for number, partition in admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions.items()
    }
    frozen = kafka_cluster3.broker(leaders[0])
    heard: set[int] = set()
    with tail_of(kafka_cluster3, topic) as tail:
        for number in leaders:
            tail.follow(topic, number, 0)

        def hear() -> set[int]:
            heard.update(answer.partition for answer in tail.poll(timeout_s=0.1))
            return heard

        wait_for(lambda: hear() == set(leaders), _TIMEOUT_S, lambda: f"all partitions answer, heard {heard}")
        frozen.pause()
        try:
            # Its last answer may still be on the way.
            tail.poll(timeout_s=0.5)
            tail.poll(timeout_s=0.5)
            heard.clear()
            others = {number for number, leader in leaders.items() if leader != frozen.node_id}
            wait_for(lambda: hear() >= others, _TIMEOUT_S, lambda: f"the others answer, heard {heard}")
            assert 0 not in heard
        finally:
            frozen.resume()
        wait_for(lambda: 0 in hear(), 60, lambda: f"the leader that was frozen, or its successor; heard {heard}")
    kafka_cluster3.wait_until_complete()


@pytest.mark.slow
def test_frozen_coordinator_is_named_and_the_others_say_what_they_know(kafka_cluster3: KafkaCluster) -> None:
    topic, names = unique_name(), [unique_name("open") for _ in range(6)]
    create_topic(kafka_cluster3.bootstrap_servers, topic, partitions=1)
    still_open = [produce(kafka_cluster3.bootstrap_servers, topic, ["x"], transactional_id=name) for name in names]
    with tail_of(kafka_cluster3, TRANSACTIONS) as tail:
        everybody = tail.ask_coordinators(is_only_open=True)
        assert set(names) <= set(everybody.found)
        leaders = AdminClient({"bootstrap.servers": kafka_cluster3.bootstrap_servers}).list_topics(timeout=_TIMEOUT_S)
        led = {number for number, at in leaders.topics[TRANSACTIONS].partitions.items() if at.leader == 1}
        # The first of those that are asked, so that the others come after it.
        frozen = kafka_cluster3.broker(1)
        frozen.pause()
        try:
            others = tail.ask_coordinators(is_only_open=True)
        finally:
            frozen.resume()
    kafka_cluster3.wait_until_complete()
    (missing,) = others.missing
    assert missing.startswith("broker 1:")
    assert {name for name in names if everybody.found[name].partition not in led} <= set(others.found)
    for producer in still_open:
        producer.abort_transaction(_TIMEOUT_S)


@pytest.mark.slow
@pytest.mark.faults(keep=1, of="brokers that go under the observer")
def test_leaders_that_move_leave_no_record_out_and_none_twice(kafka_cluster3: KafkaCluster, tmp_path: Path) -> None:
    topic, name = unique_name(), unique_name("mover")
    create_topic(kafka_cluster3.bootstrap_servers, topic, partitions=1)
    commits = 0
    with watching(kafka_cluster3, tmp_path) as watched:
        for victim in kafka_cluster3.brokers:
            victim.kill()
            try:
                for _ in range(3):
                    produce(kafka_cluster3.bootstrap_servers, topic, ["x"], transactional_id=name).commit_transaction(
                        _TIMEOUT_S
                    )
                    commits += 1
                watched.until(
                    lambda seen, so_far=commits: (
                        name in seen.transactions and seen.transactions[name].commits >= so_far
                    ),
                    f"{commits} commits",
                )
            finally:
                victim.start()
                kafka_cluster3.wait_until_complete()
        seen = watched.until(lambda seen: seen.transaction_journal.lag_records == 0, "the journal's end")
        assert seen.transactions[name].commits == commits


@pytest.mark.slow
@pytest.mark.faults(keep=1, of="brokers that go under the observer")
def test_only_broker_restarts_and_is_read_on(tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, data_dir=folder) as kafka:
        create_topic(kafka.bootstrap_servers, "t", partitions=1)
        produce(kafka.bootstrap_servers, "t", ["x"], transactional_id="a").commit_transaction(_TIMEOUT_S)
        with watching(kafka, tmp_path / "folds") as watched:
            watched.until(lambda seen: "a" in seen.transactions, "the id")
            kafka.broker(1).kill()
            lost = watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LOST, "the broker is away")
            assert kafka.bootstrap_servers in lost.transaction_journal.problem
            assert "a" in lost.transactions
            kafka.broker(1).start()
            produce(kafka.bootstrap_servers, "t", ["x"], transactional_id="b").commit_transaction(_TIMEOUT_S)
            seen = watched.until(lambda seen: "b" in seen.transactions, "what was written after the restart")
            assert (seen.transactions["a"].commits, len(seen.transactions["a"].steps)) == (1, 1)


@pytest.mark.core
def test_coordinators_say_what_the_journal_says(kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic, name = make_topic(), unique_name("open")
    still_open = produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=name)
    done = unique_name("done")
    produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=done).commit_transaction(_TIMEOUT_S)
    with watching(kafka, tmp_path) as watched:
        journal = watched.until(
            lambda seen: (
                name in seen.transactions and done in seen.transactions and not seen.transactions[done].is_open
            ),
            "both ids",
        ).transactions
    with tail_of(kafka, TRANSACTIONS, GROUPS) as tail:
        some, everything = tail.ask_coordinators(is_only_open=True), tail.ask_coordinators(is_only_open=False)
    still_open.abort_transaction(_TIMEOUT_S)
    assert name in some.found
    assert done not in some.found
    assert not everything.missing
    for each in (name, done):
        polled, told = everything.found[each], journal[each]
        assert not polled.is_from_journal
        assert polled.partition == told.partition
        assert _answered_fields(polled) == _answered_fields(told)
    assert everything.found[name].state.start_ms == journal[name].state.start_ms
    assert everything.found[name].state.partitions == journal[name].state.partitions


@pytest.mark.slow
def test_permission_that_is_taken_away_and_given_back(tmp_path: Path) -> None:
    with KafkaCluster.start(overrides=GUARDED_BROKER_SETTINGS, jars=KAFKA_JARS) as kafka:
        create_topic(kafka.bootstrap_servers, "t", partitions=1)
        still_open = produce(kafka.bootstrap_servers, "t", ["x"], transactional_id="a")
        with watching(kafka, tmp_path) as watched:
            watched.until(lambda seen: "a" in seen.transactions, "the id by the journal")
            deny(kafka.bootstrap_servers, TRANSACTIONS, AclOperation.READ)
            seen = watched.until(
                lambda seen: seen.transaction_journal.phase is ReadingPhase.REFUSED and "a" in seen.transactions,
                "the id by the coordinators",
            )
            assert seen.transaction_journal.source is SnapshotSource.ADMIN_CALLS
            assert not seen.transactions["a"].is_from_journal
            assert "permission READ" in seen.transaction_journal.problem
            still_open.commit_transaction(_TIMEOUT_S)
            watched.until(lambda seen: not seen.transactions["a"].is_open, "the commit by the coordinators")
            allow_again(kafka.bootstrap_servers, TRANSACTIONS)
            again = watched.until(
                lambda seen: seen.transaction_journal.phase is ReadingPhase.LIVE and "a" in seen.transactions,
                "the journal may be read again",
            )
            assert again.transactions["a"].is_from_journal
            assert again.transactions["a"].commits == 1


def _answered_fields(live: LiveTransaction) -> tuple[object, ...]:
    state = live.state
    return (state.status, state.producer_id, state.producer_epoch, state.timeout_ms)
