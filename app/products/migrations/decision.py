"""Decide the next action of a migration from its rows and one view of the pipeline; pure.

The stage's conditions are taken in order. The first one that is not open decides: its remedy is the next step, or it is
waited for. So a step begins only after everything before it is proven, and a stage ends when no condition is missing.
Evidence that does not come in time stops the migration, with the missing conditions. No condition is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from app.core.runs.instance import InstanceState
from app.core.runs.mode import Mode
from app.kit.errors import IllegalTransitionError
from app.products.migrations.clause import missing_of
from app.products.migrations.gates import GATES, Gates, ids_to_fence
from app.products.migrations.judged import ClauseStanding, Judged
from app.products.migrations.look import InstanceNow, MigrationLook
from app.products.migrations.migration import Migration, MigrationState, MigrationStep, MigrationStepKind, Stage

TARGETS: dict[Stage, Mode] = {
    Stage.FIRST_BOUNCE: Mode.GENERATION,
    Stage.SECOND_BOUNCE: Mode.V2,
    Stage.BACK_TO_GENERATION: Mode.GENERATION,
    Stage.BACK_TO_GROUP_ONLY: Mode.GROUP_ONLY,
}
"""The mode to which a stage bounces."""


class EvidencePatience(msgspec.Struct, frozen=True, kw_only=True):
    """The time limits for evidence. bounce: a drain with its SIGTERM and SIGKILL, and a start."""

    preflight: timedelta = timedelta(seconds=60)
    bounce: timedelta = timedelta(minutes=5)
    fence: timedelta = timedelta(minutes=2)
    gate: timedelta = timedelta(minutes=2)
    verify: timedelta = timedelta(minutes=60)

    def of_step(self, kind: MigrationStepKind) -> timedelta:
        return self.bounce if kind is MigrationStepKind.BOUNCE else self.fence

    def of_gate(self, stage: Stage) -> timedelta:
        return {Stage.PREFLIGHT: self.preflight, Stage.VERIFY: self.verify}.get(stage, self.gate)


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Do nothing. `clauses`: the conditions of the gate that is waited for."""

    clauses: tuple[Judged, ...] = ()


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    step: MigrationStep
    clauses: tuple[Judged, ...]


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The step has reached its evidence."""

    step: MigrationStep
    clauses: tuple[Judged, ...]


class Enter(msgspec.Struct, frozen=True, kw_only=True):
    """The gate is open: on to the next stage."""

    stage: Stage
    clauses: tuple[Judged, ...]


class Complete(msgspec.Struct, frozen=True, kw_only=True):
    """The last gate is open."""

    clauses: tuple[Judged, ...]


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence is late."""

    missing: str
    clauses: tuple[Judged, ...] = ()


Decision = Wait | Begin | Finish | Enter | Complete | Stop


def decide(
    migration: Migration, look: MigrationLook, *, patience: EvidencePatience | None = None, gates: Gates = GATES
) -> Decision:
    """Return the next action; at most one, so that the next view includes its result."""
    patience = patience or EvidencePatience()
    if migration.state is not MigrationState.ACTIVE:
        return Wait()
    if not look.run_is_live:
        return Stop(missing="its run has ended; start the run again, or abort the migration")
    if migration.step is not None:
        return _follow(migration, migration.step, look, patience, gates)
    clauses = judged(migration, look, gates=gates)
    by_name = {clause.name: clause for clause in gates.of(migration)}
    blocking = next((one for one in clauses if not one.is_open), None)
    if blocking is None:
        stage = next_stage(migration.stage, migration.goal)
        return Complete(clauses=clauses) if stage is None else Enter(stage=stage, clauses=clauses)
    remedy = by_name[blocking.name].remedy
    if remedy is not None and blocking.standing is ClauseStanding.CLOSED:
        clauses = (*clauses, *_before(remedy, migration, look, gates))
        step = _next_step(blocking.name, remedy, migration, look)
        if step is not None and all(one.is_open for one in clauses[len(by_name) :]):
            if step.kind is MigrationStepKind.BOUNCE and look.lost_offsets:
                return Stop(missing=look.lost_offsets, clauses=clauses)
            return Begin(step=step, clauses=clauses)
    since = migration.waits_since(migration.last_step_at)
    return _wait(clauses, since=since, now=look.at, longest=patience.of_gate(migration.stage))


def judged(migration: Migration, look: MigrationLook, *, gates: Gates = GATES) -> tuple[Judged, ...]:
    """Return the conditions that are checked now: of the step that is underway or late, else of the stage's gate."""
    step = migration.step
    if step is not None:
        return tuple(clause.judged(migration, look, step) for clause in gates.after[step.kind])
    return tuple(clause.judged(migration, look) for clause in gates.of(migration))


