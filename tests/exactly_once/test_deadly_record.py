"""Rule 7: a record that kills the worker is found by what its attempts left beside the committed offsets."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy
from tests.exactly_once.conftest import MakePipeline, StartProcess
from tests.support import verifier
from tests.support.kafka_clients import Writer
from tests.support.task_process import POISON
from tests.support.tasks import TaskProcess, running
from tests.support.topics import create_topic, delete_topics
from tests.support.waiting import wait_for
from workers.loop.control import TaskEnd
from workers.loop.errors import AbortableError
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.records.trials import Trial
from workers.loop.slices import CallPatience

MOST_DEATHS = 7


def is_through(process: TaskProcess, ends: dict[int, int]) -> bool:
    """True when the process has committed everything, False when it died before."""

    def is_decided() -> bool:
        return not process.is_running or {p.partition: p.committed for p in process.last().partitions} == ends

    wait_for(is_decided, 30, lambda: f"death or success; last: {process.reports()[-1:]}")
    return process.is_running


@pytest.mark.slow
def test_record_that_kills_the_worker_becomes_a_dead_letter_and_everything_else_goes_through(
    make_pipeline: MakePipeline, start_process: StartProcess
) -> None:
    # Nothing is committed before the record is met, however slow the machine: a death after a commit proves nothing.
    pipeline = make_pipeline(partitions=2, session_timeout_ms=1_500, commit_interval_ms=5_000)
    topic = f"{pipeline.sink}.dead"
    create_topic(pipeline.bootstrap_servers, topic)
    errors = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=topic)
    # Records before it are processed in transactions of their own, record by record, at last.
    pipeline.feed(400)
    pipeline.feed_value(POISON, partition=1)
    pipeline.feed(400)
    deaths = 0
    process = start_process(pipeline.specification(errors=errors), transform="deadly")
    while not is_through(process, {0: 800, 1: 801}):
        deaths += 1
        assert process.wait_for_exit() == 9
        assert deaths <= MOST_DEATHS, str(process.last())
        process = start_process(pipeline.specification(attempt=deaths, errors=errors), transform="deadly")
    assert process.drain().end is TaskEnd.DRAINED
    assert deaths >= 2, "one death proves nothing: a kill may look like it"
    pipeline.assert_whole()
    (letter,) = verifier.read_all(pipeline.bootstrap_servers, topic)
    assert letter.value == POISON
    assert dict(letter.headers)["fenceline.offset"] == b"400"
    assert "the worker was killed by it" in (dict(letter.headers)["fenceline.error"] or b"").decode()
    delete_topics(pipeline.bootstrap_servers, [topic])


def test_partition_under_suspicion_does_not_slow_the_others(make_pipeline: MakePipeline) -> None:
    """It may be idle for ever; a transaction for each record of its neighbours would be a standstill."""
    pipeline = make_pipeline(partitions=2)
    pipeline.feed(2_000, partitions=[0])
    note = Trial(limit=1, begun=1, until=1).note()
    consumer = Consumer({"bootstrap.servers": pipeline.bootstrap_servers, "group.id": pipeline.definition.group_id})
    consumer.commit(offsets=[TopicPartition(pipeline.source, 1, 0, metadata=note)], asynchronous=False)
    consumer.close()
    with running(pipeline.specification()) as task:
        task.wait_for_records(2_000)
        assert task.drain().counters.transactions_committed < 100
    pipeline.assert_whole()


def test_note_of_a_death_is_not_removed_before_it_was_read(make_pipeline: MakePipeline) -> None:
    """Aborted records move the position of a partition that has delivered nothing and whose note is not read yet."""
    pipeline = make_pipeline(partitions=1)
    connection = {"bootstrap.servers": pipeline.bootstrap_servers}
    writer = Writer(connection)
    writer.begin(pipeline.source, records=3)
    writer.abort()
    at = TopicPartition(pipeline.source, 0, 0, metadata=Trial(begun=1).note())
    consumer = Consumer({**connection, "group.id": pipeline.definition.group_id})
    try:
        consumer.commit(offsets=[at], asynchronous=False)
        with running(pipeline.specification()) as task:
            task.wait_until(lambda seen: [(p.position, p.committed) for p in seen.partitions] == [(4, 0)], "the end")
            published = len(task.control.snapshots)
            task.wait_until(lambda _seen: len(task.control.snapshots) >= published + 5, "two more looks")
            (found,) = consumer.committed([TopicPartition(pipeline.source, 0)], 10)
            assert (found.offset, found.metadata) == (0, at.metadata)
            pipeline.feed(10)
            task.wait_for_records(10)
            task.drain()
    finally:
        consumer.close()
    pipeline.assert_whole()


def test_worker_killed_from_outside_condemns_no_record(
    make_pipeline: MakePipeline, start_process: StartProcess
) -> None:
    """Many deaths in a row, none of them a record's doing."""
    errors = ErrorHandling(policy=FailurePolicy.SKIP)
    pipeline = make_pipeline(partitions=1, session_timeout_ms=1_500, errors=errors)
    pipeline.feed(3_000)
    for attempt in range(4):
        process = start_process(pipeline.specification(attempt=attempt, commit_interval_ms=60_000))
        process.wait_for_position(1)
        process.kill()
    process = start_process(pipeline.specification(attempt=4))
    process.wait_until(lambda: [p.committed for p in process.last().partitions] == [3_000], "everything committed")
    assert process.drain().counters.records_skipped == 0
    pipeline.assert_whole()


