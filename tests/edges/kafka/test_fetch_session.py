"""Incremental fetch sessions: each record is read once, and requests name only partitions that have moved."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from confluent_kafka import Producer

from app.core.clusters.partition import Partition
from app.core.journals.record_batch import RecordBatch, UnreadableBatch, split_batches
from app.core.observing.journals import FetchOutcome, LogAnswer
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka import journal_tail
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.fetch_session import FetchSession, SessionRequest
from app.edges.kafka.journal_tail import JournalTail
from tests.conftest import MakeTopic
from tests.support.waiting import wait_for

_PARTITIONS = 12
_TIMEOUT_S = 30.0
FIRST, SECOND = Partition("t", 0), Partition("t", 1)


def test_a_session_names_what_has_changed_and_forgets_what_is_left() -> None:
    session = FetchSession()
    assert session.request({FIRST: 5, SECOND: 7}) == SessionRequest(0, 0, {FIRST: 5, SECOND: 7}, ())
    session.answered(42)
    assert session.request({FIRST: 6, SECOND: 7}) == SessionRequest(42, 1, {FIRST: 6}, ())
    session.answered(42)
    assert session.request({SECOND: 7}) == SessionRequest(42, 2, {}, (FIRST,))


def test_after_a_failure_the_request_is_complete_and_ends_the_old_session() -> None:
    session = FetchSession()
    session.request({FIRST: 5})
    session.answered(42)
    session.request({FIRST: 6})
    session.failed()
    assert session.request({FIRST: 6}) == SessionRequest(42, 0, {FIRST: 6}, ())


def test_without_a_place_for_a_session_each_request_is_complete() -> None:
    session = FetchSession()
    for _ in range(2):
        assert session.request({FIRST: 5}) == SessionRequest(0, 0, {FIRST: 5}, ())
        session.answered(0)


def test_epochs_begin_again_at_one() -> None:
    session = FetchSession()
    session.request({})
    session.answered(42)
    session._epoch = 2**31 - 1
    session.answered(42)
    assert session.request({}).epoch == 1


class Follower:
    """Follows a topic from its first records, and keeps what it is told and which partitions its requests named."""

    def __init__(self, tail: JournalTail, topic: str) -> None:
        self.tail = tail
        self.read: dict[int, list[int]] = {number: [] for number in range(_PARTITIONS)}
        self.heard: list[LogAnswer] = []
        self.named: list[set[int]] = []
        self.epochs: list[int] = []
        for number in range(_PARTITIONS):
            tail.follow(topic, number, 0)

    def poll(self) -> bool:
        answers = self.tail.poll(timeout_s=0.1)
        self.heard += answers
        for answer in answers:
            assert answer.heard is FetchOutcome.READ
            for batch in answer.batches:
                assert isinstance(batch, RecordBatch)
                self.read[answer.partition] += range(batch.base_offset, batch.last_offset + 1)
        return bool(answers)

    def until(self, records: int) -> None:
        def is_read() -> bool:
            self.poll()
            return sum(map(len, self.read.values())) >= records

        wait_for(is_read, _TIMEOUT_S, lambda: f"{records} records: {self.read}")

    def until_all_are_told(self) -> None:
        self.heard.clear()
        wait_for(
            lambda: self.poll() and len({one.partition for one in self.heard}) == _PARTITIONS,
            _TIMEOUT_S,
            lambda: f"an answer for each partition: {self.heard}",
        )


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(partitions=_PARTITIONS)


@pytest.fixture
def follower(kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> Generator[Follower]:
    attempt = ConnectionAttempt(kafka.bootstrap_servers, _TIMEOUT_S)
    with JournalTail({"bootstrap.servers": kafka.bootstrap_servers}, attempt, [topic], timeout_s=5) as tail:
        made = Follower(tail, topic)
        request = FetchSession.request

        def seen(session: FetchSession, positions: dict[Partition, int]) -> SessionRequest:
            sent = request(session, positions)
            made.named.append({at.partition for at in sent.positions})
            made.epochs.append(sent.epoch)
            return sent

        monkeypatch.setattr(FetchSession, "request", seen)
        yield made


def write(kafka: KafkaCluster, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
        assert producer.flush(_TIMEOUT_S) == 0


def test_each_record_is_read_once_and_requests_name_only_what_has_moved(
    kafka: KafkaCluster, topic: str, follower: Follower
) -> None:
    for number in range(_PARTITIONS):
        write(kafka, topic, number, 1)
    follower.until(_PARTITIONS)
    follower.until_all_are_told()
    begun = len(follower.named)
    write(kafka, topic, 3, 5)
    follower.until(_PARTITIONS + 5)
    follower.until_all_are_told()
    assert follower.read == {number: [*range(6)] if number == 3 else [0] for number in range(_PARTITIONS)}
    assert follower.epochs[0] == 0
    assert 0 not in follower.epochs[1:]
    assert {number for named in follower.named[begun:] for number in named} == {3}
    # Those that are not in an answer are told with the end that they had.
    assert {(one.partition, one.next_offset, one.end) for one in follower.heard if one.partition != 3} == {
        (number, 1, 1) for number in range(_PARTITIONS) if number != 3
    }


def test_a_broker_that_has_forgotten_the_session_gets_a_complete_request(
    kafka: KafkaCluster, topic: str, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(kafka, topic, 0, 2)
    follower.until(2)
    (session,) = follower.tail._sessions.values()
    monkeypatch.setattr(session, "_id", 1)
    write(kafka, topic, 0, 2)
    write(kafka, topic, 7, 1)
    follower.until(5)
    follower.until_all_are_told()
    assert "Session" in follower.tail.last_failure
    assert follower.epochs.count(0) == 2
    assert follower.read[0] == [0, 1, 2, 3]
    assert follower.read[7] == [0]


def test_records_before_a_damaged_partition_of_the_same_answer_are_kept(
    kafka: KafkaCluster, topic: str, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(_PARTITIONS):
        write(kafka, topic, number, 1)
    answers: list[int] = []

    def damaged(records: bytes) -> Iterator[RecordBatch | UnreadableBatch]:
        answers.append(len(records))
        if len(answers) == _PARTITIONS // 2:
            raise IndexError("a length that no broker writes")
        return split_batches(records)

    monkeypatch.setattr(journal_tail, "split_batches", damaged)
    follower.until(_PARTITIONS)
    assert len(answers) > _PARTITIONS
    assert "a length that no broker writes" in follower.tail.last_failure
    assert follower.read == {number: [0] for number in range(_PARTITIONS)}