def next_stage(stage: Stage, goal: Mode) -> Stage | None:
    """Return the stage after this one's gate, or None."""
    match stage:
        case Stage.PREFLIGHT:
            return Stage.FIRST_BOUNCE if goal is Mode.V2 else Stage.BACK_TO_GENERATION
        case Stage.FIRST_BOUNCE:
            return Stage.SECOND_BOUNCE
        case Stage.SECOND_BOUNCE | Stage.BACK_TO_GROUP_ONLY:
            return Stage.VERIFY
        case Stage.BACK_TO_GENERATION:
            return Stage.BACK_TO_GROUP_ONLY if goal is Mode.GROUP_ONLY else Stage.VERIFY
        case Stage.VERIFY:
            return None


def go_back(migration: Migration, *, to: Mode, now: datetime) -> Migration:
    """Turn the migration to its rollback. Raises IllegalTransitionError if it is rolling back already.

    The preflight has no rollback: no instance was moved, and its conditions are not proven for the rollback either.
    """
    if migration.stage is Stage.PREFLIGHT:
        raise IllegalTransitionError("the preflight has moved no instance: there is nothing to roll back")
    stage = migration.in_stage(Stage.BACK_TO_GENERATION, now=now)
    if migration.state is not MigrationState.ACTIVE:
        stage = stage.in_state(MigrationState.ACTIVE, now=now)
    return msgspec.structs.replace(stage, goal=to)


def to_bounce(migration: Migration, look: MigrationLook) -> list[InstanceNow]:
    """The instances that the stage still has to move, by ordinal."""
    wrong = left_by(migration.stage, migration.goal)
    return sorted((one for one in look.instances if one.mode in wrong), key=lambda one: one.ordinal)


def left_by(stage: Stage, goal: Mode) -> frozenset[Mode]:
    """The modes that the stage moves instances out of."""
    if stage not in TARGETS:
        return frozenset()
    if stage is Stage.FIRST_BOUNCE:
        return frozenset({Mode.GROUP_ONLY})
    if stage is Stage.BACK_TO_GENERATION and goal is Mode.GROUP_ONLY:
        return frozenset({Mode.V2})
    return frozenset(Mode) - {TARGETS[stage]}


def settled_targets(look: MigrationLook) -> dict[int, Mode]:
    """Return the mode of each instance after a rollback or abort in the middle of a stage.

    A running instance keeps its mode, and its target is dropped. An instance between two leases begins in GENERATION,
    which may run beside both other modes.
    """
    runs = (InstanceState.RUNNING, InstanceState.STARTING, InstanceState.PAUSED, InstanceState.UNREACHABLE)
    return {
        one.ordinal: one.mode if one.mode is not None and one.state in runs else Mode.GENERATION
        for one in look.instances
    }


def _follow(
    migration: Migration, step: MigrationStep, look: MigrationLook, patience: EvidencePatience, gates: Gates
) -> Decision:
    clauses = judged(migration, look, gates=gates)
    if all(one.is_open for one in clauses):
        return Finish(step=step, clauses=clauses)
    # Each id that is fenced restarts the time limit, as a step may have many ids.
    done_at = [one.at for one in migration.fenced if one.step == step.number]
    since = migration.waits_since(max(step.began_at, migration.state_since, *done_at))
    return _wait(clauses, since=since, now=look.at, longest=patience.of_step(step.kind))


def _before(remedy: MigrationStepKind, migration: Migration, look: MigrationLook, gates: Gates) -> tuple[Judged, ...]:
    if remedy is not MigrationStepKind.BOUNCE:
        return ()
    return tuple(clause.judged(migration, look) for clause in gates.before_bounce)


def _next_step(clause: str, kind: MigrationStepKind, migration: Migration, look: MigrationLook) -> MigrationStep | None:
    if kind is MigrationStepKind.FENCE:
        return migration.next_step(kind, began_at=look.at, ids=ids_to_fence(clause, migration, look))
    waiting = to_bounce(migration, look)
    if not waiting:
        return None
    one = waiting[0]
    return migration.next_step(
        kind, began_at=look.at, ordinal=one.ordinal, lease=one.lease, to=TARGETS[migration.stage]
    )


def _wait(clauses: Sequence[Judged], *, since: datetime, now: datetime, longest: timedelta) -> Wait | Stop:
    if now - since < longest:
        return Wait(clauses=tuple(clauses))
    waited_s = longest.total_seconds()
    return Stop(missing=f"after {waited_s:g} s: {missing_of(clauses)}", clauses=tuple(clauses))
