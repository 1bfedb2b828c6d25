"""Start positions: nothing is skipped, and deleted records are reported. `latest` is resolved once for the group."""

from __future__ import annotations

import itertools

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # pyright: ignore[reportPrivateImportUsage]

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee, StartPosition
from app.core.wire.heartbeat import DesiredTaskState, EventKind, TaskState
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.topics import create_topic, delete_records, delete_topics
from tests.support.waiting import wait_for
from workers.loop import task as task_module
from workers.loop.control import TaskSpecification
from workers.loop.errors import PipelineStopError
from workers.loop.group.starting import Starting

SEES_CHANGES_SOON = {"topic.metadata.refresh.interval.ms": "500"}
GUARANTEES = [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE]


def committed(pipeline: TestPipeline) -> dict[int, int]:
    found = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    return {number: offset for (topic, number), offset in found.items() if topic == pipeline.source}


def wait_for_committed(pipeline: TestPipeline, offsets: dict[int, int], task: TaskThread) -> None:
    task.wait_until(lambda seen: len(seen.partitions) > 0, "a first assignment")
    wait_for(lambda: committed(pipeline) == offsets, 25, lambda: f"{offsets} committed, not {committed(pipeline)}")


def commit_offset(pipeline: TestPipeline, offset: int, *, epoch: int = -1) -> None:
    consumer = Consumer({"bootstrap.servers": pipeline.bootstrap_servers, "group.id": pipeline.definition.group_id})
    consumer.commit(offsets=[TopicPartition(pipeline.source, 0, offset, leader_epoch=epoch)], asynchronous=False)
    consumer.close()


def add_partitions(pipeline: TestPipeline, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap_servers})
    for topic in (pipeline.source, pipeline.sink):
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)  # pyright: ignore[reportUnknownMemberType]
        wait_for(
            lambda topic=topic: len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == total,
            25,
            f"{total} partitions of {topic}",
        )
    pipeline.partitions = total


def losses(task: TaskThread) -> list[str]:
    return [event.message for event in task.control.events if event.kind is EventKind.ERROR]


def beginnings(task: TaskThread) -> list[str]:
    return [event.message for event in task.control.events if "begins at the end" in event.message]


