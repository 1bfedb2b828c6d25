"""The registry over a real database and a journal: the need of ids, and their numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from app.core.clusters.survey import ID_EXPIRATION, Survey, SurveyedBroker
from app.core.clusters.surveys import SurveyAnswer, Surveys
from app.core.ids.loop import IdCensus
from app.core.ids.registry import IdCount, RegisteredId, RegistryQuery
from app.core.ids.service import registry as id_registry
from app.core.ids.service.registry import Registry
from app.core.ids.store.id_counts import IdCountStore
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.core.pipelines.store import PipelineStore
from app.core.runs.service import retention
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane, task_heartbeat
from tests.support.observing import cluster, hear, state_of, transaction_batch
from tests.support.queries import QUERY

CLUSTER = "c"
DAY_MS = 86_400_000
ID = "fl.t.flights.0.0"


class World:
    """The cluster's journal, ids by name, with queries about it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.observations = Observations(is_on=True)
        self._live = cluster()
        self._offset = 0

    def heard(self, name: str, status: TransactionStatus = TransactionStatus.COMPLETE_COMMIT, **state: Any) -> None:
        now_ms = int(self.plane.now.timestamp() * 1000)
        made = state_of(status, start_ms=now_ms, **{"changed_ms": now_ms, **state})
        hear(self._live, transaction_batch(name, made, at=self._offset, at_ms=now_ms), now_ms=now_ms)
        self._offset += 1
        self._live.enter(self._live.transactions.topic, ReadingPhase.LIVE, now_ms=now_ms)
        self.observations.publish(self._live.snapshot(now_ms=now_ms))

    async def registry(self, **query: Any) -> Registry:
        async with self.plane.uow() as uow:
            return await id_registry.get_registry(
                uow,
                self.observations,
                surveys(),
                cluster=CLUSTER,
                query=RegistryQuery(**query),
                now=self.plane.now,
            )

    async def one(self, name: str) -> RegisteredId:
        (found,) = [one for one in (await self.registry()).items if one.transactional_id == name]
        return found


def surveys() -> Surveys:
    broker = SurveyedBroker(
        id=1, host="h", port=9, is_controller=True, version=(4, 3), settings={ID_EXPIRATION: str(7 * DAY_MS)}
    )

    async def of(_: object) -> SurveyAnswer:
        survey = Survey(cluster_id=KAFKA_CLUSTER_ID, brokers=(broker,), features=())
        return SurveyAnswer(survey=survey, problem="", at=datetime.now(UTC))

    return cast(Surveys, SimpleNamespace(of=of))


@pytest.fixture
def world(plane: ControlPlane) -> World:
    return World(plane)


async def test_id_of_a_running_task_is_managed_until_its_definition_changes(world: World) -> None:
    await world.plane.running(cluster=CLUSTER, tasks_per_instance=2)
    world.heard(ID)
    world.heard("fl.t.flights.0.1")
    world.heard("somebody")
    assert [str(one.standing) for one in (await world.registry()).items] == ["ours", "ours", "foreign"]
    await world.plane.revise("flights", tasks_per_instance=1)
    assert str((await world.one("fl.t.flights.0.1")).standing) == "ours", "the run keeps its revision"
    async with world.plane.uow() as uow:
        await uow.of(PipelineStore).remove("flights")
        await uow.commit()
    assert (await world.one(ID)).orphan == "no_pipeline"


async def test_expiry_counts_from_the_last_use_by_the_brokers_own_setting(world: World) -> None:
    await world.plane.running(cluster=CLUSTER)
    world.heard(ID)
    found = await world.registry()
    assert (found.expiration_ms, found.expiration_problem) == (7 * DAY_MS, "")
    assert found.items[0].expires_at_ms == int(world.plane.now.timestamp() * 1000) + 7 * DAY_MS


