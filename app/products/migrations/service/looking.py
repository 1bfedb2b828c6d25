"""View a migrating pipeline: rows and heartbeats from the database, ids and the group from the journals."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from datetime import datetime, timedelta

from app.core.clusters.brokers import GroupDescription
from app.core.fencing.evidence import CommandWord
from app.core.fencing.record import FencingFilter
from app.core.fencing.store import FencingStore
from app.core.ids.transactional_id import for_partition
from app.core.journals.transaction_state import TransactionStatus
from app.core.mappings.store.mappings import MappingStore
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import Snapshot, SnapshotSource
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.runs.client_id import task_of_client
from app.core.runs.instance import Instance
from app.core.runs.mode import Mode, in_mode, mode_of
from app.core.runs.run import DesiredRunState, Run
from app.core.runs.service.specifications import task_identities
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskReport, TaskState, TaskStatus
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.storable import moment_of_ms
from app.products.migrations.look import (
    GroupNow,
    Held,
    IdNow,
    Incarnation,
    InstanceNow,
    MigrationLook,
    MigrationMember,
    Stray,
    TaskNow,
)
from app.products.migrations.migration import Migration, Stage
from app.products.migrations.store.migrations import MigrationStore

HEARD_WITHIN = timedelta(seconds=5)
_NEWEST = 10
_Modes = Mapping[int, Mode | None]


async def look_at(
    uow: UnitOfWork,
    snapshot: Snapshot,
    migration: Migration,
    *,
    group: GroupDescription | None = None,
    group_asked_at: datetime | None = None,
    now: datetime,
) -> MigrationLook:
    """View the pipeline now. The stages' own questions (preflight, consumers, audit) are left to the loop.

    group: as its coordinator has just described it. A classic group's journal has completed rebalances only.
    """
    run = await uow.of(RunStore).get(migration.run_id)
    history = await uow.of(InstanceStore).list(run.id, with_history=True)
    definitions = await _definitions(uow, run, history)
    modes = {number: mode_of(definition) for number, definition in definitions.items()}
    definition = definitions[run.revision]
    reports = await uow.of(TaskStore).reports_of_run(run.id)
    heard = _heard(history, reports, modes)
    tasks = _tasks(run, await uow.of(TaskStore).list_statuses([run.id]), modes, now=now)
    own_task_ids = _task_ids(definition, run)
    partitions = await _partitions(uow, run, definition, task_ids=own_task_ids)
    held = {one.transactional_id for lease in (*heard, *migration.held) for one in lease.ids}
    ids = _ids(snapshot, {*partitions.values(), *own_task_ids, *held})
    return MigrationLook(
        at=now,
        read_at=_read_at(snapshot),
        ids=ids,
        partitions=partitions,
        task_ids=own_task_ids,
        instances=tuple(_instance(run, one, modes) for one in run.instances),
        tasks=tasks,
        ordinals=definition.instances,
        tasks_per_instance=definition.tasks_per_instance,
        changed_at=max((one.since for one in history if one.has_ended), default=None),
        run_is_live=run.ended_at is None and run.desired in (DesiredRunState.RUN, DesiredRunState.PAUSE),
        group=None
        if group is None
        else _group(group, snapshot, migration, history, modes, reports, asked_at=group_asked_at or now),
        fenced_by_hand=await _fenced_by_hand(
            uow,
            migration,
            ids,
            told={one for task in tasks for one in task.holds},
            kafka_cluster_id=run.kafka_cluster_id,
        ),
        heard=heard,
        strays=await _strays(uow, run, history, modes),
    )


async def look_now(uow: UnitOfWork, observations: Observations, migration_id: str, *, now: datetime) -> MigrationLook:
    """View the pipeline for a user's request. Raises NotFoundError."""
    migration = await uow.of(MigrationStore).get(migration_id)
    return await look_at(uow, observations.of(migration.cluster), migration, now=now)


