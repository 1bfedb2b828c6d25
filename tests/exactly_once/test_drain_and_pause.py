"""Rule 9, and what a pause is: partitions paused, membership kept, nothing open."""

import time
from collections.abc import Callable

import pytest

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.core.wire.heartbeat import DesiredTaskState, TaskState
from app.edges.embedded.kafka import KafkaCluster
from tests.exactly_once.conftest import MakePipeline, StartProcess
from tests.support import verifier
from tests.support.tasks import running
from tests.support.topics import delete_topics
from tests.support.waiting import wait_for
from workers.loop.control import TaskEnd
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.slices import CallPatience


@pytest.mark.core
@pytest.mark.parametrize("protocol", list(GroupProtocol))
@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE])
def test_drained_pipeline_is_whole_and_nothing_is_left_open(
    make_pipeline: MakePipeline, protocol: GroupProtocol, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(group_protocol=protocol, processing_guarantee=guarantee, partitions=3)
    pipeline.feed(2_000)
    with running(pipeline.specification()) as task:
        task.wait_for_records(6_000)
        result = task.drain()
    assert result.end is TaskEnd.DRAINED
    assert result.counters.records_in == result.counters.records_out == 6_000
    assert result.counters.transactions_aborted == 0
    pipeline.assert_whole()
    assert verifier.group_members(pipeline.bootstrap_servers, pipeline.definition.group_id) == 0


def test_drain_commits_a_checkpoint_long_before_its_interval_is_over(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(commit_interval_ms=60_000, transaction_timeout_ms=90_000, partitions=1)
    pipeline.feed(1_000)
    with running(pipeline.specification()) as task:
        task.wait_for_position(1_000)
        assert task.control.last.counters.records_in == 0
        assert verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)
        began_at = time.monotonic()
        task.drain()
        took_s = time.monotonic() - began_at
    assert took_s < 2.0
    draining = next(seen for seen in task.control.snapshots if seen.state is TaskState.DRAINING)
    assert draining.open_transaction_age_ms is not None
    pipeline.assert_whole()


def test_killed_task_leaves_open_what_a_drain_would_end(
    make_pipeline: MakePipeline, start_process: StartProcess
) -> None:
    """The negative control of the drain: the verifier sees the open transaction and the member that never left."""
    pipeline = make_pipeline(commit_interval_ms=60_000, transaction_timeout_ms=90_000)
    pipeline.feed(500)
    process = start_process(pipeline.specification())
    process.wait_for_position(1_000)
    process.kill()
    assert verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)
    assert verifier.group_members(pipeline.bootstrap_servers, pipeline.definition.group_id) == 1
    # Its successor ends the transaction, so that no other test waits for it.
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_position(1_000)
    pipeline.assert_whole()


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_paused_task_stays_a_member_with_nothing_open_and_reads_on_when_resumed(
    make_pipeline: MakePipeline, protocol: GroupProtocol
) -> None:
    pipeline = make_pipeline(group_protocol=protocol)
    pipeline.feed(300)
    with running(pipeline.specification()) as task:
        task.wait_for_records(600)
        task.control.wanted = DesiredTaskState.PAUSE
        began_at = time.monotonic()
        task.wait_until(lambda seen: seen.state is TaskState.PAUSED, "the pause")
        assert time.monotonic() - began_at < 1.0
        before = task.control.last
        pipeline.feed(300)
        published = len(task.control.snapshots)
        wait_for(lambda: len(task.control.snapshots) >= published + 3, 10, "three more snapshots while paused")
        seen = task.control.last
        assert seen.counters.records_in == 600
        assert (seen.member_id, seen.generation) == (before.member_id, before.generation)
        task.wait_until(
            lambda seen: [entry.end for entry in seen.partitions] == [600, 600], "the ends of logs that are not fetched"
        )
        assert not verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)
        task.control.wanted = DesiredTaskState.RUN
        task.wait_for_records(1_200)
        task.drain()
    pipeline.assert_whole()


