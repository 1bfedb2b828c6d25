"""Rules for every desired state and observation: a healthy instance is left alone, every step is legal."""

from __future__ import annotations

import pytest

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.reconciliation.actions import Submit
from app.core.runs.reconciliation.decision import decide
from tests.support.reconciliation import ELSEWHERE, decide_for, ended, instance, states_entered, view

S = InstanceState


@pytest.mark.parametrize("state", [S.SUBMITTING, S.STARTING, S.RUNNING, S.PAUSED, S.DRAINING])
def test_live_instance_with_heartbeats_is_left_alone(state: InstanceState) -> None:
    assert decide_for(instance(state, in_state_s=5)) == []


def test_a_pending_instance_is_submitted() -> None:
    assert decide_for(instance(S.PENDING)) == [Submit(ordinal=0, lease=1)]


@pytest.mark.parametrize(
    "instances", [[instance(S.PENDING)], [ended(S.FAILED, lease=1, lived_s=300, ended_s=100)], []], ids=len
)
def test_nothing_is_started_while_it_observes(instances: list[Instance]) -> None:
    assert decide(view(instances, may_start=False, ordinals=1)) == []
    assert decide(view(instances, may_start=True, ordinals=1)) != []


def test_missing_heartbeats_count_only_while_a_server_listens() -> None:
    silent = instance(heard_s=500)
    assert decide(view([silent], seen={0: ELSEWHERE}, listening_s=3)) == []
    assert states_entered(decide(view([silent], seen={0: ELSEWHERE}, listening_s=60))) == [S.UNREACHABLE]