def _read_at(snapshot: Snapshot) -> datetime | None:
    status = snapshot.transaction_journal
    return None if status.source is SnapshotSource.NOTHING or status.as_of_ms < 0 else moment_of_ms(status.as_of_ms)


def _ids(snapshot: Snapshot, names: Iterable[str]) -> dict[str, IdNow]:
    return {
        name: IdNow(
            producer_id=live.state.producer_id,
            producer_epoch=live.state.producer_epoch,
            is_open=live.is_open,
            was_aborted=live.state.status is TransactionStatus.COMPLETE_ABORT,
            partition=live.partition,
            offset=live.offset,
            at=moment_of_ms(live.timestamp_ms) if live.timestamp_ms >= 0 else None,
        )
        for name in sorted(names)
        if (live := snapshot.transactions.get(name)) is not None
    }


async def _definitions(uow: UnitOfWork, run: Run, history: Iterable[Instance]) -> dict[int, PipelineDefinition]:
    numbers = {run.revision, *run.targets.values(), *(one.revision for one in history)}
    return {
        number: (await uow.of(PipelineStore).get_revision(run.pipeline, number)).definition
        for number in sorted(numbers)
    }


def _instance(run: Run, one: Instance, modes: _Modes) -> InstanceNow:
    return InstanceNow(
        ordinal=one.ordinal,
        lease=one.lease,
        mode=modes[one.revision],
        target=modes[run.target_of(one.ordinal)],
        state=one.state,
    )


def _tasks(run: Run, statuses: Iterable[TaskStatus], modes: _Modes, *, now: datetime) -> tuple[TaskNow, ...]:
    current = {(one.ordinal, one.lease): one for one in run.instances}
    return tuple(
        TaskNow(
            ordinal=status.ordinal,
            lease=status.lease,
            task=status.task,
            attempt=status.attempt,
            host=status.last.host,
            pid=status.last.pid,
            mode=modes[current[status.ordinal, status.lease].revision],
            is_live=status.last.state is TaskState.RUNNING and now - status.received_at <= HEARD_WITHIN,
            heard_at=status.received_at,
            holds=incarnations_of(status.last),
            generation=_generation(status.last, modes[current[status.ordinal, status.lease].revision]),
            member_id=status.last.member_id,
        )
        for status in statuses
        if (status.ordinal, status.lease) in current
    )


def incarnations_of(report: TaskReport) -> tuple[Incarnation, ...]:
    """Return the producers that an attempt reported last: one for itself, or one for each of its partitions."""
    told = [(report.transactional_id, report.producer_id, report.producer_epoch)]
    told += [(one.transactional_id, one.producer_id, one.producer_epoch) for one in report.partitions]
    return tuple(
        Incarnation(name, producer_id, epoch)
        for name, producer_id, epoch in told
        if name is not None and producer_id is not None and epoch is not None
    )


def _generation(report: TaskReport, mode: Mode | None) -> int | None:
    """Return the generation that the attempt reports for its offsets."""
    if mode is Mode.V2:
        return report.generation
    return min(
        (one.offsets_generation for one in report.partitions if one.offsets_generation is not None), default=None
    )


def _heard(history: Iterable[Instance], reports: Iterable[TaskReport], modes: _Modes) -> tuple[Held, ...]:
    found = {
        (one.ordinal, one.lease): Held(ordinal=one.ordinal, lease=one.lease, mode=modes[one.revision], ids=())
        for one in history
    }
    for report in reports:
        at = report.ordinal, report.lease
        if at in found:
            found[at] = found[at].with_heard(incarnations_of(report))
    return tuple(found[at] for at in sorted(found) if found[at].ids)


