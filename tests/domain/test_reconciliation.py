"""The reconciler's decision, line by line: what is wanted, what is known, and the one next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from app.domain.instance import TRANSITIONS, Instance, InstanceOutcome, InstanceState
from app.domain.observation import MasterWord, Observation, ProcessWord
from app.domain.reconciliation import (
    Action,
    Advance,
    FailRun,
    Kill,
    LeaseAgain,
    MarkMissing,
    SignalDrain,
    Submit,
    TakeOutcome,
    Timing,
    View,
    decide,
    failures_in_a_row,
)
from app.domain.run import DesiredRunState, Run, RunState

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TIMING = Timing()
S = InstanceState
D = DesiredRunState

ALIVE = Observation(process=ProcessWord.ALIVE, master=MasterWord.NOT_ASKED)
ELSEWHERE = Observation(process=ProcessWord.UNKNOWN, master=MasterWord.RUNNING)
GONE_FINISHED = Observation(
    process=ProcessWord.GONE, master=MasterWord.FINISHED, log_tail="starting\nOutOfMemoryError: Java heap space\n"
)
GONE_UNKNOWN = replace(GONE_FINISHED, master=MasterWord.UNKNOWN)
GONE_RUNNING = replace(GONE_FINISHED, master=MasterWord.RUNNING)
GONE_UNREACHABLE = replace(GONE_FINISHED, master=MasterWord.UNREACHABLE)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def instance(
    state: InstanceState = S.RUNNING,
    *,
    ordinal: int = 0,
    lease: int = 1,
    revision: int = 1,
    lived_s: float = 300,
    in_state_s: float = 200,
    heard_s: float | None = 0.5,
    is_claimed: bool = True,
    missing_s: float | None = None,
    reason: str | None = None,
) -> Instance:
    submitted = state is not S.PENDING
    return Instance(
        run_id="r1",
        ordinal=ordinal,
        lease=lease,
        revision=revision,
        state=state,
        since=ago(in_state_s),
        leased_at=ago(lived_s + 1),
        submitted_at=ago(lived_s) if submitted else None,
        claimed_at=ago(lived_s) if submitted and is_claimed else None,
        host="here" if submitted else None,
        jvm_pid=1 if submitted else None,
        application_id="app-1" if submitted and is_claimed else None,
        last_heartbeat_at=None if heard_s is None or not is_claimed else ago(heard_s),
        missing_since=None if missing_s is None else ago(missing_s),
        reason=reason,
    )


def ended(state: InstanceState, *, lease: int, lived_s: float, ended_s: float, ordinal: int = 0) -> Instance:
    """A lease that ended `ended_s` ago after it had lived `lived_s`."""
    return replace(
        instance(state, ordinal=ordinal, lease=lease, in_state_s=ended_s, reason="it crashed"),
        claimed_at=ago(ended_s + lived_s),
        leased_at=ago(ended_s + lived_s + 1),
    )


def view(
    instances: Sequence[Instance],
    *,
    desired: DesiredRunState = D.RUN,
    seen: Mapping[int, Observation] | None = None,
    history: Sequence[Instance] = (),
    ordinals: int | None = None,
    revision: int = 1,
    may_start: bool = True,
    listening_s: float = 1000,
    bounce_requested_at: datetime | None = None,
) -> View:
    run = Run(
        id="r1",
        pipeline="p",
        cluster="c",
        kafka_cluster_id="k",
        revision=revision,
        desired=desired,
        state=RunState.RUNNING,
        started_at=ago(2000),
        started_by="somebody",
        bounce_requested_at=bounce_requested_at,
        instances=tuple(instances),
    )
    return View(
        run=run,
        ordinals=len(instances) if ordinals is None else ordinals,
        history=[*history, *instances],
        observations={i.ordinal: ALIVE for i in instances if not i.has_ended} if seen is None else seen,
        now=NOW,
        listening_since=ago(listening_s),
        may_start=may_start,
        timing=TIMING,
    )


def decide_for(one: Instance, seen: Observation = ALIVE, *, desired: DesiredRunState = D.RUN) -> list[Action]:
    return decide(view([one], desired=desired, seen={one.ordinal: seen}))


def states_entered(actions: Sequence[Action]) -> list[InstanceState]:
    return [action.to for action in actions if isinstance(action, Advance)]


# What runs well is left alone


@pytest.mark.parametrize("state", [S.SUBMITTING, S.STARTING, S.RUNNING, S.PAUSED, S.DRAINING])
def test_a_living_instance_that_is_heard_is_left_alone(state: InstanceState) -> None:
    assert decide_for(instance(state, in_state_s=5)) == []


def test_a_pending_instance_is_submitted() -> None:
    assert decide_for(instance(S.PENDING)) == [Submit(ordinal=0, lease=1)]


# After a start or a restore nothing is started


@pytest.mark.parametrize(
    "instances", [[instance(S.PENDING)], [ended(S.FAILED, lease=1, lived_s=300, ended_s=100)], []], ids=len
)
def test_nothing_is_started_while_it_observes(instances: list[Instance]) -> None:
    assert decide(view(instances, may_start=False, ordinals=1)) == []
    assert decide(view(instances, may_start=True, ordinals=1)) != []


def test_silence_counts_only_while_somebody_listened() -> None:
    silent = instance(heard_s=500)
    assert decide(view([silent], seen={0: ELSEWHERE}, listening_s=3)) == []
    assert states_entered(decide(view([silent], seen={0: ELSEWHERE}, listening_s=60))) == [S.UNREACHABLE]


# Failures: again, later, never


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


# A driver that is gone


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
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=5), GONE_UNKNOWN, id="not silent"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), GONE_RUNNING, id="the master counts it"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), GONE_UNREACHABLE, id="no word of the master"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), ALIVE, id="the process lives"),
        pytest.param(instance(S.UNREACHABLE, missing_s=40, heard_s=40), ELSEWHERE, id="the process is out of sight"),
    ],
)
def test_lost_is_not_said_when_one_of_its_conditions_is_missing(one: Instance, seen: Observation) -> None:
    assert S.LOST not in states_entered(decide_for(one, seen))


def test_lost_is_entered_by_way_of_unreachable() -> None:
    assert states_entered(decide_for(instance(missing_s=31, heard_s=31), GONE_UNKNOWN)) == [S.UNREACHABLE]


def test_a_master_that_does_not_answer_makes_a_gone_driver_unreachable_and_resets_the_clock() -> None:
    actions = decide_for(instance(missing_s=100, heard_s=100), GONE_UNREACHABLE)
    assert MarkMissing(ordinal=0, lease=1, since=None) in actions
    assert states_entered(actions) == [S.UNREACHABLE]


def test_what_comes_back_is_not_missing_any_more() -> None:
    assert decide_for(instance(missing_s=20), ALIVE) == [MarkMissing(ordinal=0, lease=1, since=None)]


def test_the_word_that_a_driver_left_behind_counts_when_no_server_heard_it() -> None:
    outcome = InstanceOutcome(kind="drained", message="drained on SIGTERM", at=ago(20))
    seen = replace(GONE_FINISHED, outcome=outcome)
    assert decide_for(instance(S.DRAINING, heard_s=20), seen) == [TakeOutcome(ordinal=0, lease=1, outcome=outcome)]


def test_a_driver_that_never_claimed_is_failed_whatever_the_master_says() -> None:
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


# Silence of a driver that is there


def test_a_driver_that_has_not_claimed_yet_is_not_called_silent() -> None:
    assert decide_for(instance(S.SUBMITTING, is_claimed=False, lived_s=25, in_state_s=25)) == []


def test_a_silent_driver_that_lives_stays_what_it_is_and_says_so() -> None:
    (action,) = decide_for(instance(heard_s=11), ALIVE)
    assert isinstance(action, Advance)
    assert action.to is S.RUNNING
    assert "no heartbeat" in (action.reason or "")
    assert decide_for(instance(heard_s=12, reason=action.reason), ALIVE) == []
    assert decide_for(instance(heard_s=0.2, reason=action.reason), ALIVE) == [
        Advance(ordinal=0, lease=1, to=S.RUNNING, reason=None)
    ]


def test_a_silent_driver_on_another_host_is_unreachable_and_names_the_host() -> None:
    (action,) = decide_for(instance(heard_s=11), ELSEWHERE)
    assert isinstance(action, Advance)
    assert action.to is S.UNREACHABLE
    assert "here" in (action.reason or "")


# Drain and kill


@pytest.mark.parametrize("state", [S.SUBMITTING, S.STARTING, S.RUNNING, S.PAUSED])
def test_a_drain_is_written_before_anybody_is_told(state: InstanceState) -> None:
    assert decide_for(instance(state), desired=D.DRAIN) == [Advance(ordinal=0, lease=1, to=S.DRAINING, reason=None)]


@pytest.mark.parametrize(
    ("age_s", "heard_s", "expected"),
    [
        (5, 0.5, []),
        (5, 11, [SignalDrain(ordinal=0, lease=1)]),
        (16, 0.5, [SignalDrain(ordinal=0, lease=1)]),
        (121, 0.5, [Kill(ordinal=0, lease=1)]),
    ],
)
def test_a_drain_that_takes_too_long_is_hurried(age_s: float, heard_s: float, expected: list[Action]) -> None:
    assert decide_for(instance(S.DRAINING, in_state_s=age_s, heard_s=heard_s), desired=D.DRAIN) == expected


def test_nothing_is_signalled_on_another_host() -> None:
    assert decide_for(instance(S.DRAINING, in_state_s=121), ELSEWHERE, desired=D.DRAIN) == []


@pytest.mark.parametrize("state", [S.SUBMITTING, S.STARTING, S.RUNNING, S.PAUSED, S.DRAINING, S.UNREACHABLE])
def test_a_kill_kills_until_the_process_is_gone(state: InstanceState) -> None:
    assert decide_for(instance(state), ALIVE, desired=D.KILL) == [Kill(ordinal=0, lease=1)]
    assert states_entered(decide_for(instance(state), GONE_FINISHED, desired=D.KILL)) == [S.STOPPED]


def test_a_kill_ends_at_last_even_if_nobody_can_say_that_it_is_over() -> None:
    one = instance(S.UNREACHABLE, missing_s=31, heard_s=31)
    assert states_entered(decide_for(one, GONE_UNREACHABLE, desired=D.KILL)) == [S.LOST]
    assert decide_for(instance(S.UNREACHABLE, heard_s=31), GONE_UNREACHABLE, desired=D.KILL) == [
        MarkMissing(ordinal=0, lease=1, since=NOW)
    ]


@pytest.mark.parametrize("desired", [D.DRAIN, D.KILL])
def test_what_was_never_submitted_stops_at_once(desired: DesiredRunState) -> None:
    assert states_entered(decide_for(instance(S.PENDING), desired=desired)) == [S.STOPPED]


@pytest.mark.parametrize("desired", [D.DRAIN, D.KILL])
def test_nothing_is_leased_again_once_the_end_was_asked_for(desired: DesiredRunState) -> None:
    assert decide(view([ended(S.FAILED, lease=1, lived_s=300, ended_s=100)], desired=desired)) == []


# The rolling bounce


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


def test_an_instance_that_was_given_up_does_not_hold_up_a_bounce() -> None:
    failed = [ended(S.FAILED, lease=n, lived_s=2, ended_s=100 - n) for n in range(1, 6)]
    (action,) = decide(view([failed[-1], instance(ordinal=1)], history=failed[:-1], revision=2))
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
