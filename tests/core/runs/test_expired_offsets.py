"""Offsets that a broker expires, as after 7 days: the answer of a start, and the loss without it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from app.core.allow_lists.options import AllowedOptions
from app.core.runs.offset_reset import OffsetTarget, OffsetTargetKind
from app.core.runs.recorded_offset import LostOffsetsError
from app.core.runs.run import Run
from app.core.runs.service import offsets, runs
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from tests.exactly_once.test_forgotten_offsets import again, committed, drained, told
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.waiting import wait_for
from workers.loop.errors import PipelineStopError

BROKERS = KafkaBrokers(environment={}, secrets_dir=None)
EACH, SINCE, PARTITIONS = 100, 5, 2
EXPIRED_WITHIN_S = 180.0
"""A minute after the last member left, and the broker's next look."""
FORGETFUL = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}

pytestmark = pytest.mark.slow


@pytest.fixture
def forgetful() -> Generator[KafkaCluster]:
    with KafkaCluster.start(overrides={**TEST_BROKER_SETTINGS, **FORGETFUL}) as cluster:
        yield cluster


async def define(plane: ControlPlane, pipeline: TestPipeline, last: TaskThread) -> None:
    """The stopped pipeline on the server, with what the heartbeats of its last task have recorded."""
    cluster = await plane.registered(BROKERS, pipeline.bootstrap_servers)
    definition = pipeline.definition
    await plane.pipeline(
        cluster="real",
        source_topics=definition.source_topics,
        sink_topic=definition.sink_topic,
        group_id=definition.group_id,
    )
    async with plane.uow() as uow:
        await uow.of(RecordedOffsetStore).replace(
            told(last),
            pipeline="flights",
            kafka_cluster_id=cluster.kafka_cluster_id,
            group=definition.group_id,
            now=plane.now,
        )
        await uow.commit()


async def start(plane: ControlPlane) -> Run:
    async with plane.uow() as uow:
        run = await runs.start_run(
            uow, BROKERS, pipeline="flights", allowed=AllowedOptions(), by=ANNA, why="go", now=plane.now
        )
        await uow.commit()
    return run


async def resume(plane: ControlPlane) -> None:
    async with plane.uow() as uow:
        await offsets.reset_offsets(
            uow,
            BROKERS,
            pipeline="flights",
            target=OffsetTarget(kind=OffsetTargetKind.RECORDED),
            expected=None,
            by=ANNA,
            why="they expired",
            now=plane.now,
        )
        await uow.commit()


def process(pipeline: TestPipeline, last: TaskThread | None, *, records: int) -> None:
    """The next task, with what was recorded or without."""
    with running(again(pipeline, () if last is None else told(last))) as task:
        task.wait_for_records(records)
        task.drain()


async def test_a_start_is_refused_and_a_resume_is_exact_where_without_the_record_all_comes_out_twice(
    plane: ControlPlane, forgetful: KafkaCluster
) -> None:
    """Both expire at once: the wait is a minute. The control recorded nothing."""
    kept, control = (TestPipeline.create(forgetful.bootstrap_servers, partitions=PARTITIONS) for _ in range(2))
    last: list[TaskThread] = []
    for pipeline in (kept, control):
        pipeline.feed(EACH)
        last.append(await asyncio.to_thread(drained, pipeline, records=PARTITIONS * EACH))
        assert committed(pipeline) == {0: EACH, 1: EACH}
    await define(plane, kept, last[0])
    await asyncio.to_thread(
        wait_for,
        lambda: committed(kept) == committed(control) == {},
        EXPIRED_WITHIN_S,
        lambda: f"expired offsets; committed are {committed(kept)} and {committed(control)}",
    )
    for pipeline in (kept, control):
        pipeline.feed(SINCE)

    with pytest.raises(LostOffsetsError) as refused:
        await start(plane)
    for number in range(PARTITIONS):
        said = f"{kept.source}-{number} was committed at {EACH} and would begin at 0 ({EACH} offsets processed again)"
        assert said in refused.value.message
    with running(again(kept, told(last[0]))) as without_server:
        assert isinstance(await asyncio.to_thread(without_server.join_error), PipelineStopError)
    await resume(plane)
    assert committed(kept) == {0: EACH, 1: EACH}
    await start(plane)
    await asyncio.to_thread(process, kept, last[0], records=PARTITIONS * SINCE)
    kept.assert_whole()

    await asyncio.to_thread(process, control, None, records=PARTITIONS * (EACH + SINCE))
    found = control.audit()
    assert (len(found.duplicated), found.lost) == (PARTITIONS * EACH, ())
