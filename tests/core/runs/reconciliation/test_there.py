"""A live driver: without heartbeats, drained, signalled, killed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.reconciliation.actions import Action, Advance, Kill, MarkMissing, SignalDrain
from app.core.runs.reconciliation.decision import decide
from app.core.runs.run import DesiredRunState
from tests.support.reconciliation import (
    ALIVE,
    ELSEWHERE,
    GONE_FINISHED,
    GONE_UNREACHABLE,
    NOW,
    ago,
    decide_for,
    ended,
    instance,
    states_entered,
    view,
)

S = InstanceState
D = DesiredRunState


def test_driver_without_a_claim_yet_is_not_called_unreachable() -> None:
    assert decide_for(instance(S.SUBMITTING, is_claimed=False, lived_s=25, in_state_s=25)) == []


def test_live_driver_without_heartbeats_keeps_its_state_with_a_reason() -> None:
    (action,) = decide_for(instance(heard_s=11), ALIVE)
    assert isinstance(action, Advance)
    assert action.to is S.RUNNING
    assert "no heartbeat" in (action.reason or "")
    assert decide_for(instance(heard_s=12, reason=action.reason), ALIVE) == []
    assert decide_for(instance(heard_s=0.2, reason=action.reason), ALIVE) == [
        Advance(ordinal=0, lease=1, to=S.RUNNING, reason=None)
    ]


def test_driver_without_heartbeats_on_another_host_is_unreachable() -> None:
    (action,) = decide_for(instance(heard_s=11), ELSEWHERE)
    assert isinstance(action, Advance)
    assert action.to is S.UNREACHABLE
    assert "here" in (action.reason or "")


@pytest.mark.parametrize("state", [S.SUBMITTING, S.STARTING, S.RUNNING, S.PAUSED])
def test_drain_is_written_before_it_is_sent(state: InstanceState) -> None:
    assert decide_for(instance(state), desired=D.DRAIN) == [Advance(ordinal=0, lease=1, to=S.DRAINING, reason=None)]


@pytest.mark.parametrize(
    ("age_s", "heard_s", "why"),
    [(5, 0.5, None), (5, 11, "no heartbeat arrives"), (16, 0.5, "it has not drained within 15 s")],
)
def test_drain_that_takes_too_long_or_has_no_heartbeat_gets_a_signal(
    age_s: float, heard_s: float, why: str | None
) -> None:
    actions = decide_for(instance(S.DRAINING, in_state_s=age_s, heard_s=heard_s), desired=D.DRAIN)
    expected = [] if why is None else [SignalDrain(ordinal=0, lease=1, reason=f"{why}: its driver got SIGTERM")]
    assert actions == expected


def draining(*, signalled_s: float, killed_s: float | None = None) -> Instance:
    one = replace(instance(S.DRAINING, in_state_s=500, heard_s=300), drain_signalled_at=ago(signalled_s))
    return one if killed_s is None else replace(one, killed_at=ago(killed_s))


def test_the_signal_is_sent_once_and_the_kill_comes_after_its_own_bound() -> None:
    assert decide_for(draining(signalled_s=119), desired=D.DRAIN) == []
    (action,) = decide_for(draining(signalled_s=121), desired=D.DRAIN)
    assert action == Kill(ordinal=0, lease=1, reason="killed: it had not drained 2 min after SIGTERM")


def test_a_kill_waits_for_uploads_that_may_take_longer() -> None:
    for signalled_s, is_killed in ((121, False), (419, False), (421, True)):
        seen = view([draining(signalled_s=signalled_s)], desired=D.DRAIN)
        actions = decide(replace(seen, uploads=timedelta(minutes=5)))
        assert any(isinstance(action, Kill) for action in actions) is is_killed


def test_kill_is_recorded_once_and_sent_again_in_case_a_server_died() -> None:
    assert decide_for(draining(signalled_s=130, killed_s=5), desired=D.DRAIN) == []
    assert decide_for(draining(signalled_s=130, killed_s=11), desired=D.DRAIN) == [
        Kill(ordinal=0, lease=1, reason=None)
    ]


def test_an_unreachable_driver_that_lives_here_is_drained_like_any_other() -> None:
    one = instance(S.UNREACHABLE, heard_s=300)
    assert states_entered(decide_for(one, ALIVE, desired=D.DRAIN)) == [S.DRAINING]


def test_a_driver_that_ignores_its_signal_is_brought_to_an_end_by_few_words() -> None:
    """Turn after turn, twice a second, as the reconciler writes what was decided; until its process is gone."""
    one = instance(S.UNREACHABLE, heard_s=300)
    said: list[Action] = []
    turn = view([one], desired=D.DRAIN)
    while one.killed_at is None or turn.now < one.killed_at + timedelta(seconds=5):
        for action in decide(turn):
            said.append(action)
            if isinstance(action, Advance):
                one = replace(one, state=action.to, reason=action.reason, since=turn.now)
            elif isinstance(action, SignalDrain):
                one = replace(one, drain_signalled_at=turn.now)
            elif isinstance(action, Kill):
                one = replace(one, killed_at=turn.now)
        assert len(said) < 10, said
        turn = replace(turn, now=turn.now + timedelta(seconds=0.5), run=replace(turn.run, instances=(one,)))
    assert [type(action) for action in said] == [Advance, SignalDrain, Kill]
    gone = replace(turn, observations={0: GONE_FINISHED}, now=turn.now + timedelta(seconds=10))
    one = replace(one, missing_since=turn.now)
    (action,) = decide(replace(gone, run=replace(gone.run, instances=(one,))))
    assert isinstance(action, Advance)
    assert (action.to, action.reason) == (S.FAILED, "killed: it had not drained 2 min after SIGTERM")


@pytest.mark.parametrize("state", [S.DRAINING, S.UNREACHABLE])
def test_nothing_is_signalled_on_another_host(state: InstanceState) -> None:
    assert decide_for(instance(state, in_state_s=500), ELSEWHERE, desired=D.DRAIN) == []


def test_drain_without_heartbeats_names_its_host() -> None:
    one = instance(S.DRAINING, in_state_s=500, heard_s=300)
    (action,) = decide_for(one, ELSEWHERE, desired=D.DRAIN)
    assert isinstance(action, Advance)
    assert (action.to, action.reason) == (S.DRAINING, "it drains without a heartbeat, and it runs on here")
    assert decide_for(replace(one, reason=action.reason), ELSEWHERE, desired=D.DRAIN) == []


@pytest.mark.parametrize("state", [S.SUBMITTING, S.STARTING, S.RUNNING, S.PAUSED, S.DRAINING, S.UNREACHABLE])
def test_a_kill_kills_until_the_process_is_gone(state: InstanceState) -> None:
    (action,) = decide_for(instance(state), ALIVE, desired=D.KILL)
    assert action == Kill(ordinal=0, lease=1, reason="killed on request")
    assert states_entered(decide_for(instance(state), GONE_FINISHED, desired=D.KILL)) == [S.STOPPED]


def test_kill_ends_even_if_its_end_cannot_be_verified() -> None:
    one = instance(S.UNREACHABLE, missing_s=31, heard_s=31)
    assert states_entered(decide_for(one, GONE_UNREACHABLE, desired=D.KILL)) == [S.LOST]
    assert decide_for(instance(S.UNREACHABLE, heard_s=31), GONE_UNREACHABLE, desired=D.KILL) == [
        MarkMissing(ordinal=0, lease=1, since=NOW)
    ]


@pytest.mark.parametrize("desired", [D.DRAIN, D.KILL])
def test_instance_that_was_never_submitted_stops_at_once(desired: DesiredRunState) -> None:
    assert states_entered(decide_for(instance(S.PENDING), desired=desired)) == [S.STOPPED]


@pytest.mark.parametrize("desired", [D.DRAIN, D.KILL])
def test_nothing_is_leased_again_once_the_end_was_asked_for(desired: DesiredRunState) -> None:
    assert decide(view([ended(S.FAILED, lease=1, lived_s=300, ended_s=100)], desired=desired)) == []
