"""One step of a migration, on its locked row: what the look shows is written down before anything is done about it."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from app.domain.access import MIGRATIONS, Verb, require
from app.domain.errors import ConflictError
from app.domain.migrations.alarms import alarms_of
from app.domain.migrations.clause import Judged
from app.domain.migrations.decision import (
    TARGETS,
    Begin,
    Complete,
    Decision,
    Enter,
    Finish,
    Patience,
    Stop,
    Wait,
    decide,
)
from app.domain.migrations.look import Held, Incarnation, Look
from app.domain.migrations.migration import Fenced, Migration, MigrationState, Step, StepKind, StepState
from app.domain.migrations.mode import Mode
from app.domain.migrations.record import Evidence
from app.ports.unit_of_work import UnitOfWork
from app.services.access import command_log
from app.services.migrating.rows import lock, notify, revision_in

_BY = MIGRATIONS


async def advance(
    uow: UnitOfWork, migration_id: str, look: Look, *, now: datetime, patience: Patience | None = None
) -> Decision:
    """Take in a look, and do the next thing that it allows.

    1. what every lease was heard to hold    kept for as long as the migration, as leases go and their reports with them
    2. alarms                                a new one stops the migration
    3. the decision                          and what it was decided by, as evidence
    """
    require(_BY, Verb.ADVANCE_MIGRATION)
    before = await lock(uow, migration_id)
    if not before.is_open:
        return Wait()
    migration = replace(before, held=_with_heard(before.held, look.heard))
    alarms = [one for one in alarms_of(migration, look) if await uow.migrations.add_alarm(migration_id, one)]
    decision: Decision
    if alarms and migration.state is MigrationState.ACTIVE:
        decision = Stop(missing=alarms[0].sentence)
    else:
        decision = decide(migration, look, patience=patience)
    try:
        migration = await _applied(uow, migration, decision, look, now=now)
    except ConflictError as error:
        decision = Stop(missing=error.message)
        migration = await _applied(uow, migration, decision, look, now=now)
    if migration != before:
        await uow.migrations.save(migration)
    if migration.state is not before.state or migration.stage is not before.stage or migration.steps != before.steps:
        notify(uow, migration)
    return decision


async def ids_to_fence(uow: UnitOfWork, migration_id: str) -> tuple[Step, tuple[str, ...]] | None:
    """Those of the fence that is underway that are still to be initialised; None: there is no such step."""
    migration = await uow.migrations.get(migration_id)
    step = migration.step
    if step is None or step.kind is not StepKind.FENCE or migration.state is not MigrationState.ACTIVE:
        return None
    done = {one.incarnation.transactional_id for one in migration.fenced if one.step == step.number}
    return step, tuple(name for name in step.ids if name not in done)


async def record_fence(
    uow: UnitOfWork, migration_id: str, incarnation: Incarnation, *, step: int, now: datetime
) -> None:
    """Keep what the coordinator answered: from here on this incarnation, and none before it, is the id's."""
    migration = await lock(uow, migration_id)
    fenced = Fenced(incarnation=incarnation, at=now, step=step)
    await uow.migrations.save(replace(migration, fenced=(*migration.fenced, fenced)))
    notify(uow, migration)


async def _applied(
    uow: UnitOfWork, migration: Migration, decision: Decision, look: Look, *, now: datetime
) -> Migration:
    match decision:
        case Begin(step=step, clauses=clauses):
            if step.kind is StepKind.BOUNCE and step.ordinal is not None and step.to is not None:
                migration = await _with_revision(uow, migration, step.to, now=now)
                run = await uow.runs.get(migration.run_id)
                await uow.runs.set_targets(run.id, {**run.targets, step.ordinal: migration.revisions[step.to]})
            await _prove(uow, migration, f"began: {step.words}", clauses, look, step=step, now=now)
            return migration.with_step(step)
        case Finish(step=step, clauses=clauses):
            await _prove(uow, migration, f"done: {step.words}", clauses, look, step=step, now=now)
            return migration.with_step(step.moved(StepState.DONE, ended_at=now))
        case Enter(stage=stage, clauses=clauses):
            target = TARGETS.get(stage)
            entered = migration.in_stage(stage, now=now)
            if target is not None:
                entered = await _with_revision(uow, entered, target, now=now)
            await _prove(uow, migration, f"on to {stage.words}", clauses, look, now=now)
            return entered
        case Complete(clauses=clauses):
            await _prove(uow, migration, "done", clauses, look, now=now)
            return await _completed(uow, migration, now=now)
        case Stop(missing=missing):
            return await _stopped(uow, migration, missing, now=now)
        case Wait():
            return migration


async def _with_revision(uow: UnitOfWork, migration: Migration, mode: Mode, *, now: datetime) -> Migration:
    number = await revision_in(uow, migration, mode, by=_BY, now=now)
    return replace(migration, revisions={**migration.revisions, mode: number})


async def _completed(uow: UnitOfWork, migration: Migration, *, now: datetime) -> Migration:
    """The run's own revision is the goal's from here on, and no instance has one of its own any more."""
    run = await uow.runs.get(migration.run_id)
    revision = migration.revisions[migration.goal]
    await uow.runs.set_target(run.id, revision=revision, bounce_requested_at=run.bounce_requested_at)
    await uow.runs.set_targets(run.id, {})
    await _log(uow, migration, f"done: every instance is {migration.goal}, at revision {revision}", now=now)
    return migration.in_state(MigrationState.DONE, now=now)


async def _stopped(uow: UnitOfWork, migration: Migration, missing: str, *, now: datetime) -> Migration:
    step = migration.step
    if step is not None and step.state is StepState.UNDERWAY:
        migration = migration.with_step(step.moved(StepState.LATE, missing=missing))
    await _log(uow, migration, f"stopped in stage {migration.stage.words}: {missing}", now=now)
    return migration.in_state(MigrationState.STOPPED, now=now, missing=missing)


async def _prove(
    uow: UnitOfWork,
    migration: Migration,
    sentence: str,
    clauses: tuple[Judged, ...],
    look: Look,
    *,
    step: Step | None = None,
    now: datetime,
) -> None:
    evidence = Evidence(
        at=now,
        who=_BY.name,
        stage=migration.stage,
        sentence=sentence,
        clauses=clauses,
        look=look,
        step=None if step is None else step.number,
    )
    await uow.migrations.add_evidence(migration.id, evidence)


async def _log(uow: UnitOfWork, migration: Migration, outcome: str, *, now: datetime) -> None:
    await command_log.record(
        uow,
        by=_BY,
        verb=Verb.ADVANCE_MIGRATION,
        target=f"pipeline:{migration.pipeline}",
        why=None,
        now=now,
        outcome=f"migration {migration.id}: {outcome}",
        details={"migration": migration.id, "stage": migration.stage, "goal": migration.goal},
    )


def _with_heard(held: tuple[Held, ...], heard: tuple[Held, ...]) -> tuple[Held, ...]:
    known = {(one.ordinal, one.lease): one for one in held}
    for one in heard:
        at = one.ordinal, one.lease
        known[at] = one if at not in known else known[at].with_heard(one.ids)
    return tuple(known[at] for at in sorted(known))
