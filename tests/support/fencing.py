"""Fencing events for pages and REST to show: put down as the observer and the workers' listener put them down."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.fencing.cases import case_of_word
from app.core.fencing.evidence import ClientWord
from app.core.fencing.fencing_event import Case
from app.core.fencing.service.events import record_cases
from app.core.fencing.steps import cases_of
from app.core.runs.task import EventKind
from app.kit.db.unit_of_work import UnitOfWorkFactory
from tests.core.fencing.coordinator import ID, Client, Coordinator

RUN_ID = "8a6e0804-2bd0-4672-b79d-d97027f9071a"


def coordinator_at(moment: datetime, client: Client = Client.TV_0) -> Coordinator:
    return Coordinator(client, now_ms=int(moment.timestamp() * 1000))


def cases_from(coordinator: Coordinator, cluster_id: str) -> list[Case]:
    return cases_of(coordinator.live, kafka_cluster_id=cluster_id)


def takeover(cluster_id: str, *, at: datetime, is_in_use: bool = True) -> list[Case]:
    coordinator = coordinator_at(at)
    coordinator.begin()
    coordinator.init(after_ms=300)
    if is_in_use:
        coordinator.begin()
    return cases_from(coordinator, cluster_id)


def timeout(cluster_id: str, *, at: datetime) -> list[Case]:
    coordinator = coordinator_at(at)
    coordinator.begin()
    coordinator.time_out()
    return cases_from(coordinator, cluster_id)


def clean_restart(cluster_id: str, *, at: datetime) -> list[Case]:
    coordinator = coordinator_at(at)
    coordinator.init(after_ms=1_000)
    return cases_from(coordinator, cluster_id)


def refusal(
    cluster_id: str,
    producer: tuple[int, int] = (7, 0),
    *,
    at: datetime,
    pipeline: str = "delayed-flights",
    run_id: str = RUN_ID,
) -> Case:
    """The word of a task that was refused as that producer."""
    word = ClientWord(
        event_id="event",
        kind=EventKind.FENCED,
        at_ms=int(at.timestamp() * 1000),
        message="could not commit",
        run_id=run_id,
        ordinal=0,
        lease=1,
        task=1,
        attempt=2,
        pipeline=pipeline,
        host="w1",
        partitions=("flights-0",),
    )
    return _case(word, cluster_id, ID, producer)


def lost_membership(cluster_id: str, *, group: str, at: datetime, transactional_id: str = "fl.t.flights.0.2") -> Case:
    """The word of a task that its group went on without."""
    word = ClientWord(
        event_id=f"lost {group}",
        kind=EventKind.LOST,
        at_ms=int(at.timestamp() * 1000),
        message="lost its partitions",
        run_id=RUN_ID,
        ordinal=0,
        lease=1,
        task=2,
        attempt=0,
        group=group,
        generation=3,
        partitions=("flights-1",),
    )
    return _case(word, cluster_id, transactional_id, (9, 0))


def _case(word: ClientWord, cluster_id: str, transactional_id: str, producer: tuple[int, int]) -> Case:
    case = case_of_word(
        word,
        kafka_cluster_id=cluster_id,
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    assert case is not None
    return case


async def put_down(unit_of_work: UnitOfWorkFactory, cases: Iterable[Case], *, now: datetime) -> None:
    async with unit_of_work() as uow:
        await record_cases(uow, cases, now=now)
        await uow.commit()


async def register(unit_of_work: UnitOfWorkFactory, name: str, cluster_id: str) -> None:
    """A cluster whose brokers are not asked."""
    async with unit_of_work() as uow:
        await uow.of(ClusterStore).add(
            Cluster(
                name=name,
                kafka_cluster_id=cluster_id,
                bootstrap_servers="127.0.0.1:1",
                created_at=datetime.now(UTC) - timedelta(days=1),
                created_by="somebody",
            )
        )
        await uow.commit()
