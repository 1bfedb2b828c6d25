"""Rule 8 and the reports while something outside is missing: the loop waits for it and continues by itself."""

from __future__ import annotations

import pytest

from app.core.wire.heartbeat import EventKind, TaskState
from app.edges.embedded.kafka import KafkaCluster
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.tasks import running
from tests.support.topics import create_topic, delete_topics, unique_name
from workers.loop.client_config import transactional_producer_config
from workers.loop.control import TaskEnd
from workers.loop.lane import Lane
from workers.loop.producing.transactional_producer import TransactionalProducer


def test_missing_sink_is_named_and_waited_for(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    sink = unique_name("late-sink")
    pipeline.feed(100)
    with running(pipeline.specification(sink_topic=sink)) as task:
        task.wait_for_event(EventKind.ABORTED)
        assert any(f"the sink topic {sink} does not exist" in event.message for event in task.control.events)
        create_topic(pipeline.bootstrap_servers, sink)
        task.wait_for_records(100)
        task.drain()
    assert verifier.audit(verifier.read_all(pipeline.bootstrap_servers, sink), pipeline.fed).is_exact
    delete_topics(pipeline.bootstrap_servers, [sink])


def test_missing_source_is_named_and_waited_for(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    source = unique_name("late-source")
    overrides = {"topic.metadata.refresh.interval.ms": "500"}
    with running(pipeline.specification(source_topics=(source,), consumer_overrides=overrides)) as task:
        task.wait_for_event(EventKind.ERROR)
        assert any(source in event.message for event in task.control.events)
        create_topic(pipeline.bootstrap_servers, source)
        task.wait_for_partitions(1)
        task.drain()
    delete_topics(pipeline.bootstrap_servers, [source])


def test_broker_that_is_away_for_a_while_costs_time_and_no_record(
    kafka: KafkaCluster, make_pipeline: MakePipeline
) -> None:
    """No server to ask, and a broker that answers nothing for longer than the transaction lives."""
    pipeline = make_pipeline(transaction_timeout_ms=2_000, commit_interval_ms=50)
    with running(pipeline.specification()) as task:
        pipeline.feed(500)
        task.wait_for_records(1_000)
        pipeline.feed(20_000)
        task.wait_until(lambda seen: seen.counters.records_in > 1_000, "the next records")
        kafka.broker(1).pause()
        try:
            published = len(task.control.snapshots)
            # It goes on reporting; two seconds of snapshots are more than the transaction timeout.
            task.wait_until(lambda _seen: len(task.control.snapshots) >= published + 6, "six more snapshots")
            # With or without something to commit.
            task.wait_until(lambda seen: seen.last_error is not None, "it to say that something is wrong")
        finally:
            kafka.broker(1).resume()
        task.wait_until(lambda seen: [p.committed for p in seen.partitions] == [20_500, 20_500], "everything committed")
        assert task.drain().end is TaskEnd.DRAINED
    pipeline.assert_whole()


def test_half_a_batch_is_never_committed_by_the_revoke_of_a_closing_consumer(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records open after a crash in mid-batch are aborted before the consumer's last callback could commit them."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(10)
    with running(pipeline.specification()) as task:
        task.wait_for_records(10)

        def break_off(*_arguments: object, **_named: object) -> None:
            raise ArithmeticError("in the middle of a batch")

        with monkeypatch.context() as patch:
            patch.setattr(TransactionalProducer, "write_records", break_off)
            pipeline.feed(10)
            assert isinstance(task.join_error(), ArithmeticError)
    last = task.control.last
    assert (last.state, last.counters.records_in, last.counters.transactions_aborted) == (TaskState.FAILED, 10, 1)
    committed = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    assert committed == {(pipeline.source, 0): 10}
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_records(10)
        task.drain()
    pipeline.assert_whole()


def test_without_that_abort_the_callback_commits_records_that_were_never_written(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the checkpoint left open as the exception found it."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(10)
    with running(pipeline.specification()) as task:
        task.wait_for_records(10)

        def break_off(*_arguments: object, **_named: object) -> None:
            raise ArithmeticError("in the middle of a batch")

        def leave_open(*_arguments: object, **_named: object) -> None:
            """In place of the abort."""

        with monkeypatch.context() as patch:
            patch.setattr(TransactionalProducer, "write_records", break_off)
            patch.setattr(Lane, "abort", leave_open)
            patch.setattr(Lane, "abandon", leave_open)
            pipeline.feed(10)
            assert isinstance(task.join_error(), ArithmeticError)
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_partitions(1)
        task.wait_until(lambda seen: [p.committed for p in seen.partitions] == [20], "the committed offset")
        task.drain()
    assert pipeline.audit().lost


def test_predecessors_open_transaction_ends_at_once(make_pipeline: MakePipeline) -> None:
    """Why ids are fixed: a restarted task does not wait for its predecessor's timeout."""
    pipeline = make_pipeline(partitions=1, transaction_timeout_ms=60_000)
    dead = TransactionalProducer(transactional_producer_config(pipeline.specification()))
    dead.init(20)
    dead.begin()
    dead.live.produce(pipeline.sink, b"9:00000000", partition=0)
    assert dead.live.flush(20) == 0
    dead.discard()
    assert verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)
    pipeline.feed(100)
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_records(100)
        task.drain()
    pipeline.assert_whole()
