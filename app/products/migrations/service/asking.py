"""Migrations as people ask for them: begun, paused, gone on with, turned round, given up. Only rows are written."""

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
from app.products.migrations.look import Look
from app.products.migrations.migration import TRANSITIONS, Migration, MigrationState, Stage, StepKind, StepState
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
    """Begin the migration of the pipeline's live run; its first stage looks only.

    waived: by the name of a waivable clause, why it does not matter here.
    Raises ConflictError where something else is going on, or where no migration leads there; InvalidError.
    """
    require(by, Verb.START_MIGRATION)
    _check_waived(waived)
    migration = await migration_to(
        uow, brokers, pipeline=pipeline, goal=goal, by=by.name, why=why, waived=waived, now=now
    )
    await uow.of(MigrationStore).add(migration)
    await _log(uow, migration, Verb.START_MIGRATION, by=by, why=why, now=now, outcome=f"begun, to {goal}")
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
    """One that may begin now, unwritten; the pipeline's row is locked. Raises as `start_migration`."""
    record = await uow.of(PipelineStore).get(pipeline, for_update=True)
    await refuse_while_busy(uow, pipeline)
    run = await uow.of(RunStore).find_live(pipeline)
    if run is None or run.desired is not DesiredRunState.RUN:
        raise ConflictError(f"pipeline {pipeline} does not run: a migration moves instances that run, one at a time")
    running = (await uow.of(PipelineStore).get_revision(pipeline, run.revision)).definition
    # A migration that was aborted leaves the run's own revision behind, in another mode and in nothing else.
    if in_mode(running, Mode.V2) != in_mode(record.definition, Mode.V2):
        raise ConflictError(
            f"revision {record.current_revision} of pipeline {pipeline} waits for a restart: bring it in first, so "
            "that the migration changes nothing else"
        )
    if mode_of(record.definition) is None:
        raise ConflictError(
            f"pipeline {pipeline} is {record.definition.processing_guarantee}: there is nothing to migrate"
        )
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
        # Leases that held these before stand at lower epochs, and could never be called drained.
        fenced=tuple(replace(fence, step=0) for one in before.items for fence in one.fenced),
        offsets={f"{at.topic}-{at.partition}": offset for at, offset in sorted(committed.items())},
    )


def _check_goal(definition: PipelineDefinition, goal: Mode, *, field: str) -> None:
    """Raise InvalidError where the definition cannot be run in that mode."""
    if goal is not Mode.GROUP_ONLY:
        return
    if definition.group_protocol is GroupProtocol.CONSUMER:
        raise InvalidError("a group of the protocol `consumer` has no members without an epoch", field=field)
    if definition.files is not None:
        raise InvalidError(
            "the pipeline writes files: with group_only a task that was frozen could publish references to files that "
            "were collected meanwhile",
            field=field,
        )


