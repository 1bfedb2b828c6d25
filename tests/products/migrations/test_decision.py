"""Decisions: one action at a time, only with its evidence, and never past a missing condition."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.runs.instance import InstanceState
from app.core.runs.mode import DEFINED_BY, Mode, in_mode, is_unsafe_at_once, mode_of
from app.kit.errors import IllegalTransitionError
from app.products.migrations.decision import (
    Begin,
    Complete,
    Enter,
    Finish,
    Stop,
    Wait,
    decide,
    go_back,
    next_stage,
    settled_targets,
)
from app.products.migrations.look import AuditNow, IdNow
from app.products.migrations.migration import (
    NEXT_STAGES,
    STEP_TRANSITIONS,
    TRANSITIONS,
    FencedId,
    MigrationState,
    MigrationStep,
    MigrationStepKind,
    Stage,
    StepState,
)
from tests.products.migrations.looks import NOW, at, group, held, instance, look, migration, task
from tests.support.control_plane import definition

A, B, C = Mode
BEFORE = look(
    instances=(instance(0, A), instance(1, A)),
    tasks=(task(0, held("p0", 3), mode=A), task(1, held("p1", 3), mode=A)),
)


def test_the_first_instance_that_is_not_moved_is_bounced_when_all_run() -> None:
    decision = decide(migration(), BEFORE)
    assert isinstance(decision, Begin)
    step = decision.step
    assert (step.number, step.kind, step.ordinal, step.lease, step.to) == (1, MigrationStepKind.BOUNCE, 0, 2, B)


def test_no_instance_is_bounced_while_another_is_away_or_the_group_is_unstable() -> None:
    away = replace(BEFORE, instances=(instance(0, A), instance(1, A, state=InstanceState.STARTING)))
    for one in (away, replace(BEFORE, group=group(state="PreparingRebalance")), replace(BEFORE, group=None)):
        assert isinstance(decide(migration(stage_since=at(-5), state_since=at(-5)), one), Wait)


def test_a_step_that_is_underway_is_finished_before_anything_else_begins() -> None:
    step = migration().next_step(MigrationStepKind.BOUNCE, began_at=at(-5), ordinal=0, lease=1, to=B)
    assert isinstance(decide(migration(steps=(step,)), look()), Finish)
    waiting = replace(step, lease=2)
    assert isinstance(decide(migration(steps=(waiting,)), look()), Wait)


@pytest.mark.parametrize(("watched_s", "stops"), [(299, False), (300, True), (None, True)])
def test_while_no_server_looks_nothing_comes_late(watched_s: float | None, stops: bool) -> None:
    step = migration().next_step(MigrationStepKind.BOUNCE, began_at=at(-900), ordinal=0, lease=2, to=B)
    one = migration(steps=(step,), state_since=at(-900))
    one = replace(one, watched_since=None if watched_s is None else at(-watched_s))
    assert isinstance(decide(one, look()), Stop if stops else Wait)


@pytest.mark.parametrize(("fenced_s", "stops"), [(119, False), (120, True)])
def test_a_fence_of_many_ids_is_late_only_when_the_next_one_is(fenced_s: float, stops: bool) -> None:
    step = migration().next_step(MigrationStepKind.FENCE, began_at=at(-900), ids=("p0", "p1"))
    done = FencedId(incarnation=held("p0", 4), at=at(-fenced_s), step=step.number)
    one = migration(steps=(step,), state_since=at(-900), fenced=(done,))
    assert isinstance(decide(one, look()), Stop if stops else Wait)


def test_consecutive_checks_watch_and_a_gap_starts_again() -> None:
    first = migration().looked(at(0))
    assert first.watched_since == at(0)
    last = first.looked(at(80)).looked(at(160))
    assert (last.watched_since, last.looked_at) == (at(0), at(160))
    assert last.looked(at(251)).watched_since == at(251)


def test_late_evidence_stops_the_migration_with_the_missing_conditions() -> None:
    step = migration().next_step(MigrationStepKind.BOUNCE, began_at=at(-301), ordinal=0, lease=2, to=B)
    decision = decide(migration(steps=(step,), state_since=at(-400)), look())
    assert isinstance(decision, Stop)
    assert decision.missing == "after 300 s: moved: instance 0 has no lease after 2 yet"


def test_a_run_that_has_ended_stops_the_migration() -> None:
    decision = decide(migration(), look(run_is_live=False))
    assert isinstance(decision, Stop)
    assert "its run has ended" in decision.missing


@pytest.mark.parametrize("state", sorted(set(MigrationState) - {MigrationState.ACTIVE}))
def test_only_an_active_migration_does_anything(state: MigrationState) -> None:
    assert decide(migration(state=state), BEFORE) == Wait()


def test_ids_are_fenced_when_every_instance_is_moved() -> None:
    moved = look(instances=(instance(0, C), instance(1, C)), tasks=(task(0, mode=C), task(1, mode=C)))
    decision = decide(migration(Stage.SECOND_BOUNCE), moved)
    assert isinstance(decision, Begin)
    assert (decision.step.kind, decision.step.ids) == (MigrationStepKind.FENCE, ("p0", "p1"))


def test_the_last_gate_ends_it() -> None:
    end = look(
        ids={"p0": IdNow(producer_id=7, producer_epoch=4)},
        instances=(instance(0, C), instance(1, C)),
        held_back={},
        audit=AuditNow(audit_id="a", is_through=True, expected=4),
    )
    assert isinstance(decide(migration(Stage.VERIFY), end), Complete)
    waiting = replace(end, held_back={"out-0": (7, 9)})
    assert isinstance(decide(migration(Stage.VERIFY), waiting), Wait)


@pytest.mark.parametrize("goal", Mode)
def test_every_next_stage_is_one_that_the_table_allows(goal: Mode) -> None:
    backward = {Stage.BACK_TO_GENERATION, Stage.BACK_TO_GROUP_ONLY}
    bounces = backward if goal is not C else {Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE}
    for stage in (Stage.PREFLIGHT, *sorted(bounces)):
        after = next_stage(stage, goal)
        assert after in NEXT_STAGES[stage]
        if after is not None:
            assert migration(stage, goal=goal).in_stage(after, now=NOW).stage is after


def test_forbidden_transitions_raise() -> None:
    for state in MigrationState:
        for to in set(MigrationState) - TRANSITIONS[state]:
            with pytest.raises(IllegalTransitionError):
                migration(state=state).in_state(to, now=NOW)
    step = MigrationStep(number=1, stage=Stage.FIRST_BOUNCE, kind=MigrationStepKind.FENCE, began_at=NOW)
    for state in StepState:
        for to in set(StepState) - STEP_TRANSITIONS[state]:
            with pytest.raises(IllegalTransitionError):
                replace(step, state=state).moved(to)
    with pytest.raises(IllegalTransitionError):
        go_back(migration(Stage.BACK_TO_GENERATION, goal=A), to=A, now=NOW)


def test_there_is_no_way_back_from_a_preflight_that_is_not_proven() -> None:
    with pytest.raises(IllegalTransitionError, match="the preflight has moved no instance"):
        go_back(migration(Stage.PREFLIGHT), to=A, now=NOW)


def test_a_rollback_keeps_running_instances_and_starts_others_in_generation() -> None:
    turning = look(
        instances=(
            instance(0, B, target=C),
            instance(1, B, target=C, state=InstanceState.DRAINING),
            instance(2, C, state=InstanceState.UNREACHABLE),
        )
    )
    assert settled_targets(turning) == {0: B, 1: B, 2: C}


def test_an_enter_names_the_gate_that_opened() -> None:
    decision = decide(migration(), look())
    assert isinstance(decision, Enter)
    assert [one.name for one in decision.clauses] == [
        "seen_since",
        "none_group_only",
        "group_stable",
        "members_known",
        "ids_taken_over",
    ]


def test_the_modes_are_those_of_definitions_and_only_neighbours_may_follow_each_other() -> None:
    for mode, (guarantee, fencing) in DEFINED_BY.items():
        made = definition(processing_guarantee=guarantee, offset_fencing=fencing)
        assert mode_of(made) is mode
        assert {mode_of(in_mode(made, other)) for other in Mode} == set(Mode)
    assert mode_of(definition(processing_guarantee="at_least_once")) is None
    assert [(one, other) for one in Mode for other in Mode if is_unsafe_at_once(one, other)] == [(A, C), (C, A)]
    assert not is_unsafe_at_once(None, C)
