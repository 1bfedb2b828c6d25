"""A batch of the source that was changed on the broker's disk is neither processed nor skipped."""

from __future__ import annotations

from pathlib import Path

from app.edges.embedded.kafka import KafkaCluster
from tests.exactly_once.conftest import MakePipeline
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.verifier import make_id
from workers.loop.errors import TaskFailedError

EACH, BATCHES = 20, 3
WRITTEN, CHANGED = make_id(0, EACH + 5).encode(), b"9" + make_id(0, EACH + 5).encode()[1:]


def feed_batches(pipeline: TestPipeline) -> None:
    for _ in range(BATCHES):
        pipeline.feed(EACH)


def change_on_disk(kafka: KafkaCluster, pipeline: TestPipeline, before: bytes, after: bytes) -> None:
    """In place, as a disk does it: the broker reads the file again for every fetch."""
    folder = kafka.broker(1).data_dir
    (segment,) = (path for path in Path(folder).rglob("*.log") if path.parent.name == f"{pipeline.source}-0")
    content = segment.read_bytes()
    assert content.count(before) == 1
    with segment.open("r+b") as file:
        file.seek(content.index(before))
        file.write(after)


def test_changed_batch_fails_the_attempt_and_is_processed_once_it_is_whole_again(
    kafka: KafkaCluster, make_pipeline: MakePipeline
) -> None:
    pipeline = make_pipeline(partitions=1)
    feed_batches(pipeline)
    change_on_disk(kafka, pipeline, WRITTEN, CHANGED)
    error = TaskThread(pipeline.specification()).start().join_error()
    assert isinstance(error, TaskFailedError)
    assert f"could not read {pipeline.source}-0, where a batch is corrupt" in str(error)
    found = pipeline.audit()
    assert not found.unexpected
    assert found.found <= EACH + 5, "only what lies before it"
    change_on_disk(kafka, pipeline, CHANGED, WRITTEN)
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_until(lambda seen: [p.committed for p in seen.partitions] == [EACH * BATCHES], "all committed")
        task.drain()
    pipeline.assert_whole()


def test_without_checksums_a_changed_record_is_processed(kafka: KafkaCluster, make_pipeline: MakePipeline) -> None:
    """The negative control: librdkafka's default."""
    pipeline = make_pipeline(partitions=1, consumer_overrides={"check.crcs": "false"})
    feed_batches(pipeline)
    change_on_disk(kafka, pipeline, WRITTEN, CHANGED)
    with running(pipeline.specification()) as task:
        task.wait_for_records(EACH * BATCHES)
        task.drain()
    assert pipeline.audit().unexpected == (CHANGED.decode(),)
