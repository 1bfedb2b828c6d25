"""Advance a migration by one step, on its locked row; every view is recorded before the step that it allows."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from msgspec.structs import replace

from app.core.access.service import command_log
from app.core.alerts import service as alerts
from app.core.pipelines.store import PipelineStore
from app.core.runs.mode import Mode, mode_of
from app.core.runs.store.runs import RunStore
from app.kit.access import MIGRATIONS, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError
from app.products.migrations.alarms import Alarm, alarms_of
from app.products.migrations.alerts import migration_alert
from app.products.migrations.decision import (
    TARGETS,
    Begin,
    Complete,
    Decision,
    Enter,
    EvidencePatience,
    Finish,
    Stop,
    Wait,
    decide,
    judged,
)
from app.products.migrations.judged import Judged
from app.products.migrations.look import Held, Incarnation, MigrationLook
from app.products.migrations.migration import (
    SHUTS_OUT,
    FencedId,
    GroupSeen,
    Migration,
    MigrationState,
    MigrationStep,
    MigrationStepKind,
    StepState,
)
from app.products.migrations.record import Evidence, proofs_of
from app.products.migrations.service.archiving import archived
from app.products.migrations.service.rows import lock, notify, revision_in
from app.products.migrations.store.migrations import MigrationStore

_BY = MIGRATIONS


async def advance(
    uow: UnitOfWork,
    migration_id: str,
    look: MigrationLook,
    *,
    now: datetime,
    patience: EvidencePatience | None = None,
    server: str = "",
) -> Decision:
    """Record a view, and do the next thing that it allows. server: the driving server, for the evidence.

    1. the ids that each lease reported      kept as long as the migration; leases and their reports are not
    2. alerts                                a new one stops the migration
    3. the decision                          with its evidence
    """
    require(_BY, Verb.ADVANCE_MIGRATION)
    before = await lock(uow, migration_id)
    if not before.is_open:
        return Wait()
    # A migration that waits for a user has no time limit, so nothing is recorded for it.
    watched = before.looked(look.at) if before.state is MigrationState.ACTIVE else before
    migration = replace(watched, held=_with_heard(before.held, look.heard), group_seen=_group_seen(before, look))
    alarms = await _new_alarms(uow, migration, look)
    decision: Decision
    if alarms:
        # Also in a paused or stopped migration: the user who resumes it must have seen the alert.
        decision = Stop(missing="; ".join(one.sentence for one in alarms))
    else:
        decision = decide(migration, look, patience=patience)
    # After the decision: later checks are compared with these ends.
    first_seen = {name: end for name, (_, end) in (look.held_back or {}).items()}
    migration = replace(migration, ends_seen={**first_seen, **migration.ends_seen})
    try:
        migration = await _applied(uow, migration, decision, look, now=now, server=server)
    except ConflictError as error:
        decision = Stop(missing=error.message)
        migration = await _applied(uow, migration, decision, look, now=now, server=server)
    if migration.state is MigrationState.ACTIVE:
        migration = replace(migration, gate=judged(migration, look))
    elif isinstance(decision, Stop):
        migration = replace(migration, gate=decision.clauses or migration.gate)
    if migration != before:
        await uow.of(MigrationStore).save(migration)
    if (
        migration.state is not before.state
        or migration.stage is not before.stage
        or migration.steps != before.steps
        or migration.missing != before.missing
        or migration.gate != before.gate
    ):
        notify(uow, migration)
    return decision


async def watch(uow: UnitOfWork, migration_id: str, look: MigrationLook, *, now: datetime) -> list[Alarm]:
    """Return new alerts of a completed migration, which has nothing left to stop.

    There is none once the pipeline is defined in another mode, as its ids are in use again then.
    """
    require(_BY, Verb.ADVANCE_MIGRATION)
    migration = await lock(uow, migration_id)
    record = await uow.of(PipelineStore).get(migration.pipeline)
    if migration.state is not MigrationState.DONE or mode_of(record.definition) is not migration.goal:
        return []
    alarms = await _new_alarms(uow, migration, look)
    for alarm in alarms:
        await _log(uow, migration, f"alert, after it was done: {alarm.sentence}", now=now)
    if alarms:
        notify(uow, migration)
    return alarms


async def _new_alarms(uow: UnitOfWork, migration: Migration, look: MigrationLook) -> list[Alarm]:
    """Save alerts that are not recorded yet, each of which also notifies the webhooks."""
    new = [one for one in alarms_of(migration, look) if await uow.of(MigrationStore).add_alarm(migration.id, one)]
    if new:
        run = await uow.of(RunStore).get(migration.run_id)
        for alarm in new:
            await alerts.tell(uow, migration_alert(migration, alarm, kafka_cluster_id=run.kafka_cluster_id))
    return new


async def ids_to_fence(uow: UnitOfWork, migration_id: str) -> tuple[MigrationStep, tuple[str, ...]] | None:
    """Return the fence that is underway with its remaining ids; None if there is none."""
    migration = await uow.of(MigrationStore).get(migration_id)
    step = migration.step
    if step is None or step.kind is not MigrationStepKind.FENCE or migration.state is not MigrationState.ACTIVE:
        return None
    done = {one.incarnation.transactional_id for one in migration.fenced if one.step == step.number}
    return step, tuple(name for name in step.ids if name not in done)


async def record_fence(
    uow: UnitOfWork, migration_id: str, incarnation: Incarnation, *, step: int, now: datetime
) -> None:
    """Record the coordinator's answer: this incarnation replaces all earlier ones of the id."""
    migration = await lock(uow, migration_id)
    fenced = FencedId(incarnation=incarnation, at=now, step=step)
    await uow.of(MigrationStore).save(replace(migration, fenced=(*migration.fenced, fenced)))
    notify(uow, migration)


