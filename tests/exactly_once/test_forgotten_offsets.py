"""A group that has lost its committed offsets does not start as new: a user decides, with the confirmed offsets."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from kafka.structs import TopicPartition as LibraryPartition  # pyright: ignore[reportMissingTypeStubs]
from msgspec.structs import replace

from app.core.pipelines.pipeline import ProcessingGuarantee, StartPosition
from app.core.runs.recorded_offset import RecordedOffset
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.topics import create_topic, delete_topics
from tests.support.waiting import wait_for
from workers.loop.control import TaskSpecification
from workers.loop.errors import PipelineStopError

GUARANTEES = list(ProcessingGuarantee)
EACH = 100


def committed(pipeline: TestPipeline) -> dict[int, int]:
    found = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    return {number: offset for (topic, number), offset in found.items() if topic == pipeline.source}


def delete_group(pipeline: TestPipeline) -> None:
    """As the expiry of its offsets does."""
    group = pipeline.definition.group_id
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap_servers})
    admin.delete_consumer_groups([group])[group].result(30)  # pyright: ignore[reportUnknownMemberType]


def delete_offset(pipeline: TestPipeline, partition: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=pipeline.bootstrap_servers)
    admin.delete_group_offsets(pipeline.definition.group_id, [LibraryPartition(pipeline.source, partition)])  # pyright: ignore
    admin.close()


def drained(pipeline: TestPipeline, *, records: int) -> TaskThread:
    """A task that has processed so many and left."""
    with running(pipeline.specification()) as task:
        task.wait_for_records(records)
        task.drain()
    return task


def again(pipeline: TestPipeline, recorded: tuple[RecordedOffset, ...] = ()) -> TaskSpecification:
    return replace(pipeline.specification(attempt=1), recorded=recorded)


def told(task: TaskThread) -> tuple[RecordedOffset, ...]:
    """The server's record of it."""
    return task.control.last.confirmed


@pytest.mark.parametrize(
    ("guarantee", "start"),
    [
        *((guarantee, StartPosition.EARLIEST) for guarantee in GUARANTEES),
        (ProcessingGuarantee.EXACTLY_ONCE_V2, StartPosition.LATEST),
    ],
)
def test_group_that_was_deleted_while_the_pipeline_was_stopped_does_not_start_as_new(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee, start: StartPosition
) -> None:
    pipeline = make_pipeline(partitions=1, processing_guarantee=guarantee)
    pipeline.feed(EACH)
    first = drained(pipeline, records=EACH)
    delete_group(pipeline)
    pipeline.feed(7)
    [before] = told(first)
    assert (before.offset, before.is_final) == (EACH, True)
    assert before.topic_id
    specification = again(pipeline, told(first))
    with running(TestPipeline.changed(specification, start_position=start)) as second:
        error = second.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"{pipeline.source}-0 was committed at {EACH} and would begin at" in str(error)
    assert "--to recorded" in str(error)
    assert committed(pipeline) == {}
    assert pipeline.audit().duplicated == ()


def test_without_recorded_offsets_a_deleted_group_duplicates_or_skips(make_pipeline: MakePipeline) -> None:
    """The negative control: 100 records come out twice, or are skipped."""
    doubled, skipped = make_pipeline(partitions=1), make_pipeline(partitions=1)
    for pipeline in (doubled, skipped):
        pipeline.feed(EACH)
        drained(pipeline, records=EACH)
        delete_group(pipeline)
    with running(again(doubled)) as task:
        task.wait_for_records(EACH)
        task.drain()
    lost = skipped.feed(EACH)
    with running(TestPipeline.changed(again(skipped), start_position=StartPosition.LATEST)) as task:
        wait_for(lambda: committed(skipped) == {0: 2 * EACH}, 25, "a beginning at the end")
        task.drain()
    assert len(doubled.audit().duplicated) == EACH
    assert sorted(skipped.audit().lost) == sorted(lost)


def test_one_missing_offset_beside_others_stops_the_pipeline(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=2)
    pipeline.feed(EACH)
    first = drained(pipeline, records=2 * EACH)
    delete_offset(pipeline, 1)
    assert committed(pipeline) == {0: EACH}
    with running(again(pipeline, told(first))) as second:
        error = second.join_error()
    assert f"{pipeline.source}-1 was committed at {EACH}" in str(error)
    assert f"{pipeline.source}-0" not in str(error)
    assert pipeline.audit().duplicated == ()


def test_group_that_is_deleted_between_two_attempts_of_a_run_is_known_to_the_server(
    make_pipeline: MakePipeline,
) -> None:
    """The specification is of before the first commit; what the first attempt reported is asked for."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(EACH)
    first = drained(pipeline, records=EACH)
    delete_group(pipeline)
    second = TaskThread(again(pipeline))
    second.control.recorded = told(first)
    error = second.start().join_error()
    assert f"{pipeline.source}-0 was committed at {EACH}" in str(error)
    assert pipeline.audit().duplicated == ()


@pytest.mark.core
def test_resumed_at_recorded_offsets_nothing_is_lost_or_duplicated(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=2)
    pipeline.feed(EACH)
    first = drained(pipeline, records=2 * EACH)
    delete_group(pipeline)
    pipeline.feed(5)
    consumer = Consumer({"bootstrap.servers": pipeline.bootstrap_servers, "group.id": pipeline.definition.group_id})
    consumer.commit(
        offsets=[TopicPartition(one.topic, one.partition, one.offset) for one in told(first)], asynchronous=False
    )
    consumer.close()
    with running(again(pipeline, told(first))) as second:
        second.wait_for_records(10)
        second.drain()
    pipeline.assert_whole()


def test_topic_recreated_while_the_pipeline_was_stopped_starts_as_a_new_one(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(EACH)
    first = drained(pipeline, records=EACH)
    delete_topics(pipeline.bootstrap_servers, [pipeline.source])
    create_topic(pipeline.bootstrap_servers, pipeline.source)
    wait_for(lambda: committed(pipeline) == {}, 25, lambda: f"no offsets of the old topic: {committed(pipeline)}")
    pipeline.feed(3)
    with running(again(pipeline, told(first))) as second:
        wait_for(lambda: committed(pipeline) == {0: 3}, 25, lambda: f"{second.error} {committed(pipeline)}")
        second.drain()


def test_new_group_and_new_partitions_begin_as_ever(make_pipeline: MakePipeline) -> None:
    """Recorded at the very place where it would begin: nothing is read twice, so nothing is refused."""
    pipeline = make_pipeline(partitions=1)
    recorded = tuple(
        RecordedOffset(topic=topic, partition=0, offset=at) for topic, at in ((pipeline.source, 0), ("t", 9))
    )
    pipeline.feed(5)
    with running(again(pipeline, recorded)) as task:
        task.wait_for_records(5)
        task.drain()
    pipeline.assert_whole()
