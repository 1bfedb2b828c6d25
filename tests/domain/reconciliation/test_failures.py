"""Failures: again, later, never."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.domain.reconciliation.actions import FailRun, LeaseAgain
from app.domain.reconciliation.decision import decide
from app.domain.reconciliation.failures import failures_in_a_row
from app.domain.runs.instance import TRANSITIONS, InstanceOutcome, InstanceState
from app.domain.runs.observation import Observation
from app.domain.runs.run import DesiredRunState
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


def test_the_wait_before_the_next_submission_doubles() -> None:
    def submits(failures: int, waited_s: float) -> bool:
        history = [ended(S.FAILED, lease=n, lived_s=2, ended_s=1000 - n) for n in range(1, failures + 1)]
        pending = replace(instance(S.PENDING, lease=failures + 1), leased_at=ago(waited_s))
        return decide(view([pending], history=history)) != []

    assert [TIMING.wait_after(n).total_seconds() for n in range(6)] == [0, 1, 2, 4, 8, 16]
    assert not submits(3, 3.9)
    assert submits(3, 4.1)


def test_a_healthy_lease_ends_the_row_of_failures() -> None:
    leases = [
        ended(S.FAILED, lease=1, lived_s=2, ended_s=900),
        ended(S.FAILED, lease=2, lived_s=200, ended_s=500),
        ended(S.FAILED, lease=3, lived_s=2, ended_s=400),
    ]
    assert failures_in_a_row(view([leases[-1]], history=leases[:-1]), 0) == 2


def test_an_ordinal_is_given_up_after_five_failures_and_its_siblings_go_on() -> None:
    failed = [ended(S.FAILED, lease=n, lived_s=2, ended_s=100 - n) for n in range(1, 6)]
    sibling = instance(ordinal=1)
    assert decide(view([failed[-1], sibling], history=failed[:-1])) == []


def test_the_run_fails_with_the_reason_when_every_ordinal_is_given_up() -> None:
    failed = [ended(S.FAILED, lease=n, lived_s=2, ended_s=100 - n) for n in range(1, 6)]
    (action,) = decide(view([failed[-1]], history=failed[:-1]))
    assert isinstance(action, FailRun)
    assert "every instance was given up, instance 0 after lease 5" in action.reason
    assert "it crashed" in action.reason


def test_an_error_that_only_a_person_can_mend_is_not_tried_again() -> None:
    hopeless = replace(
        ended(S.FAILED, lease=1, lived_s=300, ended_s=1),
        outcome=InstanceOutcome(kind="hopeless", message="record refused", at=ago(1)),
    )
    assert decide(view([hopeless, instance(ordinal=1)])) == []
    assert [type(action) for action in decide(view([hopeless]))] == [FailRun]
    assert [type(action) for action in decide(view([hopeless], bounce_requested_at=ago(1)))] == [LeaseAgain]


def test_a_restart_that_was_asked_for_forgives_earlier_failures() -> None:
    failed = [ended(S.FAILED, lease=n, lived_s=2, ended_s=100 - n) for n in range(1, 6)]
    actions = decide(view([failed[-1]], history=failed[:-1], bounce_requested_at=ago(1)))
    assert [type(action) for action in actions] == [LeaseAgain]
