"""A look at a pipeline that migrates: rows and heartbeats from the database, ids and the group from the journals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from app.domain.journals.transaction_state import TransactionStatus
from app.domain.migrations.clause import Judged
from app.domain.migrations.decision import judged
from app.domain.migrations.look import Held, IdNow, Incarnation, InstanceNow, Look, Stray, TaskNow
from app.domain.migrations.migration import Migration
from app.domain.migrations.mode import Mode, in_mode, mode_of
from app.domain.observing.snapshot import Snapshot, Source
from app.domain.pipelines.pipeline import PipelineDefinition
from app.domain.runs.instance import Instance
from app.domain.runs.run import DesiredRunState, Run
from app.domain.runs.task import TaskReport, TaskState, TaskStatus
from app.domain.storable import moment_of_ms
from app.domain.transactions.transactional_id import for_partition
from app.ports.unit_of_work import UnitOfWork
from app.services.observing.observations import Observations
from app.services.running.specifications import task_identities

HEARD_WITHIN = timedelta(seconds=5)
_Modes = Mapping[int, Mode | None]


async def look_at(uow: UnitOfWork, snapshot: Snapshot, migration: Migration, *, now: datetime) -> Look:
    """As of now. What only one stage asks (preflight, readers, audit) is left open for its loop to add."""
    run = await uow.runs.get(migration.run_id)
    history = await uow.instances.list(run.id, with_history=True)
    definitions = await _definitions(uow, run, history)
    modes = {number: mode_of(definition) for number, definition in definitions.items()}
    definition = definitions[run.revision]
    reports = [
        report
        for one in history
        for report in await uow.tasks.producers_of_lease(run_id=run.id, ordinal=one.ordinal, lease=one.lease)
    ]
    heard = _heard(history, reports, modes)
    tasks = _tasks(run, await uow.tasks.list_statuses([run.id]), modes, now=now)
    own_task_ids = _task_ids(definition, run)
    partitions = await _partitions(uow, run, definition, task_ids=own_task_ids)
    held = {one.transactional_id for lease in (*heard, *migration.held) for one in lease.ids}
    group = snapshot.groups.get(migration.group)
    return Look(
        at=now,
        read_at=_read_at(snapshot),
        ids=_ids(snapshot, {*partitions.values(), *own_task_ids, *held}),
        partitions=partitions,
        task_ids=own_task_ids,
        instances=tuple(_instance(run, one, modes) for one in run.instances),
        tasks=tasks,
        ordinals=definition.instances,
        tasks_per_instance=definition.tasks_per_instance,
        changed_at=max((one.since for one in history if one.has_ended), default=None),
        run_is_live=run.ended_at is None and run.desired in (DesiredRunState.RUN, DesiredRunState.PAUSE),
        group_state=None if group is None else str(group.state),
        heard=heard,
        strays=await _strays(uow, run, history, modes),
    )


async def look_now(uow: UnitOfWork, observations: Observations, migration_id: str, *, now: datetime) -> Look:
    """The same for whoever asks. Raises NotFoundError."""
    migration = await uow.migrations.get(migration_id)
    return await look_at(uow, observations.of(migration.cluster), migration, now=now)


async def gate_now(
    uow: UnitOfWork, observations: Observations, migration_id: str, *, now: datetime
) -> tuple[Judged, ...]:
    """What the next thing waits for; empty when it is over. Raises NotFoundError."""
    migration = await uow.migrations.get(migration_id)
    if not migration.is_open:
        return ()
    return judged(migration, await look_now(uow, observations, migration_id, now=now))


def _read_at(snapshot: Snapshot) -> datetime | None:
    status = snapshot.transaction_journal
    return None if status.source is Source.NOTHING or status.as_of_ms < 0 else moment_of_ms(status.as_of_ms)


def _ids(snapshot: Snapshot, names: Iterable[str]) -> dict[str, IdNow]:
    return {
        name: IdNow(
            producer_id=live.state.producer_id,
            producer_epoch=live.state.producer_epoch,
            is_open=live.is_open,
            was_aborted=live.state.status is TransactionStatus.COMPLETE_ABORT,
        )
        for name in sorted(names)
        if (live := snapshot.transactions.get(name)) is not None
    }


async def _definitions(uow: UnitOfWork, run: Run, history: Iterable[Instance]) -> dict[int, PipelineDefinition]:
    numbers = {run.revision, *run.targets.values(), *(one.revision for one in history)}
    return {number: (await uow.pipelines.get_revision(run.pipeline, number)).definition for number in sorted(numbers)}


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
        )
        for status in statuses
        if (status.ordinal, status.lease) in current
    )


def incarnations_of(report: TaskReport) -> tuple[Incarnation, ...]:
    """The producers that an attempt has, by its last word."""
    if report.transactional_id is None or report.producer_id is None or report.producer_epoch is None:
        return ()
    return (Incarnation(report.transactional_id, report.producer_id, report.producer_epoch),)


def _heard(history: Iterable[Instance], reports: Iterable[TaskReport], modes: _Modes) -> tuple[Held, ...]:
    found = {
        (one.ordinal, one.lease): Held(ordinal=one.ordinal, lease=one.lease, mode=modes[one.revision], ids=())
        for one in history
    }
    for report in reports:
        at = report.ordinal, report.lease
        found[at] = found[at].with_heard(incarnations_of(report))
    return tuple(found[at] for at in sorted(found) if found[at].ids)


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
    """The id of each input partition's producer: that of its mapping, else by its formula."""
    mappings = await uow.mappings.of_group(kafka_cluster_id=run.kafka_cluster_id, group=definition.group_id)
    return {
        f"{one.topic}-{one.partition}": one.transactional_id
        if one.transactional_id is not None and one.transactional_id not in task_ids
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
        for one in await uow.tasks.list_zombies(run.id)
        if (one.ordinal, one.lease) not in current
    )