async def _applied(
    uow: UnitOfWork, migration: Migration, decision: Decision, look: MigrationLook, *, now: datetime, server: str
) -> Migration:
    prove = partial(_prove, uow, look=look, now=now, server=server)
    match decision:
        case Begin(step=step, clauses=clauses):
            if step.kind is MigrationStepKind.BOUNCE and step.ordinal is not None and step.to is not None:
                migration = await _with_revision(uow, migration, step.to, now=now)
                run = await uow.of(RunStore).get(migration.run_id)
                await uow.of(RunStore).set_targets(run.id, {**run.targets, step.ordinal: migration.revisions[step.to]})
            await prove(migration, f"began: {step.words}", clauses, step=step)
            return migration.with_step(step)
        case Finish(step=step, clauses=clauses):
            await prove(migration, f"done: {step.words}", clauses, step=step)
            if step.kind is MigrationStepKind.FENCE and step.by is None:
                migration = await archived(uow, migration, look, now=now)
            return migration.with_step(step.moved(StepState.DONE, ended_at=now))
        case Enter(stage=stage, clauses=clauses):
            target = TARGETS.get(stage)
            entered = migration.in_stage(stage, now=now)
            if migration.stage in SHUTS_OUT:
                entered = replace(entered, shut_out={**entered.shut_out, SHUTS_OUT[migration.stage]: now})
            if target is not None:
                entered = await _with_revision(uow, entered, target, now=now)
            await prove(migration, f"on to {stage.words}", clauses)
            return entered
        case Complete(clauses=clauses):
            await prove(migration, "done", clauses)
            return await _completed(uow, migration, now=now)
        case Stop(missing=missing):
            return await _stopped(uow, migration, missing, now=now)
        case Wait():
            return migration


async def _with_revision(uow: UnitOfWork, migration: Migration, mode: Mode, *, now: datetime) -> Migration:
    number = await revision_in(uow, migration, mode, by=_BY, now=now)
    return replace(migration, revisions={**migration.revisions, mode: number})


async def _completed(uow: UnitOfWork, migration: Migration, *, now: datetime) -> Migration:
    """Make the goal's revision the run's own, and remove the instances' own revisions."""
    run = await uow.of(RunStore).get(migration.run_id)
    revision = migration.revisions[migration.goal]
    await uow.of(RunStore).set_target(run.id, revision=revision, bounce_requested_at=run.bounce_requested_at)
    await uow.of(RunStore).set_targets(run.id, {})
    await _log(uow, migration, f"done: every instance is {migration.goal}, at revision {revision}", now=now)
    return migration.in_state(MigrationState.DONE, now=now)


async def _stopped(uow: UnitOfWork, migration: Migration, missing: str, *, now: datetime) -> Migration:
    step = migration.step
    if step is not None and step.state is StepState.UNDERWAY:
        migration = migration.with_step(step.moved(StepState.LATE, missing=missing))
    await _log(uow, migration, f"stopped in stage {migration.stage.words}: {missing}", now=now)
    if migration.state is MigrationState.STOPPED:
        return replace(migration, missing=f"{missing}; {migration.missing}")
    return migration.in_state(MigrationState.STOPPED, now=now, missing=missing)


async def _prove(
    uow: UnitOfWork,
    migration: Migration,
    sentence: str,
    clauses: tuple[Judged, ...],
    *,
    look: MigrationLook,
    step: MigrationStep | None = None,
    now: datetime,
    server: str,
) -> None:
    evidence = Evidence(
        at=now,
        who=_BY.name,
        stage=migration.stage,
        sentence=sentence,
        clauses=clauses,
        look=look,
        step=None if step is None else step.number,
        server=server,
        proofs=proofs_of(migration, look),
    )
    await uow.of(MigrationStore).add_evidence(migration.id, evidence)


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


def _group_seen(migration: Migration, look: MigrationLook) -> GroupSeen | None:
    if look.group is None:
        # Without a wait the group is not asked. Earlier checks do not count after a pause.
        return None if migration.state is MigrationState.ACTIVE else migration.group_seen
    if migration.group_seen is None:
        return GroupSeen(group=look.group, since=look.at, at=look.at)
    return migration.group_seen.after(look.group, at=look.at)


def _with_heard(held: tuple[Held, ...], heard: tuple[Held, ...]) -> tuple[Held, ...]:
    known = {(one.ordinal, one.lease): one for one in held}
    for one in heard:
        at = one.ordinal, one.lease
        known[at] = one if at not in known else known[at].with_heard(one.ids)
    return tuple(known[at] for at in sorted(known))