def _group(
    described: GroupDescription,
    snapshot: Snapshot,
    migration: Migration,
    history: Iterable[Instance],
    modes: _Modes,
    reports: Iterable[TaskReport],
    *,
    asked_at: datetime,
) -> GroupNow:
    live = snapshot.groups.get(migration.group)
    revisions = {(one.ordinal, one.lease): one.revision for one in history}
    pids = {(one.ordinal, one.lease, one.task, one.attempt): one.pid for one in reports}

    def member(client_id: str, host: str, member_id: str) -> MigrationMember:
        task = task_of_client(migration.pipeline, client_id)
        revision = None if task is None else revisions.get((task.ordinal, task.lease))
        mode = None if revision is None else modes[revision]
        pid = None if task is None else pids.get((task.ordinal, task.lease, task.task, task.attempt))
        return MigrationMember(member_id=member_id, client_id=client_id, host=host, task=task, mode=mode, pid=pid)

    return GroupNow(
        state=described.state,
        generation=-1 if live is None else live.generation,
        members=tuple(member(one.client_id, one.host, one.member_id) for one in described.members),
        asked_at=asked_at,
    )


async def _fenced_by_hand(
    uow: UnitOfWork,
    migration: Migration,
    ids: Mapping[str, IdNow],
    *,
    told: Container[Incarnation],
    kafka_cluster_id: str,
) -> frozenset[Incarnation]:
    """Return the recorded answers to users' fences, after which no producer writes under the id.

    They cover retired ids that were fenced again, which is no sign of a live producer. In the first bounce they cover
    ids that no live task holds, where the fence excludes frozen producers.
    """
    found: set[Incarnation] = set()
    for name, now in ids.items():
        fence, newest = migration.fence_of(name), Incarnation(name, now.producer_id, now.producer_epoch)
        is_ours = fence is not None and fence.incarnation == newest
        is_asked = migration.gave_up(name) is not None or migration.stage is Stage.FIRST_BOUNCE
        if is_ours or not is_asked or newest in told:
            continue
        wanted = FencingFilter(kafka_cluster_id=kafka_cluster_id, transactional_id=name)
        for record in (await uow.of(FencingStore).list(wanted, after=None, limit=_NEWEST)).items:
            found |= {
                Incarnation(name, one.producer_id, one.producer_epoch)
                for one in record.event.evidence
                if isinstance(one, CommandWord) and one.producer_id is not None and one.producer_epoch is not None
            }
    return frozenset(found)


def _task_ids(definition: PipelineDefinition, run: Run) -> tuple[str, ...]:
    in_v2 = in_mode(definition, Mode.V2)
    return tuple(
        identity.transactional_id
        for ordinal in range(definition.instances)
        for identity in task_identities(in_v2, pipeline=run.pipeline, ordinal=ordinal)
        if identity.transactional_id is not None
    )


async def _partitions(
    uow: UnitOfWork, run: Run, definition: PipelineDefinition, *, task_ids: tuple[str, ...]
) -> dict[str, str]:
    """Return the id of each input partition's producer: from its mapping, else by the formula."""
    mappings = await uow.of(MappingStore).of_group(kafka_cluster_id=run.kafka_cluster_id, group=definition.group_id)
    return {
        f"{one.topic}-{one.partition}": known
        if (known := one.assigned_id or one.transactional_id) is not None and known not in task_ids
        else for_partition(
            prefix=definition.transactional_id_prefix,
            group=definition.group_id,
            topic=one.topic,
            partition=one.partition,
        )
        for one in mappings
        if one.topic in definition.source_topics
    }


async def _strays(uow: UnitOfWork, run: Run, history: Iterable[Instance], modes: _Modes) -> tuple[Stray, ...]:
    revisions = {(one.ordinal, one.lease): one.revision for one in history}
    current = {(one.ordinal, one.lease) for one in run.instances if not one.has_ended}
    return tuple(
        Stray(
            ordinal=one.ordinal,
            lease=one.lease,
            task=one.task,
            attempt=one.attempt,
            mode=modes[revisions[one.ordinal, one.lease]],
            host=one.host,
            pid=one.pid,
            heard_at=one.last_seen_at,
        )
        for one in await uow.of(TaskStore).list_zombies(run.id)
        if (one.ordinal, one.lease) not in current
    )
