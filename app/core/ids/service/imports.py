"""Preview, import and release the ids of an application that moves to Fenceline."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from app.core.access.service import command_log
from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.ids.imported import ImportFacts, ImportLine, ImportPlan, ImportWish, lines_of, plan_of
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.journals import transaction_state
from app.core.mappings.mapping import AssignedId, IdKind, IdOrigin
from app.core.mappings.store.mappings import MappingStore
from app.core.observing.service.observations import Observations
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.service.specifications import ids_of_tasks
from app.core.runs.store.runs import RunStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError, UnavailableError
from app.kit.storable import storable_text

LATELY = timedelta(minutes=5)
_MAX_SAID = 200


async def plan_import(
    uow: UnitOfWork,
    brokers: Brokers,
    observations: Observations,
    *,
    pipeline: str,
    wish: ImportWish,
    by: Principal,
    now: datetime,
) -> ImportPlan:
    """Preview an import, line by line, with problems and warnings; nothing is written.

    Raises NotFoundError, and InvalidError without lines.
    """
    require(by, Verb.IMPORT_IDS)
    record = await uow.of(PipelineStore).get(pipeline)
    return await _plan(uow, brokers, observations, record=record, wish=wish, now=now)


async def import_ids(
    uow: UnitOfWork,
    brokers: Brokers,
    observations: Observations,
    *,
    pipeline: str,
    wish: ImportWish,
    by: Principal,
    why: str | None,
    now: datetime,
) -> ImportPlan:
    """Make the pipeline the owner of the ids, and assign them to their partitions; earlier imports stay.

    Raises InvalidError with every problem if there is one, ConflictError with a live run, whose tasks have their ids
    already.
    """
    require(by, Verb.IMPORT_IDS)
    record = await uow.of(PipelineStore).get(pipeline, for_update=True)
    await _refuse_live_run(uow, pipeline)
    plan = await _plan(uow, brokers, observations, record=record, wish=wish, now=now)
    if problems := plan.problems:
        raise InvalidError(
            f"nothing was imported: {len(problems)} problem{'' if len(problems) == 1 else 's'}, the first in line "
            f"{problems[0].field.removeprefix('lines.')}: {problems[0].message}",
            problems=problems,
        )
    cluster = await uow.of(ClusterStore).get(record.cluster)
    new = [line for line in plan.lines if not line.is_known]
    await uow.of(TransactionalIdStore).claim_for_partitions(
        pipeline=pipeline,
        kafka_cluster_id=cluster.kafka_cluster_id,
        ids={line.transactional_id for line in new},
        kind=IdKind.IMPORTED,
    )
    await uow.of(MappingStore).assign(
        pipeline=pipeline,
        kafka_cluster_id=cluster.kafka_cluster_id,
        group=record.definition.group_id,
        ids=[one for line in new if (one := _assigned(line)) is not None],
        origin=IdOrigin.IMPORTED,
        now=now,
    )
    ids = sorted({line.transactional_id for line in new})
    await command_log.record(
        uow,
        by=by,
        verb=Verb.IMPORT_IDS,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"{len(ids)} ids imported, {len(plan.lines) - len(new)} lines were imported before",
        details={"formula": wish.formula, "values": wish.values, "ids": ids[:_MAX_SAID], "ids_in_all": len(ids)},
    )
    uow.notify("pipeline", pipeline)
    return plan


async def forget_imports(uow: UnitOfWork, pipeline: str, *, by: Principal, why: str | None, now: datetime) -> list[str]:
    """Release every imported id of the pipeline, with its assignments to partitions, and return the ids.

    Raises ConflictError with a live run.
    """
    require(by, Verb.FORGET_IMPORTED_IDS)
    await uow.of(PipelineStore).get(pipeline, for_update=True)
    await _refuse_live_run(uow, pipeline)
    await uow.of(MappingStore).unassign(pipeline=pipeline, origin=IdOrigin.IMPORTED)
    ids = await uow.of(TransactionalIdStore).release(pipeline=pipeline, kind=IdKind.IMPORTED)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.FORGET_IMPORTED_IDS,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"{len(ids)} imported ids released",
        details={"ids": ids[:_MAX_SAID], "ids_in_all": len(ids)},
    )
    uow.notify("pipeline", pipeline)
    return ids


async def _plan(
    uow: UnitOfWork,
    brokers: Brokers,
    observations: Observations,
    *,
    record: Pipeline,
    wish: ImportWish,
    now: datetime,
) -> ImportPlan:
    if record.definition.dataframe is not None:
        raise InvalidError(f"pipeline {record.name} is a query of Spark: its ids belong to writers, not to partitions")
    cluster = await uow.of(ClusterStore).get(record.cluster)
    group = record.definition.group_id
    partitions = await _partitions(brokers, cluster, record.definition.source_topics)
    lines = lines_of(wish, group=group, partitions=partitions)
    ids = sorted({line.transactional_id for line in lines if line.transactional_id})
    owned = await uow.of(TransactionalIdStore).owners(
        kafka_cluster_id=cluster.kafka_cluster_id, ids=[name for name in ids if storable_text(name) == name]
    )
    mappings = await uow.of(MappingStore).of_group(kafka_cluster_id=cluster.kafka_cluster_id, group=group)
    return plan_of(
        lines,
        ImportFacts(
            pipeline=record.name,
            group=group,
            partitions=partitions,
            assigned={
                Partition(one.topic, one.partition): one.assigned_id
                for one in mappings
                if one.assigned_id is not None and one.pipeline == record.name
            },
            owners={one.transactional_id: one for one in owned},
            of_tasks=await _ids_of_tasks(uow, cluster),
            in_use=_in_use(observations, cluster.name, ids, now=now),
        ),
    )


async def _partitions(brokers: Brokers, cluster: Cluster, topics: tuple[str, ...]) -> dict[str, int | None]:
    try:
        known = await brokers.topics(cluster.connection())
    except UnavailableError:
        return dict.fromkeys(topics)
    return {topic: None if topic not in known else known[topic].partitions for topic in topics}


async def _ids_of_tasks(uow: UnitOfWork, cluster: Cluster) -> dict[str, str]:
    """Return, by id, the pipeline on this Kafka cluster whose tasks would use it."""
    same = {
        one.name for one in await uow.of(ClusterStore).list_all() if one.kafka_cluster_id == cluster.kafka_cluster_id
    }
    return {
        name: other.name
        for other in await uow.of(PipelineStore).list_all()
        if other.cluster in same
        for name in ids_of_tasks(other.definition, pipeline=other.name)
    }


def _in_use(observations: Observations, cluster: str, ids: list[str], *, now: datetime) -> Mapping[str, str]:
    """Return the recent use of these ids by the journal, as sentences."""
    snapshot = observations.of(cluster)
    found: dict[str, str] = {}
    for name in ids:
        live = snapshot.transactions.get(name)
        if live is None:
            continue
        rests = snapshot.clocks.age_at(
            transaction_state.TOPIC, live.partition, live.state.last_update_ms, now_ms=int(now.timestamp() * 1000)
        )
        if live.is_open:
            found[name] = "It has a transaction open: its application runs, and a start would fence the application"
        elif rests is None and live.state.last_update_ms >= 0:
            found[name] = (
                "Its last use is not known, because its coordinator's clock is not measured: its application may run, "
                "and a start would fence the application"
            )
        elif rests is not None and rests.least_ms < LATELY / timedelta(milliseconds=1):
            found[name] = (
                "It was used in the last 5 minutes: its application may run, and a start would fence the application"
            )
    return found


async def _refuse_live_run(uow: UnitOfWork, pipeline: str) -> None:
    live = await uow.of(RunStore).find_live(pipeline)
    if live is not None:
        raise ConflictError(
            f"pipeline {pipeline} has a run that is {live.state}, whose tasks have their ids already: drain it first"
        )


def _assigned(line: ImportLine) -> AssignedId | None:
    if line.topic is None or line.partition is None:
        return None
    return AssignedId(topic=line.topic, partition=line.partition, transactional_id=line.transactional_id)
