"""A clock that jumps, or differs between servers: no instance is called lost for it, and no action waits for it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.observation import Observation
from app.core.runs.reconciliation.actions import Action, Advance, Kill, MarkMissing, SignalDrain, Submit
from app.core.runs.reconciliation.decision import decide
from app.core.runs.run import DesiredRunState
from tests.support.reconciliation import ALIVE, GONE_FINISHED, GONE_UNKNOWN, NOW, ago, instance, states_entered, view

S = InstanceState
D = DesiredRunState
HOUR_S = 3600


def after_a_jump_back(one: Instance, seen: Observation, *, desired: DesiredRunState = D.RUN) -> list[Action]:
    """Return the decision for a row whose times are an hour ahead, by a reconciler that has noticed that."""
    return decide(view([one], desired=desired, seen={one.ordinal: seen}, listening_s=60))


def hour_ahead(one: Instance) -> Instance:
    fields = ("since", "leased_at", "submitted_at", "claimed_at", "last_heartbeat_at", "missing_since")
    fields += ("drain_signalled_at", "killed_at")
    moved = {name: getattr(one, name) + timedelta(seconds=HOUR_S) for name in fields if getattr(one, name) is not None}
    return replace(one, **moved)


def test_pending_instance_is_submitted() -> None:
    assert after_a_jump_back(hour_ahead(instance(S.PENDING)), ALIVE) == [Submit(ordinal=0, lease=1)]


def test_a_driver_that_is_gone_is_found_gone() -> None:
    one = hour_ahead(instance(missing_s=5))
    assert after_a_jump_back(one, GONE_FINISHED) == [MarkMissing(ordinal=0, lease=1, since=NOW)]
    (action,) = after_a_jump_back(replace(one, missing_since=ago(3)), GONE_FINISHED)
    assert isinstance(action, Advance)
    assert action.to is S.FAILED


def test_a_drain_is_hurried_and_a_kill_repeated() -> None:
    one = hour_ahead(instance(S.DRAINING, in_state_s=5))
    assert [type(a) for a in after_a_jump_back(one, ALIVE, desired=D.DRAIN)] == [SignalDrain]
    signalled = replace(one, drain_signalled_at=ago(121))
    assert [type(a) for a in after_a_jump_back(signalled, ALIVE, desired=D.DRAIN)] == [Kill]
    killed = hour_ahead(replace(instance(), killed_at=NOW))
    assert [type(a) for a in after_a_jump_back(killed, ALIVE, desired=D.KILL)] == [Kill]


def test_a_submission_that_never_came_is_judged() -> None:
    one = hour_ahead(replace(instance(S.SUBMITTING, is_claimed=False), jvm_pid=None))
    assert states_entered(after_a_jump_back(one, GONE_UNKNOWN)) == [S.FAILED]


@pytest.mark.parametrize("ahead_s", [0.5, 5])
def test_heartbeat_of_a_server_with_a_clock_slightly_ahead_counts(ahead_s: float) -> None:
    """Its heartbeats count as just now: neither as missing nor as from the future."""
    one = instance(heard_s=-ahead_s)
    turn = view([one], seen={0: ALIVE})
    assert turn.silence(one) == timedelta(0)
    assert decide(turn) == []
