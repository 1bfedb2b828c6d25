"""The state of a run from its desired state and its instances."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from app.core.pipelines.pipeline import GroupProtocol, PipelineDefinition, ProcessingGuarantee
from app.core.runs.instance import ENDED, Instance, InstanceOutcome, InstanceState
from app.core.runs.run import (
    DERIVATION,
    DESIRES,
    NEEDS_FULL_RESTART,
    DesiredRunState,
    RunEnd,
    RunState,
    derive_state,
    desired_of_tasks,
    fields_that_need_full_restart,
)
from app.core.runs.task import DesiredTaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
S = InstanceState


def instances(*states: InstanceState, revision: int = 1) -> list[Instance]:
    return [
        Instance(run_id="r", ordinal=n, lease=1, revision=revision, state=state, since=NOW, leased_at=NOW)
        for n, state in enumerate(states)
    ]


def derive(
    *states: InstanceState,
    desired: DesiredRunState = DesiredRunState.RUN,
    end: RunEnd | None = None,
    revision: int = 1,
    bounced: datetime | None = None,
) -> RunState:
    return derive_state(
        desired=desired, end=end, revision=revision, bounce_requested_at=bounced, instances=instances(*states)
    )


@pytest.mark.parametrize(
    ("states", "run"),
    [
        ((), RunState.PENDING),
        ((S.PENDING, S.PENDING), RunState.PENDING),
        ((S.PENDING, S.RUNNING), RunState.STARTING),
        ((S.SUBMITTING,), RunState.STARTING),
        ((S.STARTING, S.PAUSED), RunState.STARTING),
        ((S.RUNNING, S.RUNNING), RunState.RUNNING),
        ((S.RUNNING, S.PAUSED), RunState.RUNNING),
        ((S.PAUSED, S.PAUSED), RunState.PAUSED),
        ((S.RUNNING, S.UNREACHABLE), RunState.DEGRADED),
        ((S.RUNNING, S.FAILED), RunState.DEGRADED),
        ((S.RUNNING, S.LOST), RunState.DEGRADED),
        ((S.RUNNING, S.STOPPED), RunState.DEGRADED),
        ((S.RUNNING, S.DRAINING), RunState.DEGRADED),
        ((S.STARTING, S.FAILED), RunState.DEGRADED),
    ],
)
def test_the_table_of_states(states: tuple[InstanceState, ...], run: RunState) -> None:
    assert derive(*states) is run


@pytest.mark.parametrize("states", list(product(InstanceState, repeat=2)), ids="-".join)
def test_every_pair_of_states_has_a_line_and_the_order_of_instances_does_not_matter(
    states: tuple[InstanceState, InstanceState],
) -> None:
    assert derive(*states) is derive(*reversed(states))
    assert derive(*states) in {line[2] for line in DERIVATION}


@pytest.mark.parametrize("end", RunEnd)
@pytest.mark.parametrize("desired", DesiredRunState)
def test_end_of_a_run_is_final(end: RunEnd, desired: DesiredRunState) -> None:
    assert derive(S.RUNNING, desired=desired, end=end) == end.value


def test_requested_end_of_a_run_is_shown_at_once() -> None:
    assert derive(S.RUNNING, desired=DesiredRunState.DRAIN) is RunState.DRAINING
    assert derive(S.RUNNING, desired=DesiredRunState.KILL) is RunState.KILLING


def test_an_instance_with_another_revision_or_an_older_lease_is_a_bounce() -> None:
    assert derive(S.RUNNING, S.DRAINING, revision=2) is RunState.BOUNCING
    assert derive(S.RUNNING, bounced=NOW + timedelta(seconds=1)) is RunState.BOUNCING
    assert derive(S.RUNNING, bounced=NOW) is RunState.RUNNING


def test_wishes_only_get_sterner_after_a_drain() -> None:
    assert DESIRES.keys() == set(DesiredRunState)
    assert DESIRES[DesiredRunState.DRAIN] == {DesiredRunState.KILL}
    assert DESIRES[DesiredRunState.KILL] == frozenset()


@pytest.mark.parametrize("state", [state for state in InstanceState if state not in ENDED | {S.DRAINING}])
def test_tasks_get_the_desired_state_of_the_run(state: InstanceState) -> None:
    assert desired_of_tasks(DesiredRunState.RUN, state) is DesiredTaskState.RUN
    assert desired_of_tasks(DesiredRunState.PAUSE, state) is DesiredTaskState.PAUSE
    assert desired_of_tasks(DesiredRunState.DRAIN, state) is DesiredTaskState.DRAIN
    assert desired_of_tasks(DesiredRunState.KILL, state) is DesiredTaskState.DRAIN


def test_draining_instance_drains_with_any_desired_state() -> None:
    assert {desired_of_tasks(desired, S.DRAINING) for desired in DesiredRunState} == {DesiredTaskState.DRAIN}


def test_fewer_instances_need_a_full_restart_and_more_do_not() -> None:
    two = PipelineDefinition(cluster="c", source_topics=("in",), group_id="g", sink_topic="out", instances=2)
    assert fields_that_need_full_restart(two, replace(two, instances=1)) == ("instances",)
    assert fields_that_need_full_restart(two, replace(two, instances=3)) == ()


def test_a_change_that_members_must_agree_on_needs_a_full_restart() -> None:
    before = PipelineDefinition(cluster="c", source_topics=("in",), group_id="g", sink_topic="out")
    assert fields_that_need_full_restart(before, replace(before, commit_interval_ms=7, tasks_per_instance=3)) == ()
    after = replace(
        before,
        cluster="d",
        group_id="h",
        group_protocol=GroupProtocol.CONSUMER,
        transactional_id_prefix="x",
        processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE,
        instances=3,
    )
    assert set(fields_that_need_full_restart(before, after)) == set(NEEDS_FULL_RESTART) - {"offset_fencing"}


@pytest.mark.parametrize("state", InstanceState)
def test_three_failures_in_a_row_are_a_crash_loop_until_it_is_at_work_again(state: InstanceState) -> None:
    def looping(failures: int, **fields: Any) -> bool:
        (one,) = instances(state)
        one = replace(one, failures=failures, **fields)
        run = derive_state(desired=DesiredRunState.RUN, end=None, revision=1, bounce_requested_at=None, instances=[one])
        return run is RunState.CRASH_LOOPING

    assert looping(3) is (state in {S.PENDING, S.SUBMITTING, S.STARTING, S.FAILED, S.LOST})
    assert looping(2) is (state in {S.FAILED, S.LOST})
    assert not looping(1)
    assert looping(0, tasks_crashing=1) is (state in {S.PENDING, S.SUBMITTING, S.STARTING, S.RUNNING, S.PAUSED})
    permanent = InstanceOutcome(kind="hopeless", message="", at=NOW)
    assert not looping(5, outcome=permanent)