def test_task_that_is_paused_from_the_start_reads_nothing(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    pipeline.feed(100)
    with running(pipeline.specification()) as task:
        task.control.wanted = DesiredTaskState.PAUSE
        task.wait_for_partitions(2)
        assert task.control.last.state is TaskState.PAUSED
        assert task.control.last.counters.records_in == 0
        task.control.wanted = DesiredTaskState.RUN
        task.wait_for_records(200)
        task.drain()
    pipeline.assert_whole()


def test_committed_offsets_reach_the_end_past_transaction_markers(make_pipeline: MakePipeline) -> None:
    """A source that is itself written in transactions ends with a marker, which is no record."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(10)
    upstream = make_pipeline(partitions=1)
    upstream.feed(10)
    with running(upstream.specification()) as task:
        task.wait_for_records(10)
        task.drain()
    chained = make_pipeline(partitions=1)
    chained.definition = type(chained.definition)(
        cluster="test",
        source_topics=(upstream.sink,),
        group_id=chained.definition.group_id,
        sink_topic=chained.sink,
    )
    chained.fed = upstream.fed
    with running(chained.specification()) as task:
        task.wait_for_records(10)
        end = verifier.end_offsets(chained.bootstrap_servers, upstream.sink, verifier.READ_COMMITTED)[0]
        wait_for(
            lambda: (
                verifier.committed_offsets(chained.bootstrap_servers, chained.definition.group_id).get(
                    (upstream.sink, 0)
                )
                == end
            ),
            10,
            f"the committed offset at the end, {end}, one behind the last record for the marker",
        )
        task.drain()
    chained.assert_whole()


def test_paused_task_does_not_mind_that_its_topic_is_deleted(make_pipeline: MakePipeline) -> None:
    """Its requests for its heartbeat are refused then; nothing depends on them."""
    pipeline = make_pipeline()
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(20)
        task.control.wanted = DesiredTaskState.PAUSE
        task.wait_until(lambda seen: seen.state is TaskState.PAUSED, "the pause")
        delete_topics(pipeline.bootstrap_servers, [pipeline.source])
        published = len(task.control.snapshots)
        task.wait_until(lambda _seen: len(task.control.snapshots) >= published + 6, "six more snapshots")
        assert task.drain().end is TaskEnd.DRAINED


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_drain_that_a_frozen_broker_does_not_answer_ends_in_time_and_claims_nothing(
    kafka: KafkaCluster, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol
) -> None:
    pipeline = make_pipeline(group_protocol=protocol, transaction_timeout_ms=2_000)
    real_commit = TransactionalProducer.commit
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(20)

        def freeze_and_commit(
            self: TransactionalProducer, *, patience: CallPatience, confirmed: Callable[[], None]
        ) -> None:
            kafka.broker(1).pause()
            task.control.wanted = DesiredTaskState.DRAIN
            real_commit(self, patience=patience, confirmed=confirmed)

        try:
            monkeypatch.setattr(TransactionalProducer, "commit", freeze_and_commit)
            pipeline.feed(10)
            wait_for(lambda: task.control.wanted is DesiredTaskState.DRAIN, 10, "the last commit")
            began_at = time.monotonic()
            result = task.join()
            took_s = time.monotonic() - began_at
        finally:
            kafka.broker(1).resume()
    assert "a transaction may be open" in result.message
    assert result.counters.transactions_unknown == 1
    assert took_s < 15, took_s
    monkeypatch.undo()
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_until(lambda seen: [p.committed for p in seen.partitions] == [20, 20], "everything committed")
        assert task.drain().message == "drained: no transaction is open, the group is left"
    pipeline.assert_whole()


def test_task_without_a_partition_waits_is_paused_and_takes_over(make_pipeline: MakePipeline) -> None:
    """More tasks than partitions: the empty assignment is one like any other."""
    pipeline = make_pipeline(partitions=1)
    with running(pipeline.specification()) as first:
        pipeline.feed(10)
        first.wait_for_records(10)
        with running(pipeline.specification(task=1)) as second:
            second.wait_until(lambda seen: seen.generation is not None and seen.generation > 0, "a generation")
            assert second.control.last.partitions == ()
            second.control.wanted = DesiredTaskState.PAUSE
            second.wait_until(lambda seen: seen.state is TaskState.PAUSED, "the pause")
            pipeline.feed(10)
            first.wait_for_records(20)
            first.drain()
            second.wait_for_partitions(1)
            pipeline.feed(10)
            second.control.wanted = DesiredTaskState.RUN
            second.wait_for_records(10)
            assert second.drain().counters.transactions_aborted == 0
    pipeline.assert_whole()