async def test_foreign_producer_with_the_id_of_a_task_is_named(world: World) -> None:
    run = await world.plane.running(cluster=CLUSTER)
    beat = replace(task_heartbeat(run.id, partitions=[("in", 0)]), producer_id=7, producer_epoch=3)
    await world.plane.beat(beat)
    world.heard(ID, producer_id=7, epoch=3)
    world.plane.pass_time(60)
    assert (await world.registry()).tally.contested == 0
    world.heard(ID, producer_id=7, epoch=4, status=TransactionStatus.EMPTY)
    world.heard(ID, TransactionStatus.ONGOING, producer_id=7, epoch=5)
    world.plane.pass_time(60)
    assert "producer 7 with epoch 5, which no task of flights has reported" in (await world.one(ID)).contested
    assert (await world.registry(only="contested")).matching == 1
    await world.plane.beat(replace(beat, sequence=2, producer_epoch=5))
    assert (await world.one(ID)).contested == "", "it was its own task, heard late"


async def test_writers_of_a_query_report_no_producer_and_are_not_contested(world: World) -> None:
    run = await world.plane.running(cluster=CLUSTER, transform=QUERY)
    await world.plane.beat(task_heartbeat(run.id))
    world.heard(ID, TransactionStatus.ONGOING, producer_id=7, epoch=5)
    world.plane.pass_time(60)
    assert (await world.one(ID)).contested == ""


async def test_mapping_of_a_topic_that_is_no_longer_read_is_stale(world: World) -> None:
    run = await world.plane.running(cluster=CLUSTER)
    await world.plane.beat(task_heartbeat(run.id, partitions=[("in", 0)]))
    assert (await world.registry()).stale == ()
    await world.plane.revise("flights", source_topics=("another",))
    (stale,) = (await world.registry()).stale
    assert (stale.topic, stale.partition, stale.pipeline) == ("in", 0, "flights")


async def test_census_stores_the_number_of_ids_while_the_journal_is_live(world: World) -> None:
    await world.plane.running(cluster=CLUSTER)
    census = IdCensus(
        unit_of_work=world.plane.uow,
        observations=world.observations,
        clock=cast(Any, SimpleNamespace(now=lambda: world.plane.now)),
    )
    await census.turn()
    assert await counts(world.plane) == [], "nothing is known yet"
    world.heard(ID)
    await census.turn()
    await census.turn()
    world.heard("fl.t.gone.0.0")
    world.heard("somebody")
    later = world.plane.pass_time(60)
    await census.turn()
    assert [(one.ids, one.ours, one.orphaned) for one in await counts(world.plane)] == [(1, 1, 0), (3, 1, 1)]
    assert (await counts(world.plane))[-1].at == later


async def test_counts_are_thinned_and_end(plane: ControlPlane) -> None:
    await plane.cluster(CLUSTER)
    began = plane.now
    async with plane.uow() as uow:
        for minute in range(0, 12 * 60, 20):
            count = IdCount(at=began + timedelta(minutes=minute), ids=minute, ours=0, orphaned=0)
            await uow.of(IdCountStore).add(count, kafka_cluster_id=KAFKA_CLUSTER_ID)
        await uow.commit()
    plane.pass_time(12 * 3600)

    async def expire(*, after: timedelta = timedelta()) -> int:
        async with plane.uow() as uow:
            removed = await retention.expire(uow, now=plane.now + after)
            await uow.commit()
        return removed["id_counts"]

    assert await expire() == 12, "two of three in each of the first six hours"
    assert [one.ids for one in await counts(plane)][:8] == [0, 60, 120, 180, 240, 300, 360, 380]
    assert await expire(after=timedelta(days=91)) == 24
    assert await counts(plane) == []


async def counts(plane: ControlPlane) -> list[IdCount]:
    async with plane.uow() as uow:
        return await uow.of(IdCountStore).series(
            kafka_cluster_id=KAFKA_CLUSTER_ID, since=datetime.fromtimestamp(0, UTC)
        )
