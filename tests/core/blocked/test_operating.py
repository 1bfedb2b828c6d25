"""Ending transactions on a registered cluster: owners, permissions, and the command log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from app.core.access.command import Command, CommandFilter
from app.core.access.service import command_log
from app.core.blocked.diagnosis import AdviceVerdict, Diagnosis
from app.core.blocked.service import operating
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.lag.service import Lags
from app.core.observing.service.observations import Observations
from app.core.runs.task import TaskState
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.kit.access import Principal, Role, Verb
from app.kit.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, PreconditionError
from tests.conftest import MakeTopic
from tests.support.control_plane import CLUSTER, KAFKA_CLUSTER_ID, ControlPlane, PlaneClock, task_heartbeat
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.topics import unique_name

_DEADLINE_S = 20.0
OFF = Observations(is_on=False)
BROKERS = KafkaTransactions(environment={}, secrets_dir=None)
OLIVIA = Principal(name="olivia", role=Role.OPERATOR)
VICTOR = Principal(name="victor", role=Role.VIEWER)

LeaveOpen = Callable[..., tuple[str, str]]


@pytest.fixture
async def registered(plane: ControlPlane, kafka: KafkaCluster) -> ControlPlane:
    """The broker, under the name that pipelines of the control plane use."""
    async with plane.uow() as uow:
        await uow.of(ClusterStore).add(
            Cluster(
                name=CLUSTER,
                kafka_cluster_id=KAFKA_CLUSTER_ID,
                bootstrap_servers=kafka.bootstrap_servers,
                created_at=plane.now,
                created_by="anna",
            )
        )
        await uow.commit()
    return plane


@pytest.fixture
def leave_open(kafka: KafkaCluster, make_topic: MakeTopic) -> LeaveOpen:
    """A transactional id that blocks consumers, and the blocked topic."""
    kept: list[Producer] = []

    def leave(transactional_id: str | None = None) -> tuple[str, str]:
        topic, name = make_topic(), transactional_id or unique_name("tx")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET, "transactional.id": name})
        initialise(producer)
        producer.begin_transaction()
        producer.produce(topic, b"undecided", partition=0)
        assert producer.flush(_DEADLINE_S) == 0
        kept.append(producer)
        return name, topic

    return leave


async def explained(plane: ControlPlane, topic: str) -> Diagnosis:
    found = await operating.explain(
        plane.uow,
        BROKERS,
        cluster=CLUSTER,
        target=f"{topic}:0",
        kind=None,
        observations=OFF,
        lags=Lags(),
        clock=PlaneClock(plane),
    )
    (one,) = found.partitions
    return one


async def fence(plane: ControlPlane, name: str, *, by: Principal = OLIVIA, force: bool, why: str | None = None) -> None:
    async with plane.uow() as uow:
        await operating.fence(
            uow,
            plane.uow,
            BROKERS,
            cluster=CLUSTER,
            transactional_id=name,
            force=force,
            by=by,
            why=why,
            observations=OFF,
            clock=PlaneClock(plane),
        )
        await uow.commit()


async def log_of(plane: ControlPlane) -> list[Command]:
    async with plane.uow() as uow:
        return list((await command_log.list_commands(uow, CommandFilter(target=f"cluster:{CLUSTER}"))).items)


async def test_owner_is_named_and_alive_while_it_heartbeats(registered: ControlPlane, leave_open: LeaveOpen) -> None:
    pipeline = unique_name("p")
    run = await registered.running(pipeline)
    name, topic = leave_open(f"fl.t.{pipeline}.0.0")
    silent = await explained(registered, topic)
    assert f"whose owner is {pipeline}, instance 0, task 0, without a heartbeat" in silent.links[-1].sentence
    await registered.beat(task_heartbeat(run.id, state=TaskState.RUNNING))
    alive = await explained(registered, topic)
    assert alive.verdict is AdviceVerdict.OWNER
    assert f"{pipeline}, instance 0, task 0 on w1 (running), last heartbeat 0 s ago" in alive.links[-1].sentence
    with pytest.raises(ConflictError, match="is alive: drain its run instead"):
        await fence(registered, name, force=False)
    registered.pass_time(10)
    # Not its owner's any more, and of 60 s at most by its coordinator's clock, whatever time the plane believes it is.
    assert (await explained(registered, topic)).verdict is AdviceVerdict.WAIT


async def test_foreign_id_has_no_fenceline_owner(registered: ControlPlane, leave_open: LeaveOpen) -> None:
    _, topic = leave_open()
    assert (await explained(registered, topic)).links[-1].sentence == "whose owner is not a Fenceline task"


async def test_fence_is_logged_with_user_and_reason(registered: ControlPlane, leave_open: LeaveOpen) -> None:
    name, topic = leave_open()
    await fence(registered, name, force=True, why="its host is gone")
    (row,) = await log_of(registered)
    assert (row.who, row.verb, row.why, row.outcome) == (
        "olivia",
        Verb.FENCE_TRANSACTION,
        "its host is gone",
        f"asked the brokers to fence {name} by force",
    )
    assert row.details == {"transactional_id": name, "force": True}
    assert (await explained(registered, topic)).verdict is AdviceVerdict.FREE


async def test_refused_end_changes_nothing_and_is_not_in_the_command_log(
    registered: ControlPlane, leave_open: LeaveOpen
) -> None:
    name, topic = leave_open()
    with pytest.raises(ForbiddenError, match="requires the role operator"):
        await fence(registered, name, by=VICTOR, force=True, why="because")
    with pytest.raises(InvalidError, match="only with a reason"):
        await fence(registered, name, force=True, why="  ")
    with pytest.raises(ConflictError, match="its producer may be alive"):
        await fence(registered, name, force=False)
    with pytest.raises(NotFoundError):
        await operating.preview_fence(
            registered.uow,
            BROKERS,
            cluster="nobody",
            transactional_id=name,
            observations=OFF,
            clock=PlaneClock(registered),
        )
    assert await log_of(registered) == []
    assert (await explained(registered, topic)).verdict is not AdviceVerdict.FREE


async def end(plane: ControlPlane, topic: str, expected: tuple[int, int, int], *, force: bool) -> None:
    async with plane.uow() as uow:
        await operating.end(
            uow,
            plane.uow,
            BROKERS,
            cluster=CLUSTER,
            topic=topic,
            partition=0,
            expected=expected,
            force=force,
            by=OLIVIA,
            why="a drill",
            observations=OFF,
            clock=PlaneClock(plane),
        )
        await uow.commit()


async def test_only_the_transaction_of_the_preview_is_ended(registered: ControlPlane, leave_open: LeaveOpen) -> None:
    name, topic = leave_open()
    plan = await operating.preview_end(
        registered.uow,
        BROKERS,
        cluster=CLUSTER,
        topic=topic,
        partition=0,
        start_offset=None,
        observations=OFF,
        clock=PlaneClock(registered),
    )
    assert plan.target is not None
    producer_id, epoch, offset = plan.target.identity
    with pytest.raises(PreconditionError, match="another transaction begins at offset 0"):
        await end(registered, topic, (producer_id, epoch + 1, offset), force=True)
    with pytest.raises(ConflictError, match=f"knows it as {name}"):
        await end(registered, topic, plan.target.identity, force=False)
    assert await log_of(registered) == []
    await end(registered, topic, plan.target.identity, force=True)
    (row,) = await log_of(registered)
    assert row.outcome == f"asked for an end of the transaction of producer {producer_id} in {topic}-0 by force"
    assert (await explained(registered, topic)).verdict is AdviceVerdict.FREE