@pytest.mark.usefixtures("uncontradicted_offsets")
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_latest_is_resolved_once_and_an_idle_partition_loses_nothing_over_a_restart(
    make_pipeline: MakePipeline, protocol: GroupProtocol, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(
        start_position=StartPosition.LATEST, group_protocol=protocol, processing_guarantee=guarantee
    )
    pipeline.feed(50)
    pipeline.fed.clear()
    with running(pipeline.specification()) as first:
        wait_for_committed(pipeline, {0: 50, 1: 50}, first)
        pipeline.feed(10, partitions=[0])
        first.wait_for_records(10)
        first.drain()
    assert len(beginnings(first)) == 1
    # Partition 1 has never delivered anything. Its records while it has no owner must not be skipped.
    pipeline.feed(20, partitions=[1])
    with running(pipeline.specification(attempt=1)) as second:
        second.wait_for_records(20)
        second.drain()
    assert beginnings(second) == []
    pipeline.assert_whole()


def test_client_that_resets_by_itself_skips_undetected(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the same story with the client's own reset."""
    pipeline = make_pipeline(start_position=StartPosition.LATEST)
    real_config = task_module.consumer_config
    monkeypatch.setattr(
        task_module,
        "consumer_config",
        lambda specification: {**real_config(specification), "auto.offset.reset": "latest"},  # pyright: ignore
    )
    with running(pipeline.specification()) as first:
        first.wait_for_partitions(2)
        wait_for(lambda: pipeline.feed(1, partitions=[0]) and committed(pipeline), 25, "a first commit")
        first.drain()
    skipped = pipeline.feed(20, partitions=[1])
    with running(pipeline.specification(attempt=1)) as second:
        second.wait_for_partitions(2)
        wait_for(lambda: pipeline.feed(1, partitions=[1]) and 1 in committed(pipeline), 25, "a commit of the idle one")
        second.drain()
    assert set(skipped) <= set(pipeline.audit().lost)
    assert losses(first) + losses(second) == []


@pytest.mark.usefixtures("uncontradicted_offsets")
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_two_tasks_that_start_together_begin_at_one_end(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol
) -> None:
    """The owner of the first partition is slow: the other one must neither go ahead nor begin by itself."""
    pipeline = make_pipeline(partitions=4, start_position=StartPosition.LATEST, group_protocol=protocol)
    pipeline.feed(50)
    pipeline.fed.clear()
    looks = itertools.count(1)
    is_slow = True
    real_begin = Starting._begin  # pyright: ignore[reportPrivateUsage]

    def begin_slowly(self: Starting, stopped: frozenset[Partition], logs: dict[Partition, object]) -> None:
        next(looks)
        if not is_slow:
            real_begin(self, stopped, logs)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Starting, "_begin", begin_slowly)
    with running(pipeline.specification()) as first, running(pipeline.specification(task=1)) as second:
        first.wait_for_partitions(2)
        second.wait_for_partitions(2)
        seen = next(looks)
        wait_for(lambda: next(looks) > seen + 5, 25, "checks by the owner of the first partition")
        assert committed(pipeline) == {}
        is_slow = False
        wait_for_committed(pipeline, dict.fromkeys(range(4), 50), first)
        pipeline.feed(30)
        first.wait_for_records(60)
        second.wait_for_records(60)
        first.drain()
        second.drain()
    assert len(beginnings(first) + beginnings(second)) == 1
    pipeline.assert_whole()


@pytest.mark.usefixtures("uncontradicted_offsets")
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_partition_that_is_added_later_is_read_from_its_beginning(
    make_pipeline: MakePipeline, protocol: GroupProtocol
) -> None:
    pipeline = make_pipeline(
        partitions=1,
        start_position=StartPosition.LATEST,
        group_protocol=protocol,
        consumer_overrides=SEES_CHANGES_SOON,
    )
    with running(pipeline.specification()) as task:
        wait_for_committed(pipeline, {0: 0}, task)
        add_partitions(pipeline, 2)
        pipeline.feed(100, partitions=[1])
        task.wait_for_records(100)
        task.drain()
    pipeline.assert_whole()


@pytest.mark.usefixtures("uncontradicted_offsets")
@pytest.mark.parametrize("start_position", list(StartPosition))
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_records_deleted_before_they_were_read_are_reported_and_the_rest_is_read(
    make_pipeline: MakePipeline, start_position: StartPosition, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(partitions=1, start_position=start_position, processing_guarantee=guarantee)
    with running(pipeline.specification()) as task:
        wait_for_committed(pipeline, {0: 0}, task)
        read = pipeline.feed(100)
        task.wait_for_records(100)
        task.drain()
    assert losses(task) == []
    later = pipeline.feed(100)
    delete_records(pipeline.bootstrap_servers, pipeline.source, before=150)
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_records(50)
        task.drain()
    assert any("50 offsets were deleted unread, from 100 to 149" in message for message in losses(task)), losses(task)
    pipeline.fed = read + later[50:]
    pipeline.assert_whole()


@pytest.mark.usefixtures("uncontradicted_offsets")
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_loss_in_an_idle_partition_is_reported_once_and_committed(
    make_pipeline: MakePipeline, protocol: GroupProtocol
) -> None:
    """Nothing is left to be read there, so no later checkpoint would commit it."""
    pipeline = make_pipeline(partitions=1, group_protocol=protocol)
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(10)
        task.control.wanted = DesiredTaskState.PAUSE
        task.wait_until(lambda seen: seen.state is TaskState.PAUSED, "the pause")
        pipeline.feed(40)
        delete_records(pipeline.bootstrap_servers, pipeline.source, before=50)
        task.control.wanted = DesiredTaskState.RUN
        wait_for_committed(pipeline, {0: 50}, task)
        task.drain()
    assert len(losses(task)) == 1, losses(task)
    with running(pipeline.specification(attempt=1)) as again:
        pipeline.feed(10)
        again.wait_for_records(10)
        again.drain()
    assert losses(again) == []


def test_log_that_ends_before_the_committed_offset_stops_the_pipeline(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(100)
    commit_offset(pipeline, 500)
    with running(pipeline.specification()) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"{pipeline.source}-0 ends at 100" in str(error)
    assert "500" in str(error)
    assert pipeline.audit().found == 0
    assert committed(pipeline) == {0: 500}


def test_log_that_has_grown_again_before_the_check_stops_the_pipeline(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has met an end before the committed offset; by now the offset is in the log, but of other records."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(100)
    commit_offset(pipeline, 500)
    real_step = Starting.step
    looks: list[bool] = []

    def grow_and_look(self: Starting, stopped: frozenset[Partition]) -> None:
        if not looks:
            looks.append(True)
            pipeline.feed(900)
        real_step(self, stopped)

    monkeypatch.setattr(Starting, "step", grow_and_look)
    with running(pipeline.specification()) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"{pipeline.source}-0 ends at 1000, and has ended before the next offset 500" in str(error)
    assert pipeline.audit().found == 0


def test_offset_that_a_broker_did_not_have_is_read_on_if_its_leader_still_has_its_epoch(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an answer of a former leader, which was frozen when the records came that the group has committed."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(100)
    commit_offset(pipeline, 150, epoch=0)
    real_step = Starting.step
    looks: list[bool] = []

    def grow_and_look(self: Starting, stopped: frozenset[Partition]) -> None:
        if not looks:
            looks.append(True)
            pipeline.feed(100)
        real_step(self, stopped)

    monkeypatch.setattr(Starting, "step", grow_and_look)
    with running(pipeline.specification()) as task:
        task.wait_for_records(50)
        wait_for_committed(pipeline, {0: 200}, task)
        task.drain()
    assert [loss for loss in losses(task) if "did not have the committed offset 150" in loss]
    assert pipeline.audit().found == 50


@pytest.mark.usefixtures("uncontradicted_offsets")
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_topic_recreated_while_running_is_read_from_its_beginning(
    make_pipeline: MakePipeline, protocol: GroupProtocol
) -> None:
    pipeline = make_pipeline(
        partitions=1,
        start_position=StartPosition.LATEST,
        group_protocol=protocol,
        consumer_overrides=SEES_CHANGES_SOON,
    )
    specification: TaskSpecification = pipeline.specification()
    with running(specification) as task:
        wait_for_committed(pipeline, {0: 0}, task)
        pipeline.feed(100)
        task.wait_for_records(100)
        delete_topics(pipeline.bootstrap_servers, [pipeline.source])
        task.wait_for_partitions(0)
        wait_for(lambda: any("there is no topic" in loss for loss in losses(task)), 25, "it to be missed")
        create_topic(pipeline.bootstrap_servers, pipeline.source)
        pipeline.feed(30)
        task.wait_for_records(130)
        task.drain()
    audit = pipeline.audit()
    assert audit.is_exact, str(audit)
