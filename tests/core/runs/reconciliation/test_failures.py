"""Failures: restarts for ever with growing waits; none after a permanent error."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.runs.instance import TRANSITIONS, Instance, InstanceOutcome, InstanceState
from app.core.runs.observation import Observation
from app.core.runs.reconciliation.actions import FailRun, LeaseAgain, MarkHealthy, Submit
from app.core.runs.reconciliation.decision import decide
from app.core.runs.reconciliation.failures import failures_in_a_row
from app.core.runs.run import DesiredRunState
from app.core.runs.task import OutcomeKind
from tests.support.reconciliation import (
    ALIVE,
    ELSEWHERE,
    GONE_FINISHED,
    GONE_RUNNING,
    GONE_UNKNOWN,
    GONE_UNREACHABLE,
    TIMING,
    ago,
    decide_for,
    ended,
    instance,
    states_entered,
    view,
)

S = InstanceState
D = DesiredRunState


def test_a_failed_instance_is_leased_again_and_says_why() -> None:
    failed = ended(S.FAILED, lease=3, lived_s=300, ended_s=0.1)
    (action,) = decide(view([failed]))
    assert isinstance(action, LeaseAgain)
    assert action.reason is not None
    assert "lease 3 was failed, it crashed" in action.reason


@pytest.mark.parametrize("state", [S.FAILED, S.LOST, S.STOPPED])
def test_only_ended_ordinals_are_leased_again(state: InstanceState) -> None:
    assert any(isinstance(a, LeaseAgain) for a in decide(view([ended(state, lease=1, lived_s=300, ended_s=1)])))


@pytest.mark.parametrize("state", sorted(set(S) - {S.FAILED, S.LOST, S.STOPPED}))
@pytest.mark.parametrize("seen", [ALIVE, ELSEWHERE, GONE_FINISHED, GONE_UNKNOWN, GONE_RUNNING, GONE_UNREACHABLE])
@pytest.mark.parametrize("desired", list(D))
def test_no_living_lease_is_ever_leased_again_and_every_step_is_legal(
    state: InstanceState, seen: Observation, desired: DesiredRunState
) -> None:
    for missing_s in (None, 1, 100):
        for heard_s in (0.1, 100):
            one = instance(state, missing_s=missing_s, heard_s=heard_s, in_state_s=300)
            actions = decide_for(one, seen, desired=desired)
            assert not any(isinstance(action, LeaseAgain) for action in actions)
            for to in states_entered(actions):
                assert to is state or to in TRANSITIONS[state], f"{state} to {to} with {seen}"
            assert len(states_entered(actions)) <= 1


def submits(failures: int, waited_s: float) -> bool:
    pending = replace(instance(S.PENDING, lease=failures + 1), leased_at=ago(waited_s), failures=failures)
    return [type(action) for action in decide(view([pending]))] == [Submit]


def test_wait_before_the_next_submission_grows_up_to_five_minutes() -> None:
    waits = [TIMING.wait_after(n).total_seconds() for n in range(12)]
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert not submits(3, 3.9)
    assert submits(3, 4.1)
    assert not submits(10_000, 299)
    assert submits(10_000, 301)


@pytest.mark.parametrize("failures", [0, 4, 5, 100])
def test_a_transient_failure_is_retried_however_often_it_came(failures: int) -> None:
    failed = ended(S.FAILED, lease=failures + 1, lived_s=2, ended_s=1, failures=failures)
    (action,) = decide(view([failed]))
    assert isinstance(action, LeaseAgain)
    assert action.failures == failures + 1


@pytest.mark.parametrize("kind", sorted(set(OutcomeKind) - {OutcomeKind.DRAINED, OutcomeKind.HOPELESS}))
def test_every_outcome_but_a_permanent_error_is_retried(kind: OutcomeKind) -> None:
    failed = replace(
        ended(S.FAILED, lease=9, lived_s=2, ended_s=1, failures=8),
        outcome=InstanceOutcome(kind=kind, message="it broke", at=ago(1)),
    )
    assert [type(action) for action in decide(view([failed]))] == [LeaseAgain]


def test_a_drill_counts_no_failure_and_the_next_lease_waits_for_nothing() -> None:
    drilled = replace(
        ended(S.FAILED, lease=2, lived_s=20, ended_s=1),
        outcome=InstanceOutcome(kind=OutcomeKind.DRILLED, message="killed by a drill", at=ago(1)),
    )
    (action,) = decide(view([drilled]))
    assert isinstance(action, LeaseAgain)
    assert action.failures == 0


def test_a_healthy_lease_ends_the_row_of_failures() -> None:
    healthy = ended(S.FAILED, lease=9, lived_s=200, ended_s=1, failures=8)
    assert failures_in_a_row(view([healthy]), healthy) == 1
    drained = replace(healthy, state=S.STOPPED)
    assert failures_in_a_row(view([drained]), drained) == 0


@pytest.mark.parametrize("field", ["no_executors", "tasks_crashing"])
def test_a_lease_that_only_waited_or_whose_tasks_crashed_was_not_healthy(field: str) -> None:
    failed = ended(S.FAILED, lease=9, lived_s=200, ended_s=1, failures=8)
    failed = (
        replace(failed, outcome=InstanceOutcome(kind="no_executors", message="", at=ago(1)))
        if field == "no_executors"
        else replace(failed, tasks_crashing=1)
    )
    assert failures_in_a_row(view([failed]), failed) == 9


def test_an_instance_that_was_at_work_for_a_while_is_forgiven() -> None:
    def marks(one: Instance) -> bool:
        return [type(action) for action in decide(view([one]))] == [MarkHealthy]

    running = replace(instance(S.RUNNING, lived_s=61), failures=4)
    assert marks(running)
    assert not marks(replace(running, claimed_at=ago(59)))
    assert not marks(replace(running, failures=0))
    assert not marks(replace(running, tasks_crashing=1))
    assert not marks(replace(running, state=S.STARTING))


def test_the_run_ends_when_every_ordinal_has_a_permanent_error() -> None:
    permanent = replace(
        ended(S.FAILED, lease=1, lived_s=300, ended_s=1),
        outcome=InstanceOutcome(kind="hopeless", message="record refused", at=ago(1)),
        reason="permanent error: record refused",
    )
    assert decide(view([permanent, instance(ordinal=1)])) == []
    (action,) = decide(view([permanent]))
    assert action == FailRun(reason="not restarted: instance 0, lease 1: permanent error: record refused")
    assert [type(action) for action in decide(view([permanent], bounce_requested_at=ago(1)))] == [LeaseAgain]


def test_a_run_with_one_transient_failure_beside_permanent_ones_goes_on() -> None:
    permanent = replace(
        ended(S.FAILED, lease=1, lived_s=300, ended_s=1),
        outcome=InstanceOutcome(kind="hopeless", message="record refused", at=ago(1)),
    )
    transient = ended(S.FAILED, lease=7, lived_s=2, ended_s=1, ordinal=1, failures=6)
    (action,) = decide(view([permanent, transient]))
    assert isinstance(action, LeaseAgain)
    assert action.ordinal == 1


def test_a_restart_that_was_asked_for_forgives_earlier_failures() -> None:
    failed = ended(S.FAILED, lease=9, lived_s=2, ended_s=5, failures=8)
    (action,) = decide(view([failed], bounce_requested_at=ago(1)))
    assert isinstance(action, LeaseAgain)
    assert action.failures == 0
