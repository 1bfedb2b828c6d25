"""A command is a fencing event as soon as a real broker has answered it, and the journal confirms it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import pytest

from app.core.blocked.dead_tasks import DeadEnd, DeadProducer, DeadTask
from app.core.blocked.facts import KnownTransaction
from app.core.blocked.service import operating
from app.core.blocked.service.dead_tasks import end_what_is_left
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.fencing.evidence import CommandWord, CoordinatorRecord
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.fencing.record import FencingFilter, FencingRecord
from app.core.fencing.service.events import record_cases
from app.core.fencing.steps import cases_of
from app.core.fencing.store import FencingStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.transaction_state import TOPIC
from app.core.observing.service.observations import Observations
from app.edges.db.database import Database
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from app.kit.access import Principal, Role
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.control_plane import ControlPlane
from tests.support.hanging import make_hanging
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow

ANN = Principal(name="ann", role=Role.OPERATOR)
KAFKA_CLUSTER_ID = "as-the-brokers-say"


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


async def register(database: Database, scene: Scene) -> None:
    cluster = Cluster(
        name="prod",
        kafka_cluster_id=KAFKA_CLUSTER_ID,
        bootstrap_servers=scene.bootstrap_servers,
        created_at=datetime.now(UTC),
        created_by="ann",
    )
    async with database.unit_of_work() as uow:
        await uow.of(ClusterStore).add(cluster)
        await uow.commit()


async def kept(database: Database) -> FencingRecord:
    async with database.unit_of_work() as uow:
        (record,) = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items
    return record


async def read_journal(database: Database, scene: Scene, ids: Collection[str]) -> None:
    live = LiveTransactions()
    servers = scene.bootstrap_servers
    for partition, batch in read_logs({"bootstrap.servers": servers}, ConnectionAttempt(servers, 30), TOPIC):
        live.apply(partition, batch)
    cases = [case for name in ids for case in cases_of(live.ids[name], kafka_cluster_id=KAFKA_CLUSTER_ID)]
    async with database.unit_of_work() as uow:
        await record_cases(uow, cases, now=datetime.now(UTC))
        await uow.commit()


@pytest.mark.parametrize("is_open", [True, False])
async def test_fence_is_an_event_that_the_journal_joins(database: Database, scene: Scene, is_open: bool) -> None:
    await register(database, scene)
    name, producer = scene.leave_open(scene.topic())
    if not is_open:
        producer.commit_transaction(20)
    async with database.unit_of_work() as uow:
        await operating.fence(
            uow,
            database.unit_of_work,
            scene.brokers,
            cluster="prod",
            transactional_id=name,
            force=True,
            by=ANN,
            why="readers wait",
            observations=Observations(is_on=False),
            clock=SystemClock(),
        )
        await uow.commit()
    told = await kept(database)
    assert (told.event.verdict.cause, told.event.verdict.confidence) == (
        FencingCause.OPERATOR_FENCE,
        Confidence.CERTAIN,
    )
    assert told.event.verdict.sentence.startswith(f"ann fenced {name}")
    await read_journal(database, scene, [name])
    joined = await kept(database)
    assert (joined.event.verdict.cause, joined.corrections) == (FencingCause.OPERATOR_FENCE, ())
    assert {type(one) for one in joined.event.evidence} == {CommandWord, CoordinatorRecord}
    assert ("No transaction was open" in joined.event.verdict.sentence) is not is_open


async def test_end_of_a_dead_tasks_transaction_is_an_event_that_the_journal_joins(
    database: Database, scene: Scene
) -> None:
    await register(database, scene)
    topic = scene.topic()
    name, _ = scene.leave_open(topic, timeout_ms=900_000)
    known = await scene.brokers.describe_transaction(scene.connection, name)
    assert isinstance(known, KnownTransaction)
    await ControlPlane(database).pipeline("flights", cluster="prod")
    async with database.unit_of_work() as uow:
        cluster = await uow.of(ClusterStore).get("prod")
        await uow.of(TransactionalIdStore).claim(
            pipeline="flights", kafka_cluster_id=cluster.kafka_cluster_id, ids=[(name, 0, 0)]
        )
        await uow.commit()
    producer = DeadProducer(transactional_id=name, producer_id=known.producer_id, producer_epoch=known.producer_epoch)
    dead = DeadTask(
        pipeline="flights",
        run_id="r",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        producer=producer,
        group="flights",
        member_id=None,
        why="its process is gone",
    )

    async def end() -> DeadEnd | None:
        ended = await end_what_is_left(database.unit_of_work, scene.brokers, cluster, dead, clock=SystemClock())
        return ended.transaction

    assert [await end(), await end()] == [DeadEnd.ENDED, DeadEnd.MOVED_ON]
    told = await kept(database)
    assert (told.event.verdict.cause, told.event.verdict.confidence) == (FencingCause.DEAD_TASK, Confidence.CERTAIN)
    # Its successor starts and writes before the journal is read.
    _, successor = scene.leave_open(topic, transactional_id=name)
    successor.commit_transaction(20)
    await read_journal(database, scene, [name])
    joined = await kept(database)
    assert joined.event.verdict.cause is FencingCause.DEAD_TASK
    assert joined.corrections == () or joined.event.verdict.alternatives == (FencingCause.TAKEOVER,)
    assert {type(one) for one in joined.event.evidence} == {CommandWord, CoordinatorRecord}
    assert "was aborted; read_committed consumers skip its records" in joined.event.verdict.sentence


@pytest.mark.parametrize("is_hanging", [True, False])
async def test_end_is_an_event_that_says_what_the_coordinator_knew(
    database: Database, scene: Scene, is_hanging: bool
) -> None:
    await register(database, scene)
    topic, name = scene.topic(), unique_name("late")
    if is_hanging:
        make_hanging(scene.bootstrap_servers, Partition(topic, 0), name)
    else:
        scene.leave_open(topic, transactional_id=name)
    async with database.unit_of_work() as uow:
        plan = await operating.preview_end(
            database.unit_of_work,
            scene.brokers,
            cluster="prod",
            topic=topic,
            partition=0,
            start_offset=None,
            observations=Observations(is_on=False),
            clock=SystemClock(),
        )
        assert plan.target is not None
        await operating.end(
            uow,
            database.unit_of_work,
            scene.brokers,
            cluster="prod",
            topic=topic,
            partition=0,
            expected=plan.target.identity,
            force=True,
            by=ANN,
            why="readers wait",
            observations=Observations(is_on=False),
            clock=SystemClock(),
        )
        await uow.commit()
    told = await kept(database)
    assert told.event.verdict.cause is (FencingCause.HANGING_ENDED if is_hanging else FencingCause.OPERATOR_ABORT)
    assert told.event.verdict.confidence is Confidence.CERTAIN
    assert told.event.key.transactional_id == name
    assert f"in {topic}-0, because: readers wait" in told.event.verdict.sentence