async def pause_migration(
    uow: UnitOfWork, migration_id: str, *, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Begin no further step; an instance that is between two leases still comes back."""
    require(by, Verb.PAUSE_MIGRATION)
    migration = await _open(uow, migration_id, MigrationState.PAUSED)
    paused = migration.in_state(MigrationState.PAUSED, now=now, missing=migration.missing)
    return await _saved(uow, paused, Verb.PAUSE_MIGRATION, by=by, why=why, now=now, outcome="paused")


async def resume_migration(
    uow: UnitOfWork, migration_id: str, *, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Go on. A step that was late is waited for anew; whatever stopped the migration is looked at again."""
    require(by, Verb.RESUME_MIGRATION)
    migration = await _open(uow, migration_id, MigrationState.ACTIVE)
    step = migration.step
    if step is not None and step.state is StepState.LATE:
        migration = migration.with_step(step.moved(StepState.UNDERWAY, began_at=now, missing=""))
    resumed = migration.in_state(MigrationState.ACTIVE, now=now)
    return await _saved(uow, resumed, Verb.RESUME_MIGRATION, by=by, why=why, now=now, outcome="goes on")


async def roll_back(
    uow: UnitOfWork, migration_id: str, look: Look, *, to: Mode, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Turn round, from any stage: first to generations, and only from there to group_only.

    Raises ConflictError where it is on its way back already, InvalidError for a goal that is not behind it.
    """
    require(by, Verb.ROLL_BACK_MIGRATION)
    if to is Mode.V2:
        raise InvalidError("back is to generation, or to group_only", field="to")
    migration = await lock(uow, migration_id)
    _refuse_ended(migration)
    if migration.goal is not Mode.V2:
        raise ConflictError(f"this migration is on its way back to {migration.goal} already")
    if migration.stage is Stage.PREFLIGHT:
        raise ConflictError("the preflight has moved nothing, and is not proven yet: abort this migration instead")
    definition = (await uow.of(PipelineStore).get(migration.pipeline)).definition
    _check_goal(definition, to, field="to")
    number = await revision_in(uow, migration, Mode.GENERATION, by=by, now=now)
    migration = replace(migration, revisions={**migration.revisions, Mode.GENERATION: number})
    await set_targets(uow, migration, settled_targets(look))
    turned = go_back(_without_step(migration, now=now), to=to, now=now)
    return await _saved(
        uow, turned, Verb.ROLL_BACK_MIGRATION, by=by, why=why, now=now, outcome=f"turned round, to {to}"
    )


async def abort_migration(
    uow: UnitOfWork, migration_id: str, look: Look, *, by: Principal, why: str | None, now: datetime
) -> Migration:
    """Give it up where it is: every instance stays as it is, and another migration may go on from there."""
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
    look: Look,
    *,
    transactional_id: str,
    by: Principal,
    why: str | None,
    now: datetime,
) -> Migration:
    """Have an id that nobody takes over fenced in the first bounce, as the next step.

    Raises ConflictError in another stage, while a step is underway, or while a live task says that it holds the id.
    """
    require(by, Verb.FENCE_TRANSACTION)
    migration = await lock(uow, migration_id)
    if migration.stage is not Stage.FIRST_BOUNCE or not migration.is_open:
        raise ConflictError("single ids are fenced in the first bounce only; later all of them are, by themselves")
    if migration.step is not None:
        raise ConflictError(f"step {migration.step.number} ({migration.step.words}) is underway: wait for its end")
    if transactional_id not in look.partitions.values():
        raise InvalidError(f"{transactional_id} is not the id of an input partition", field="transactional_id")
    now_at = look.now_of(transactional_id)
    holder = None if now_at is None else look.holder_of(now_at)
    if holder is not None:
        raise ConflictError(f"{holder.name} holds {transactional_id}, and is alive: let it be")
    step = migration.next_step(StepKind.FENCE, began_at=now, ids=(transactional_id,), by=by.name)
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
    """Newest first. Raises NotFoundError when there is no such pipeline."""
    if pipeline is not None:
        await uow.of(PipelineStore).get(pipeline)
    return await uow.of(MigrationStore).list(pipeline=pipeline, after=after, limit=checked_limit(limit))


async def get_migration(uow: UnitOfWork, migration_id: str) -> Migration:
    return await uow.of(MigrationStore).get(migration_id)


async def list_evidence(uow: UnitOfWork, migration_id: str) -> Sequence[Evidence]:
    """In the order in which it came."""
    await uow.of(MigrationStore).get(migration_id)
    return await uow.of(MigrationStore).evidence(migration_id)


async def list_alarms(uow: UnitOfWork, migration_id: str) -> Sequence[Alarm]:
    """Oldest first."""
    await uow.of(MigrationStore).get(migration_id)
    return await uow.of(MigrationStore).alarms(migration_id)


def _check_waived(waived: Mapping[str, str]) -> None:
    for name, reason in waived.items():
        if name not in WAIVABLE:
            raise InvalidError(
                f"the clause {name} cannot be waived; those that can: {', '.join(sorted(WAIVABLE))}", field="waived"
            )
        if not reason.strip():
            raise InvalidError(f"say why {name} does not matter here", field="waived")


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
