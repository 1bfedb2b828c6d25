"""A driver whose process is gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.runs.instance import Instance, InstanceOutcome, InstanceState
from app.core.runs.observation import Observation
from app.core.runs.reconciliation.actions import Advance, MarkMissing, TakeOutcome
from tests.support.reconciliation import (
    ALIVE,
    ELSEWHERE,
    GONE_FINISHED,
    GONE_RUNNING,
    GONE_UNKNOWN,
    GONE_UNREACHABLE,
    NOW,
    ago,
    decide_for,
    instance,
    states_entered,
)

S = InstanceState


def test_a_driver_that_is_gone_is_not_failed_at_once() -> None:
    assert decide_for(instance(), GONE_FINISHED) == [MarkMissing(ordinal=0, lease=1, since=NOW)]


def test_gone_and_ended_by_the_master_is_failed_with_the_last_line_of_its_log() -> None:
    (action,) = decide_for(instance(missing_s=2, heard_s=2.5), GONE_FINISHED)
    assert isinstance(action, Advance)
    assert action.to is S.FAILED
    assert "OutOfMemoryError: Java heap space" in (action.reason or "")


def test_a_task_that_still_reports_keeps_a_gone_driver_from_being_failed() -> None:
    assert states_entered(decide_for(instance(missing_s=20, heard_s=0.3), GONE_FINISHED)) == []


def test_lost_needs_silence_the_masters_word_and_no_process_for_thirty_seconds() -> None:
    one = instance(S.UNREACHABLE, missing_s=31, heard_s=31)
    assert states_entered(decide_for(one, GONE_UNKNOWN)) == [S.LOST]


@pytest.mark.parametrize(
    ("one", "seen"),
    [
        pytest.param(instance(S.UNREACHABLE, missing_s=29, heard_s=40), GONE_UNKNOWN, id="not held for long enough"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=5), GONE_UNKNOWN, id="with heartbeats"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), GONE_RUNNING, id="the master counts it"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), GONE_UNREACHABLE, id="no answer of the master"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), ALIVE, id="the process lives"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), ELSEWHERE, id="the process is out of sight"),
    ],
)
def test_instance_is_not_lost_if_one_condition_is_missing(one: Instance, seen: Observation) -> None:
    assert S.LOST not in states_entered(decide_for(one, seen))


def test_lost_is_entered_by_way_of_unreachable() -> None:
    assert states_entered(decide_for(instance(missing_s=31, heard_s=31), GONE_UNKNOWN)) == [S.UNREACHABLE]


def test_a_master_that_does_not_answer_makes_a_gone_driver_unreachable_and_resets_the_clock() -> None:
    actions = decide_for(instance(missing_s=100, heard_s=100), GONE_UNREACHABLE)
    assert MarkMissing(ordinal=0, lease=1, since=None) in actions
    assert states_entered(actions) == [S.UNREACHABLE]


def test_instance_that_returns_is_not_missing_any_more() -> None:
    assert decide_for(instance(missing_s=20), ALIVE) == [MarkMissing(ordinal=0, lease=1, since=None)]


def test_outcome_left_on_the_host_counts_if_no_server_received_it() -> None:
    outcome = InstanceOutcome(kind="drained", message="drained on SIGTERM", at=ago(20))
    seen = replace(GONE_FINISHED, outcome=outcome)
    assert decide_for(instance(S.DRAINING, heard_s=20), seen) == [TakeOutcome(ordinal=0, lease=1, outcome=outcome)]


def test_driver_without_a_claim_is_failed_with_any_answer_of_the_master() -> None:
    one = instance(S.SUBMITTING, is_claimed=False, in_state_s=3)
    assert states_entered(decide_for(one, GONE_UNREACHABLE)) == [S.FAILED]


def test_a_submission_whose_pid_is_not_written_yet_gets_a_moment() -> None:
    one = replace(instance(S.SUBMITTING, is_claimed=False, in_state_s=3), jvm_pid=None)
    assert decide_for(one, GONE_FINISHED) == []
    assert states_entered(decide_for(replace(one, since=ago(16)), GONE_FINISHED)) == [S.FAILED]


def test_a_killed_driver_that_logged_no_error_is_called_killed() -> None:
    seen = replace(GONE_FINISHED, log_tail="12:00 INFO all is well\n")
    (action,) = decide_for(instance(missing_s=2, heard_s=2.5), seen)
    assert isinstance(action, Advance)
    assert "killed" in (action.reason or "")
    assert "all is well" not in (action.reason or "")


def test_a_script_that_could_not_go_on_is_quoted_though_it_names_no_level() -> None:
    line = "spark-class: line 71: /nowhere/bin/java: No such file or directory"
    (action,) = decide_for(
        instance(missing_s=2, heard_s=2.5), replace(GONE_FINISHED, log_tail=f"WARN slow\n{line}\n\n")
    )
    assert isinstance(action, Advance)
    assert line in (action.reason or "")