def test_mark_that_could_not_be_committed_is_still_due(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record is processed before its note is committed, however often the note's commit fails."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(100)
    notes: list[str] = []
    send_offsets = TransactionalProducer.send_offsets

    def fail_twice(
        self: TransactionalProducer, offsets: list[TopicPartition], consumer: Consumer, *, patience: CallPatience
    ) -> None:
        notes.extend(offset.metadata or "" for offset in offsets)
        # The first commit says where the partition begins.
        if 1 < len(notes) <= 3:
            raise AbortableError("refused for the test")
        send_offsets(self, offsets, consumer, patience=patience)

    monkeypatch.setattr(TransactionalProducer, "send_offsets", fail_twice)
    with running(pipeline.specification()) as task:
        task.wait_for_records(100)
        task.drain()
    assert notes[:5] == ["", *[Trial(begun=1).note()] * 3, ""]
    pipeline.assert_whole()


def test_workers_that_the_environment_kills_condemn_no_record(
    make_pipeline: MakePipeline, start_process: StartProcess
) -> None:
    """Out of memory at the start, a broken library: the worker dies with any first record."""
    errors = ErrorHandling(policy=FailurePolicy.SKIP)
    pipeline = make_pipeline(partitions=1, session_timeout_ms=1_500, errors=errors)
    for number in range(50):
        pipeline.feed_value(b"0:%08d %s" % (number, POISON))
    # The note after a search that came down to one record, which has killed once.
    note = Trial(limit=1, begun=1, until=50).note()
    consumer = Consumer({"bootstrap.servers": pipeline.bootstrap_servers, "group.id": pipeline.definition.group_id})
    consumer.commit(offsets=[TopicPartition(pipeline.source, 0, 0, metadata=note)], asynchronous=False)
    said: list[str] = []
    for attempt in range(4):
        process = start_process(pipeline.specification(attempt=attempt), transform="deadly")
        assert process.wait_for_exit() == 9
        said += [report.event.message for report in process.reports() if report.event is not None]
    (found,) = consumer.committed([TopicPartition(pipeline.source, 0)], 10)
    consumer.close()
    assert (found.offset, found.metadata) == (0, Trial(limit=1, begun=1, until=50, passed=4).note())
    assert any("its environment kills it" in message for message in said), said
    # The environment is well again.
    process = start_process(pipeline.specification(attempt=4))
    process.wait_until(lambda: [p.committed for p in process.last().partitions] == [50], "everything committed")
    assert process.drain().counters.records_skipped == 0
    assert len(verifier.read_all(pipeline.bootstrap_servers, pipeline.sink)) == 50
