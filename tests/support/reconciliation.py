"""Situations for the reconciler's decision: instances, what is seen of them, and the run that they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.observation import MasterWord, Observation, ProcessWord
from app.core.runs.reconciliation.actions import Action, Advance
from app.core.runs.reconciliation.decision import decide
from app.core.runs.reconciliation.view import Timing, View
from app.core.runs.run import DesiredRunState, Run, RunState

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TIMING = Timing()

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
    state: InstanceState = InstanceState.RUNNING,
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
    submitted = state is not InstanceState.PENDING
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


def ended(
    state: InstanceState, *, lease: int, lived_s: float, ended_s: float, ordinal: int = 0, failures: int = 0
) -> Instance:
    """A lease that ended `ended_s` ago after it had lived `lived_s`, and `failures` before it that failed in a row."""
    return replace(
        instance(state, ordinal=ordinal, lease=lease, in_state_s=ended_s, reason="it crashed"),
        claimed_at=ago(ended_s + lived_s),
        leased_at=ago(ended_s + lived_s + 1),
        failures=failures,
    )


def view(
    instances: Sequence[Instance],
    *,
    desired: DesiredRunState = DesiredRunState.RUN,
    seen: Mapping[int, Observation] | None = None,
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
        observations={i.ordinal: ALIVE for i in instances if not i.has_ended} if seen is None else seen,
        now=NOW,
        listening_since=ago(listening_s),
        may_start=may_start,
        timing=TIMING,
    )


def decide_for(
    one: Instance, seen: Observation = ALIVE, *, desired: DesiredRunState = DesiredRunState.RUN
) -> list[Action]:
    return decide(view([one], desired=desired, seen={one.ordinal: seen}))


def states_entered(actions: Sequence[Action]) -> list[InstanceState]:
    return [action.to for action in actions if isinstance(action, Advance)]
