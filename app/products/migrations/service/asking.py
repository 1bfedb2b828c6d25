"""Requests of users for migrations: start, pause, resume, roll back, abort. They only write rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from app.core.access.service import command_log
from app.core.clusters.brokers import Brokers
from app.core.clusters.store import ClusterStore
from app.core.pipelines.pipeline import GroupProtocol, PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.runs.mode import Mode, in_mode, mode_of
from app.core.runs.run import DesiredRunState
from app.core.runs.service.busy import refuse_while_busy, refuse_while_disturbed
from app.core.runs.service.recorded_offsets import refuse_lost_offsets
from app.core.runs.store.runs import RunStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError
from app.kit.page import Page, checked_limit
from app.products.migrations.alarms import Alarm
from app.products.migrations.decision import go_back, settled_targets
from app.products.migrations.gates import WAIVABLE
from app.products.migrations.look import MigrationLook
from app.products.migrations.migration import (
    TRANSITIONS,
    Migration,
    MigrationState,
    MigrationStepKind,
    Stage,
    StepState,
)
from app.products.migrations.record import Evidence
from app.products.migrations.service.rows import gather_targets, lock, notify, revision_in, set_targets
from app.products.migrations.store.migrations import MigrationStore


async def start_migration(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    pipeline: str,
    goal: Mode,
    waived: Mapping[str, str],
    by: Principal,
    why: str | None,
    now: datetime,
) -> Migration:
    """Start the migration of the pipeline's live run; its first stage only checks.

    waived: the reason for each waived condition, by its name.
    Raises ConflictError if something conflicts, or if no migration leads to the goal; InvalidError.
    """
    require(by, Verb.START_MIGRATION)
    _check_waived(waived)
    migration = await migration_to(
        uow, brokers, pipeline=pipeline, goal=goal, by=by.name, why=why, waived=waived, now=now
    )
    await uow.of(MigrationStore).add(migration)
    await _log(uow, migration, Verb.START_MIGRATION, by=by, why=why, now=now, outcome=f"started, to {goal}")
    return migration


async def migration_to(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    pipeline: str,
    goal: Mode,
    by: str,
    why: str | None,
    waived: Mapping[str, str],
    now: datetime,
) -> Migration:
    """Make one that may start now, without saving it; the pipeline's row is locked. Raises as `start_migration`."""
    record = await uow.of(PipelineStore).get(pipeline, for_update=True)
    await refuse_while_busy(uow, pipeline)
    run = await uow.of(RunStore).find_live(pipeline)
    if run is None or run.desired is not DesiredRunState.RUN:
        raise ConflictError(f"pipeline {pipeline} does not run: a migration bounces running instances. Start it first")
    running = (await uow.of(PipelineStore).get_revision(pipeline, run.revision)).definition
    # An aborted migration leaves the run's own revision behind, which differs in its mode only.
    if in_mode(running, Mode.V2) != in_mode(record.definition, Mode.V2):
        raise ConflictError(
            f"revision {record.current_revision} of pipeline {pipeline} waits for a restart: restart it first, so "
            "that the migration changes nothing else"
        )
    if mode_of(record.definition) is None:
        what = "a query of Spark" if record.definition.dataframe else record.definition.processing_guarantee
        raise ConflictError(f"pipeline {pipeline} is {what}: there is nothing to migrate")
    _check_goal(record.definition, goal, field="goal")
    await refuse_while_disturbed(uow, pipeline)
    before = await uow.of(MigrationStore).list(pipeline=pipeline, after=None, limit=1)
    cluster = await uow.of(ClusterStore).get(run.cluster)
    await refuse_lost_offsets(uow, brokers, record)
    committed = await brokers.committed_offsets(cluster.connection(), record.definition.group_id)
    return Migration(
        id=str(uuid.uuid4()),
        pipeline=pipeline,
        run_id=run.id,
        cluster=run.cluster,
        group=record.definition.group_id,
        goal=goal,
        stage_since=now,
        state_since=now,
        started_at=now,
        started_by=by,
        why=why,
        waived=dict(waived),
        # Earlier leases with these ids have lower epochs, and could never be judged drained.
        fenced=tuple(replace(fence, step=0) for one in before.items for fence in one.fenced),
        offsets={f"{at.topic}-{at.partition}": offset for at, offset in sorted(committed.items())},
    )


