"""Find the Fenceline task that owns a transactional id, and its last heartbeat."""

from __future__ import annotations

from collections.abc import Collection

from app.core.blocked.diagnosis import Asked
from app.core.blocked.facts import TaskOwner
from app.core.blocked.service.explaining import Ask
from app.core.clusters.cluster import Cluster
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import IdKind, TransactionalIdOwner
from app.core.mappings.store.mappings import MappingStore
from app.core.observing.service.observations import Observations
from app.core.pipelines.store import PipelineStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskState, TaskStatus
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory

_ENDED = frozenset({TaskState.DRAINED, TaskState.SUPERSEDED, TaskState.FAILED})


def ask_of(unit_of_work: UnitOfWorkFactory, observations: Observations, cluster: Cluster, clock: Clock) -> Ask:
    """Return the context of checks on a registered cluster: owners of ids, and clocks that the observer measured."""

    async def ask(ids: Collection[str]) -> Asked:
        async with unit_of_work() as uow:
            owners = await owners_of(uow, kafka_cluster_id=cluster.kafka_cluster_id, ids=ids)
        return Asked(
            bootstrap_servers=cluster.bootstrap_servers,
            now_ms=int(clock.now().timestamp() * 1000),
            owners=owners,
            clocks=observations.of(cluster.name).clocks.offsets,
        )

    return ask


async def owners_of(uow: UnitOfWork, *, kafka_cluster_id: str, ids: Collection[str]) -> dict[str, TaskOwner]:
    """Return the ids that a Fenceline pipeline owns. A task that has ended, or never reported, has no heartbeat."""
    owned = await uow.of(TransactionalIdStore).owners(kafka_cluster_id=kafka_cluster_id, ids=ids)
    runs = {name: await uow.of(RunStore).find_live(name) for name in {one.pipeline for one in owned}}
    live = {name: run.id for name, run in runs.items() if run is not None}
    queries = {name for name in live if (await uow.of(PipelineStore).get(name)).definition.dataframe is not None}
    statuses = await uow.of(TaskStore).list_statuses(sorted(live.values())) if live else []
    by_place: dict[tuple[str, int | None, int | None], TaskStatus] = {
        (status.run_id, status.ordinal, status.task): status for status in statuses
    }
    of_partitions = [one.transactional_id for one in owned if one.kind is not IdKind.TASK]
    holders = (
        await uow.of(MappingStore).holders(kafka_cluster_id=kafka_cluster_id, ids=of_partitions)
        if of_partitions
        else {}
    )

    def place_of(one: TransactionalIdOwner) -> tuple[int | None, int | None]:
        holder = holders.get(one.transactional_id)
        return (one.ordinal, one.task) if holder is None else (holder.ordinal, holder.task)

    return {
        one.transactional_id: _owner(
            one,
            place_of(one),
            by_place.get((live.get(one.pipeline, ""), *place_of(one))),
            has_run=one.pipeline in live,
            is_writer=one.pipeline in queries,
        )
        for one in owned
    }


def _owner(
    owner: TransactionalIdOwner,
    at: tuple[int | None, int | None],
    status: TaskStatus | None,
    *,
    has_run: bool,
    is_writer: bool,
) -> TaskOwner:
    ordinal, task = at
    place = owner.pipeline if ordinal is None else f"{owner.pipeline}, instance {ordinal}, task {task}"
    if is_writer:
        place = f"writer {task} of the query {owner.pipeline}"
    if status is None:
        return TaskOwner(name=place if has_run else f"{place} (no live run)", heartbeat_ms=None)
    name = f"{place} on {status.last.host} ({status.last.state.replace('_', ' ')})"
    has_ended = status.last.state in _ENDED
    return TaskOwner(name=name, heartbeat_ms=None if has_ended else int(status.received_at.timestamp() * 1000))
