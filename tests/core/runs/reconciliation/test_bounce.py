"""The rolling bounce."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.runs.instance import InstanceOutcome, InstanceState
from app.core.runs.reconciliation.actions import Advance, LeaseAgain
from app.core.runs.reconciliation.decision import decide
from tests.support.reconciliation import ago, ended, instance, states_entered, view

S = InstanceState


def test_a_bounce_drains_one_instance_and_leaves_the_others_running() -> None:
    three = [instance(ordinal=n) for n in range(3)]
    (action,) = decide(view(three, revision=2))
    assert action == Advance(ordinal=0, lease=1, to=S.DRAINING, reason="its turn in the rolling bounce to revision 2")


@pytest.mark.parametrize("state", [S.DRAINING, S.SUBMITTING, S.STARTING, S.UNREACHABLE])
def test_a_bounce_waits_until_the_one_before_has_settled(state: InstanceState) -> None:
    moving = instance(state, ordinal=0, lease=2, revision=2, in_state_s=5)
    assert decide(view([moving, instance(ordinal=1)], revision=2)) == []


def test_a_bounce_goes_on_with_the_next_once_the_one_before_runs() -> None:
    (action,) = decide(view([instance(ordinal=0, lease=2, revision=2), instance(ordinal=1)], revision=2))
    assert isinstance(action, Advance)
    assert (action.ordinal, action.to) == (1, S.DRAINING)


def test_a_drained_instance_of_a_bounce_is_leased_again() -> None:
    stopped = ended(S.STOPPED, lease=1, lived_s=300, ended_s=0.1)
    actions = decide(view([stopped, instance(ordinal=1)], revision=2))
    assert actions == [LeaseAgain(ordinal=0, reason=None)]


def test_a_restart_bounces_instances_that_were_leased_before_it() -> None:
    old, new = instance(ordinal=0), replace(instance(ordinal=1), leased_at=ago(1))
    (action,) = decide(view([old, new], bounce_requested_at=ago(10)))
    assert isinstance(action, Advance)
    assert (action.ordinal, action.reason) == (0, "its turn in the rolling restart")


def test_a_pending_instance_of_an_old_revision_is_not_submitted() -> None:
    assert states_entered(decide(view([instance(S.PENDING)], revision=2))) == [S.STOPPED]


def test_instance_with_a_permanent_error_does_not_delay_a_bounce() -> None:
    failed = replace(
        ended(S.FAILED, lease=1, lived_s=2, ended_s=100),
        outcome=InstanceOutcome(kind="hopeless", message="record refused", at=ago(100)),
    )
    (action,) = decide(view([failed, instance(ordinal=1)], revision=2))
    assert isinstance(action, Advance)
    assert (action.ordinal, action.to) == (1, S.DRAINING)


def test_ordinals_beyond_the_revisions_number_drain_and_are_not_leased_again() -> None:
    (action,) = decide(view([instance(revision=2), instance(ordinal=1, revision=2)], ordinals=1, revision=2))
    assert isinstance(action, Advance)
    assert (action.ordinal, action.to) == (1, S.DRAINING)
    gone = ended(S.STOPPED, lease=1, lived_s=300, ended_s=1, ordinal=1)
    assert decide(view([instance(revision=2), gone], ordinals=1, revision=2)) == []


def test_new_ordinals_of_a_revision_are_leased() -> None:
    actions = decide(view([instance(revision=2)], ordinals=2, revision=2))
    assert actions == [LeaseAgain(ordinal=1, reason=None)]


def test_an_instance_with_a_target_of_its_own_goes_there_and_the_others_stay() -> None:
    seen = view([instance(ordinal=n) for n in range(3)])
    migrating = replace(seen, run=replace(seen.run, targets={1: 2}))
    (action,) = decide(migrating)
    assert action == Advance(ordinal=1, lease=1, to=S.DRAINING, reason="its turn in the rolling bounce to revision 2")


def test_one_that_is_at_its_target_stays_though_the_run_is_elsewhere() -> None:
    seen = view([instance(ordinal=0, lease=2, revision=2), instance(ordinal=1)])
    assert decide(replace(seen, run=replace(seen.run, targets={0: 2}))) == []
