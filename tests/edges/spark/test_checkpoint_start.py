"""A query that leaves its checkpoint, on a real broker with a local Spark: its output is what the plan said."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # pyright: ignore[reportPrivateImportUsage]
from msgspec.structs import replace

from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition, SparkSettings, Stream
from app.core.pipelines.store import PipelineStore
from app.core.runs.run import RunEnd
from app.core.runs.store.runs import RunStore
from app.core.runs.task import OutcomeKind
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.products.dataframes.new_checkpoint import Begin, NewCheckpointPlan
from app.products.dataframes.service.checkpoints import CheckpointAsked, plan_new_checkpoint, set_new_checkpoint
from tests.conftest import MakeTopic
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.queries import progress, report, send
from tests.support.quiet import QUIET
from tests.support.spark_instances import SparkInstances, StartedInstance
from tests.support.topics import unique_name
from tests.support.verifier import read_all
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

DEADLINE_S = 300
RECORDS, MORE, LAST = range(300), range(300, 350), range(350, 360)


class Leaving:
    """A pipeline `flights` with instances that the test starts, and the command of the server."""

    def __init__(self, wiring: Wiring, plane: ControlPlane, instances: SparkInstances) -> None:
        self.wiring = wiring
        self.plane = plane
        self.instances = instances
        self.lease = 0

    async def definition(self) -> PipelineDefinition:
        async with self.plane.uow() as uow:
            return (await uow.of(PipelineStore).get("flights")).definition

    async def feed(self, numbers: Iterable[int], *, partitions: int = 2) -> None:
        producer = Producer({"bootstrap.servers": self.instances.bootstrap_servers, **QUIET})
        (topic,) = (await self.definition()).source_topics
        for number in numbers:
            producer.produce(topic, value=json.dumps({"n": number}).encode(), partition=number % partitions)
        assert producer.flush(30) == 0

    async def add_partition(self) -> None:
        """The third one of the source."""
        (topic,) = (await self.definition()).source_topics
        admin = AdminClient({"bootstrap.servers": self.instances.bootstrap_servers, **QUIET})
        # The admin client's futures have no type for their result.
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)  # pyright: ignore[reportUnknownMemberType]

    async def written(self) -> Counter[int]:
        found = read_all(self.instances.bootstrap_servers, (await self.definition()).sink_topic)
        return Counter(int(record.value or b"") for record in found)

    async def run_until_written(self, count: int) -> None:
        """Start the current revision, and drain it when these rows are there."""
        sink = (await self.definition()).sink_topic
        instance = await self._submit()

        def rows() -> int:
            return len(read_all(self.instances.bootstrap_servers, sink))

        def run() -> None:
            wait_for(
                lambda: rows() >= count or instance.files.outcome.exists(),
                DEADLINE_S,
                lambda: f"{count} rows; {rows()}\n{instance.log()[-3000:]}",
            )
            instance.sigterm()
            ended = instance.wait_until_gone(120).outcome
            assert ended is not None, instance.log()[-3000:]
            assert ended.kind == OutcomeKind.DRAINED, ended.message

        await asyncio.to_thread(run)

    async def refusal(self) -> str:
        """Start the current revision, which the sink refuses."""
        ended = (await asyncio.to_thread((await self._submit()).wait_until_gone, DEADLINE_S)).outcome
        assert ended is not None
        assert ended.kind == OutcomeKind.HOPELESS, ended.message
        return ended.message

    async def _submit(self) -> StartedInstance:
        self.lease += 1
        specification = self.instances.specification(
            await self.definition(), pipeline="flights", lease=self.lease, run_id="r"
        )
        return await asyncio.to_thread(self.instances.submit, specification)

    async def reported(self) -> None:
        """A run of the current revision that has reported a batch without state, and has ended."""
        run = await self.plane.run()
        await self.plane.submit(run.id)
        await self.plane.claim(run.id)
        batch = progress(self.lease, state_rows=None, state_bytes=None)
        await send(self.plane, report(run.id, batch, query_id=f"query-{self.lease}"))
        async with self.plane.uow() as uow:
            await uow.of(RunStore).end(run.id, end=RunEnd.STOPPED, reason=None, now=self.plane.now)
            await uow.commit()

    async def plan(self, begin: Begin | None = None) -> NewCheckpointPlan:
        """The plan without refusals: a drained driver is a member until its session ends."""
        deadline = asyncio.get_running_loop().time() + 60
        while True:
            async with self.plane.uow() as uow:
                found = await plan_new_checkpoint(
                    uow,
                    self.wiring.brokers,
                    self.wiring.transactions,
                    pipeline="flights",
                    asked=CheckpointAsked(begin),
                )
            if not found.refusals or asyncio.get_running_loop().time() > deadline:
                assert found.refusals == ()
                return found

    async def leave(self, plan: NewCheckpointPlan) -> NewCheckpointPlan:
        async with self.plane.uow() as uow:
            done = await set_new_checkpoint(
                uow,
                self.wiring.brokers,
                self.wiring.transactions,
                pipeline="flights",
                asked=CheckpointAsked(plan.begin, plan.checkpoint),
                expected_batch=plan.newest_batch,
                allowed=self.wiring.allowed_options,
                by=ANNA,
                why="the disk is lost",
                now=self.plane.now,
            )
            await uow.commit()
        return done


@pytest.fixture
def instances(kafka: KafkaCluster, tmp_path: Path, worker_cache: Path) -> Generator[SparkInstances]:
    made = SparkInstances(
        state_dir=tmp_path / "state",
        cache_dir=worker_cache,
        master="local[2]",
        bootstrap_servers=kafka.bootstrap_servers,
    )
    yield made
    made.kill_all()


@pytest.fixture
async def leaving(
    database: Database, wiring: Wiring, instances: SparkInstances, make_topic: MakeTopic, tmp_path: Path
) -> Leaving:
    plane = ControlPlane(database)
    plane.now = wiring.clock.now()
    await plane.registered(wiring.brokers, instances.bootstrap_servers)
    source = make_topic(partitions=2)
    await plane.pipeline(
        cluster="real",
        source_topics=(source,),
        sink_topic=make_topic(partitions=1),
        group_id=unique_name("group"),
        transaction_timeout_ms=60_000,
        session_timeout_ms=6_000,
        spark=SparkSettings(master="local[2]"),
        transform=DataframeQuery(
            streams=(Stream(name="numbers", topic=source, schema="n INT"),),
            sql="SELECT cast(n AS STRING) AS value FROM numbers",
            checkpoint=f"file://{tmp_path}/checkpoint",
            max_offsets_per_trigger=100,
            trigger_ms=500,
        ),
    )
    return Leaving(wiring, plane, instances)


async def test_output_after_a_new_checkpoint_is_what_its_plan_said(leaving: Leaving) -> None:
    definition = await leaving.definition()
    query = definition.dataframe
    assert query is not None
    old = query.checkpoint
    await leaving.feed(RECORDS)
    await leaving.run_until_written(len(RECORDS))
    await leaving.reported()
    assert await leaving.written() == Counter(RECORDS)

    # Negative control: the same start without the command.
    shown = await leaving.plan()
    assert (shown.left, shown.checkpoint) == (old, f"{old}-r2")
    assert (shown.begin, shown.has_state, shown.read_again, shown.never_read) == (Begin.COMMITTED, False, 0, 0)
    await leaving.plane.revise("flights", transform=replace(query, checkpoint=shown.checkpoint))
    said = await leaving.refusal()
    assert "is new or was deleted, but flights has written batch" in said
    assert "start over: fenceline new-checkpoint" in said
    assert await leaving.written() == Counter(RECORDS)

    # Without state, the query goes on where it ended.
    shown = await leaving.plan()
    assert (shown.left, shown.checkpoint, shown.revision) == (old, f"{old}-r2", 2)
    assert await leaving.leave(shown) == shown
    await leaving.feed(MORE)
    await leaving.run_until_written(len(RECORDS) + len(MORE))
    await leaving.reported()
    assert await leaving.written() == Counter([*RECORDS, *MORE])

    # At the start position, it reads as many records again as the plan said.
    shown = await leaving.plan(Begin.START_POSITION)
    assert (shown.left, shown.checkpoint, shown.revision) == (f"{old}-r2", f"{old}-r3", 3)
    assert shown.read_again == len(RECORDS) + len(MORE)
    assert await leaving.leave(shown) == shown
    # A partition that is added after the command begins at its log start.
    await leaving.add_partition()
    await leaving.feed(LAST, partitions=3)
    await leaving.run_until_written(len(RECORDS) + len(MORE) + shown.read_again + len(LAST))
    assert await leaving.written() == Counter([*RECORDS, *MORE] * 2 + [*LAST])
