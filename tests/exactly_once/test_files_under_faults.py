"""Writers of files are killed, frozen or cut off at every step of a checkpoint: referenced records are there once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.core.pipelines.pipeline import GroupProtocol
from app.core.wire.heartbeat import EventKind
from app.edges.embedded.kafka import KafkaCluster
from tests.exactly_once.conftest import MakePipeline, StartProcess
from tests.fault_suite.freeze_points import AnyPoint, FilePoint, FreezePoints, Point
from tests.fault_suite.spark_stage.disk import SmallDisk, may_mount
from tests.support import verifier
from tests.support.collected import assert_whole_and_collected
from tests.support.file_pipelines import USERS, FileAudit, file_sink, json_value
from tests.support.lakes import Bucket, Folder, Lake
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskProcess, TaskThread, running
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow]

POINTS: tuple[AnyPoint, ...] = (*FilePoint, Point.AFTER_OUTPUTS, Point.AFTER_OFFSETS, Point.BEFORE_COMMIT)
"""AFTER_OUTPUTS: the references are written, the offsets are not sent."""
LEFT_BY_THE_DEAD: Mapping[AnyPoint, range] = {
    FilePoint.WHILE_FILLING: range(1),
    FilePoint.WHILE_WRITING: range(1),
    # One is there for certain; others were on their way beside it, half files among them.
    FilePoint.WHILE_UPLOADING: range(1, USERS + 1),
}
LEFT_AFTER_UPLOADS = range(USERS, USERS + 1)
FIRST, THEN = 10, 200
ENDS_WITHIN_S = 60.0


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    found: Lake = Folder(tmp_path / "lake") if request.param == "folder" else request.getfixturevalue("bucket")
    return found


def pipeline_into(lake: Lake, make_pipeline: MakePipeline, **settings: Any) -> TestPipeline:
    return make_pipeline(value_of=json_value, files=file_sink(lake), session_timeout_ms=3_000, **settings)


def stands_still(
    point: AnyPoint, pipeline: TestPipeline, lake: Lake, start_process: StartProcess, points: FreezePoints
) -> TaskProcess:
    """At the point, in a checkpoint of its own records; it has committed some before."""
    environment = points.environment_of({**os.environ, **lake.environment})
    process = start_process(pipeline.specification(), environment=environment)
    pipeline.feed(FIRST)
    process.wait_for_records(2 * FIRST)
    points.ask(point)
    pipeline.feed(THEN)
    points.wait_until_frozen(point, ENDS_WITHIN_S)
    return process


def is_through(pipeline: TestPipeline) -> bool:
    try:
        found = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    except KafkaException as error:
        # An open transaction has pending offsets of the group: the answer waits for its end.
        if error.args[0].code() != KafkaError._TIMED_OUT:  # pyright: ignore[reportPrivateUsage]
            raise
        return False
    ends = verifier.end_offsets(pipeline.bootstrap_servers, pipeline.source, verifier.READ_COMMITTED)
    return all(found.get((pipeline.source, number), 0) == end for number, end in ends.items())


def wait_until_through(pipeline: TestPipeline, who: TaskThread | TaskProcess) -> None:
    def told() -> str:
        last = who.control.last if isinstance(who, TaskThread) else who.last()
        return f"the end of the source, committed; {last}"

    wait_for(lambda: is_through(pipeline), ENDS_WITHIN_S, told)


def to_the_end(pipeline: TestPipeline, lake: Lake) -> FileAudit:
    """By one who comes afterwards."""
    with running(pipeline.specification(attempt=1)) as last:
        wait_until_through(pipeline, last)
        last.drain()
    return assert_whole_and_collected(pipeline, lake)


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point_leaves_orphans_and_no_reference(
    make_pipeline: MakePipeline, start_process: StartProcess, tmp_path: Path, lake: Lake, point: AnyPoint
) -> None:
    pipeline = pipeline_into(lake, make_pipeline)
    process = stands_still(point, pipeline, lake, start_process, FreezePoints(tmp_path / "freeze"))
    process.kill()
    found = to_the_end(pipeline, lake)
    assert len(found.orphans) in LEFT_BY_THE_DEAD.get(point, LEFT_AFTER_UPLOADS), str(found)


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("protocol", list(GroupProtocol))
@pytest.mark.parametrize("point", POINTS)
def test_zombie_that_wakes_when_its_records_are_referenced_refers_to_none_of_them(
    make_pipeline: MakePipeline,
    start_process: StartProcess,
    tmp_path: Path,
    lake: Lake,
    point: AnyPoint,
    protocol: GroupProtocol,
) -> None:
    pipeline = pipeline_into(lake, make_pipeline, group_protocol=protocol)
    points = FreezePoints(tmp_path / "freeze")
    zombie = stands_still(point, pipeline, lake, start_process, points)
    with running(pipeline.specification(task=1)) as taker:
        # Past the session, and where a transaction is open, past its timeout.
        wait_until_through(pipeline, taker)
        points.thaw(zombie.pid)
        zombie.ask_to_drain()
        assert zombie.wait_for_exit() == 0, zombie.said_in_log()
        taker.drain()
    to_the_end(pipeline, lake)


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("point", POINTS)
def test_broker_that_comes_back_while_a_task_is_at_a_point_costs_no_record(
    make_pipeline: MakePipeline,
    start_process: StartProcess,
    tmp_path: Path,
    kafka: KafkaCluster,
    bucket: Bucket,
    point: AnyPoint,
) -> None:
    pipeline = pipeline_into(bucket, make_pipeline)
    points = FreezePoints(tmp_path / "freeze")
    process = stands_still(point, pipeline, bucket, start_process, points)
    kafka.broker(1).kill()
    try:
        points.thaw(process.pid)
    finally:
        kafka.broker(1).restart()
        kafka.wait_until_complete()
    wait_until_through(pipeline, process)
    process.drain()
    assert_whole_and_collected(pipeline, bucket)


@pytest.mark.skipif(not may_mount(), reason="only root may mount a disk that can be full")
def test_full_local_disk_holds_everything_up_and_loses_nothing(
    make_pipeline: MakePipeline, start_process: StartProcess, tmp_path: Path, lake: Lake
) -> None:
    pipeline = pipeline_into(lake, make_pipeline)
    with SmallDisk(tmp_path / "disk", size_mb=4, keep=tmp_path / "kept") as disk:
        process = start_process(pipeline.specification(), environment={**lake.environment, "TMPDIR": str(disk.folder)})
        pipeline.feed(FIRST)
        process.wait_for_records(2 * FIRST)
        disk.fill()
        pipeline.feed(THEN)
        process.wait_until(lambda: process.kinds().count(EventKind.ABORTED) >= 2, "two checkpoints aborted")
        assert "the local spool cannot be written" in process.said()
        assert process.last().counters.records_in == 2 * FIRST
        disk.empty()
        wait_until_through(pipeline, process)
        process.drain()
    assert not assert_whole_and_collected(pipeline, lake).orphans
