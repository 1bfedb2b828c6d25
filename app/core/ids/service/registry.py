"""The registry of transactional ids: the ids on the brokers, compared with the ids that pipelines need."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from app.core.clusters.store import ClusterStore
from app.core.clusters.survey import ID_EXPIRATION, longest_ms
from app.core.clusters.surveys import Surveys
from app.core.ids import registry as id_registry
from app.core.ids.registry import IdCount, IdTally, Needed, RegisteredId, RegistryQuery, needed_of, stale_mappings
from app.core.ids.store.id_counts import IdCountStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import PartitionMapping
from app.core.mappings.store.mappings import MappingStore
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, ReadingPhase
from app.core.pipelines.store import PipelineStore
from app.core.runs.service.specifications import ids_of_tasks
from app.kit.db.unit_of_work import UnitOfWork

GROWTH_SPAN = timedelta(days=30)


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """expiration_ms: None with its reason in `expiration_problem`. stale: mappings that no pipeline reads."""

    items: tuple[RegisteredId, ...]
    next_cursor: str | None
    matching: int
    tally: IdTally
    stale: tuple[PartitionMapping, ...]
    expiration_ms: int | None
    expiration_problem: str
    journal: JournalStatus


async def get_registry(
    uow: UnitOfWork,
    observations: Observations,
    surveys: Surveys,
    *,
    cluster: str,
    query: RegistryQuery,
    now: datetime,
    after: str | None = None,
    limit: int = 50,
) -> Registry:
    """Return one page of a cluster's ids, with the totals. Raises NotFoundError, InvalidError."""
    record = await uow.of(ClusterStore).get(cluster)
    snapshot = observations.of(cluster)
    needed, stale = await _needed(uow, record.kafka_cluster_id)
    answer = await surveys.of(record)
    expiration_ms = None if answer.survey is None else longest_ms(answer.survey, ID_EXPIRATION)
    # With 50,000 ids it takes tenths of a second, which must not block the event loop.
    page = await asyncio.to_thread(
        id_registry.select,
        snapshot.transactions,
        needed,
        query,
        expiration_ms=expiration_ms,
        now_ms=int(now.timestamp() * 1000),
        after=after,
        limit=limit,
        clocks=snapshot.clocks,
    )
    return Registry(
        items=page.items,
        next_cursor=page.next_cursor,
        matching=page.matching,
        tally=page.tally,
        stale=stale,
        expiration_ms=expiration_ms,
        expiration_problem=answer.problem or ("" if expiration_ms else f"no broker reports its {ID_EXPIRATION}"),
        journal=snapshot.transaction_journal,
    )


async def get_growth(uow: UnitOfWork, *, cluster: str, now: datetime) -> list[IdCount]:
    """Return the numbers of the cluster's ids over GROWTH_SPAN, oldest first. Raises NotFoundError."""
    record = await uow.of(ClusterStore).get(cluster)
    return await uow.of(IdCountStore).series(kafka_cluster_id=record.kafka_cluster_id, since=now - GROWTH_SPAN)


async def count_ids(uow: UnitOfWork, observations: Observations, *, now: datetime) -> int:
    """Store the number of ids of each cluster with a live journal, and return the number of clusters."""
    written = 0
    seen: set[str] = set()
    for cluster in await uow.of(ClusterStore).list_all():
        snapshot = observations.of(cluster.name)
        if snapshot.transaction_journal.phase is not ReadingPhase.LIVE or cluster.kafka_cluster_id in seen:
            continue
        seen.add(cluster.kafka_cluster_id)
        needed, _ = await _needed(uow, cluster.kafka_cluster_id)
        tally = await asyncio.to_thread(
            id_registry.tally_of,
            snapshot.transactions,
            needed,
            now_ms=int(now.timestamp() * 1000),
            clocks=snapshot.clocks,
        )
        await uow.of(IdCountStore).add(
            IdCount(at=now, ids=tally.ids, ours=tally.ours, orphaned=tally.orphaned),
            kafka_cluster_id=cluster.kafka_cluster_id,
        )
        written += 1
    return written


async def _needed(uow: UnitOfWork, kafka_cluster_id: str) -> tuple[Needed, tuple[PartitionMapping, ...]]:
    """Return the ids that pipelines need on a Kafka cluster, and the mappings that none of them reads."""
    same = {one.name for one in await uow.of(ClusterStore).list_all() if one.kafka_cluster_id == kafka_cluster_id}
    pipelines = [one for one in await uow.of(PipelineStore).list_all() if one.cluster in same]
    of_tasks: set[str] = set()
    of_queries: set[str] = set()
    for one in pipelines:
        definitions = [one.definition]
        if one.current_run is not None and one.current_run.revision != one.current_revision:
            # A run keeps its revision until it is restarted.
            running = await uow.of(PipelineStore).get_revision(one.name, one.current_run.revision)
            definitions.append(running.definition)
        for definition in definitions:
            ids = ids_of_tasks(definition, pipeline=one.name)
            of_tasks |= ids
            of_queries |= ids if definition.dataframe is not None else set()
    mappings = await uow.of(MappingStore).of_cluster(kafka_cluster_id=kafka_cluster_id)
    needed = needed_of(
        await uow.of(TransactionalIdStore).of_cluster(kafka_cluster_id=kafka_cluster_id),
        of_tasks=of_tasks,
        mappings=mappings,
        told=await uow.of(MappingStore).incarnations(kafka_cluster_id=kafka_cluster_id),
        of_queries=of_queries,
    )
    reads = {one.name: (one.definition.group_id, frozenset(one.definition.source_topics)) for one in pipelines}
    return needed, tuple(stale_mappings(mappings, reads))