def _check_goal(definition: PipelineDefinition, goal: Mode, *, field: str) -> None:
    """Raise InvalidError if the definition cannot run in that mode."""
    if goal is not Mode.GROUP_ONLY:
        return
    if definition.group_protocol is GroupProtocol.CONSUMER:
        raise InvalidError("members of a group of the protocol `consumer` always send an epoch", field=field)
    if definition.files is not None:
        raise InvalidError(
            "with group_only, a frozen task of a file sink could publish references to collected files. Choose "
            "generation",
            field=field,
        )


async def pause_migration(
    uow: UnitOfWork, migration_id: str, *, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Begin no further step. An instance between two leases still gets its next lease."""
    require(by, Verb.PAUSE_MIGRATION)
    migration = await _open(uow, migration_id, MigrationState.PAUSED)
    paused = migration.in_state(MigrationState.PAUSED, now=now, missing=migration.missing)
    return await _saved(uow, paused, Verb.PAUSE_MIGRATION, by=by, why=why, now=now, outcome="paused")


async def resume_migration(
    uow: UnitOfWork, migration_id: str, *, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Resume. Check every condition again, and give a late step its full time limit."""
    require(by, Verb.RESUME_MIGRATION)
    migration = await _open(uow, migration_id, MigrationState.ACTIVE)
    step = migration.step
    if step is not None and step.state is StepState.LATE:
        migration = migration.with_step(step.moved(StepState.UNDERWAY, began_at=now, missing=""))
    resumed = migration.in_state(MigrationState.ACTIVE, now=now)
    return await _saved(uow, resumed, Verb.RESUME_MIGRATION, by=by, why=why, now=now, outcome="resumed")


async def roll_back(
    uow: UnitOfWork, migration_id: str, look: MigrationLook, *, to: Mode, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Roll back from any stage: first to generation, and from there to group_only.

    Raises ConflictError if it rolls back already, InvalidError for a goal that is no earlier mode.
    """
    require(by, Verb.ROLL_BACK_MIGRATION)
    if to is Mode.V2:
        raise InvalidError("a rollback leads to generation or to group_only", field="to")
    migration = await lock(uow, migration_id)
    _refuse_ended(migration)
    if migration.goal is not Mode.V2:
        raise ConflictError(f"this migration rolls back to {migration.goal} already")
    if migration.stage is Stage.PREFLIGHT:
        raise ConflictError("the preflight has moved no instance: abort this migration instead")
    definition = (await uow.of(PipelineStore).get(migration.pipeline)).definition
    _check_goal(definition, to, field="to")
    number = await revision_in(uow, migration, Mode.GENERATION, by=by, now=now)
    migration = replace(migration, revisions={**migration.revisions, Mode.GENERATION: number})
    await set_targets(uow, migration, settled_targets(look))
    turned = go_back(_without_step(migration, now=now), to=to, now=now)
    return await _saved(uow, turned, Verb.ROLL_BACK_MIGRATION, by=by, why=why, now=now, outcome=f"rolls back, to {to}")


async def abort_migration(
    uow: UnitOfWork, migration_id: str, look: MigrationLook, *, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Abort it. Every instance keeps its mode, and another migration may continue from there."""
    require(by, Verb.ABORT_MIGRATION)
    migration = await lock(uow, migration_id)
    _refuse_ended(migration)
    if look.run_is_live:
        await set_targets(uow, migration, settled_targets(look))
        await gather_targets(uow, migration)
    aborted = _without_step(migration, now=now).in_state(MigrationState.ABORTED, now=now, missing=migration.missing)
    return await _saved(uow, aborted, Verb.ABORT_MIGRATION, by=by, why=why, now=now, outcome="aborted")


async def fence_id(
    uow: UnitOfWork,
    migration_id: str,
    look: MigrationLook,
    *,
    transactional_id: str,
    by: Principal,
    why: str | None,
    now: datetime,
) -> Migration:
    """Fence an id that no task takes over, as the next step of the first bounce.

    Raises ConflictError in another stage, while a step is underway, or while a live task reports that it holds the id.
    """
    require(by, Verb.FENCE_TRANSACTION)
    migration = await lock(uow, migration_id)
    if migration.stage is not Stage.FIRST_BOUNCE or not migration.is_open:
        raise ConflictError("single ids are fenced in the first bounce only; later stages fence all ids")
    if migration.step is not None:
        raise ConflictError(f"step {migration.step.number} ({migration.step.words}) is underway: wait for its end")
    if transactional_id not in look.partitions.values():
        raise InvalidError(f"{transactional_id} is not the id of an input partition", field="transactional_id")
    now_at = look.now_of(transactional_id)
    holder = None if now_at is None else look.holder_of(now_at)
    if holder is not None:
        raise ConflictError(f"{holder.name} holds {transactional_id}, and is alive: the id needs no fence")
    step = migration.next_step(MigrationStepKind.FENCE, began_at=now, ids=(transactional_id,), by=by.name)
    return await _saved(
        uow,
        migration.with_step(step),
        Verb.FENCE_TRANSACTION,
        by=by,
        why=why,
        now=now,
        outcome=f"step {step.number}: {step.words}",
    )


async def list_migrations(
    uow: UnitOfWork, *, pipeline: str | None = None, after: str | None = None, limit: int = 50
) -> Page[Migration]:
    """List migrations, newest first. Raises NotFoundError for an unknown pipeline."""
    if pipeline is not None:
        await uow.of(PipelineStore).get(pipeline)
    return await uow.of(MigrationStore).list(pipeline=pipeline, after=after, limit=checked_limit(limit))


async def get_migration(uow: UnitOfWork, migration_id: str) -> Migration:
    return await uow.of(MigrationStore).get(migration_id)


async def list_evidence(uow: UnitOfWork, migration_id: str) -> Sequence[Evidence]:
    """List the evidence, oldest first."""
    await uow.of(MigrationStore).get(migration_id)
    return await uow.of(MigrationStore).evidence(migration_id)


async def list_alarms(uow: UnitOfWork, migration_id: str) -> Sequence[Alarm]:
    """List the alerts, oldest first."""
    await uow.of(MigrationStore).get(migration_id)
    return await uow.of(MigrationStore).alarms(migration_id)


def _check_waived(waived: Mapping[str, str]) -> None:
    for name, reason in waived.items():
        if name not in WAIVABLE:
            raise InvalidError(
                f"{name} cannot be waived. Conditions that can: {', '.join(sorted(WAIVABLE))}", field="waived"
            )
        if not reason.strip():
            raise InvalidError(f"waiving {name} requires a reason", field="waived")


async def _open(uow: UnitOfWork, migration_id: str, to: MigrationState) -> Migration:
    migration = await lock(uow, migration_id)
    _refuse_ended(migration)
    if to not in TRANSITIONS[migration.state]:
        raise ConflictError(f"this migration is {migration.state}")
    return migration


def _refuse_ended(migration: Migration) -> None:
    if not migration.is_open:
        raise ConflictError(f"this migration is over: it is {migration.state}")


def _without_step(migration: Migration, *, now: datetime) -> Migration:
    step = migration.step
    return migration if step is None else migration.with_step(step.moved(StepState.DROPPED, ended_at=now))


async def _saved(
    uow: UnitOfWork, migration: Migration, verb: Verb, *, by: Principal, why: str | None, now: datetime, outcome: str
) -> Migration:
    await uow.of(MigrationStore).save(migration)
    await _log(uow, migration, verb, by=by, why=why, now=now, outcome=outcome)
    return migration


async def _log(
    uow: UnitOfWork, migration: Migration, verb: Verb, *, by: Principal, why: str | None, now: datetime, outcome: str
) -> None:
    await command_log.record(
        uow,
        by=by,
        verb=verb,
        target=f"pipeline:{migration.pipeline}",
        why=why,
        now=now,
        outcome=f"migration {migration.id}: {outcome}",
        details={"migration": migration.id, "stage": migration.stage, "goal": migration.goal},
    )
    notify(uow, migration)
