"""The life of an instance: one Spark application of a run, with an ordinal and a lease.

PENDING ─▶ SUBMITTING ─▶ STARTING ─▶ RUNNING ⇄ PAUSED
   │           │            │           │        │
   │           ▼            ▼           ▼        ▼
   │        FAILED ◀──── FAILED      DRAINING ◀──┘
   ▼                                    │
STOPPED ◀───────────────────────────────┘

From every state with a live application: UNREACHABLE (no heartbeat, and its process is on another host) and back.
From UNREACHABLE: LOST, once for 30 s there is no heartbeat, the cluster manager reports the end, and the pid is gone.
Only after STOPPED, FAILED or LOST may the ordinal be leased again.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from app.kit.errors import IllegalTransitionError


class InstanceState(StrEnum):
    PENDING = "pending"
    SUBMITTING = "submitting"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


_S = InstanceState
TRANSITIONS: dict[InstanceState, frozenset[InstanceState]] = {
    _S.PENDING: frozenset({_S.SUBMITTING, _S.STOPPED}),
    _S.SUBMITTING: frozenset({_S.STARTING, _S.RUNNING, _S.DRAINING, _S.STOPPED, _S.FAILED, _S.UNREACHABLE}),
    _S.STARTING: frozenset({_S.RUNNING, _S.PAUSED, _S.DRAINING, _S.STOPPED, _S.FAILED, _S.UNREACHABLE}),
    _S.RUNNING: frozenset({_S.PAUSED, _S.DRAINING, _S.STOPPED, _S.FAILED, _S.UNREACHABLE}),
    _S.PAUSED: frozenset({_S.RUNNING, _S.DRAINING, _S.STOPPED, _S.FAILED, _S.UNREACHABLE}),
    _S.DRAINING: frozenset({_S.STOPPED, _S.FAILED, _S.UNREACHABLE}),
    _S.UNREACHABLE: frozenset({_S.STARTING, _S.RUNNING, _S.PAUSED, _S.DRAINING, _S.STOPPED, _S.FAILED, _S.LOST}),
    _S.STOPPED: frozenset(),
    _S.FAILED: frozenset(),
    _S.LOST: frozenset(),
}
ENDED = frozenset({_S.STOPPED, _S.FAILED, _S.LOST})
MAY_HAVE_APPLICATION = frozenset(set(InstanceState) - ENDED - {_S.PENDING})


def advance(state: InstanceState, to: InstanceState) -> InstanceState:
    """Return `to` if the table allows it; the same state is always allowed. Raises IllegalTransitionError."""
    if to != state and to not in TRANSITIONS[state]:
        raise IllegalTransitionError(f"an instance cannot go from {state} to {to}")
    return to


class InstanceOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the application as it reported it; `kind` as app/core/runs/task.py's OutcomeKind."""

    kind: str
    message: str
    at: datetime


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One lease of one ordinal of a run; every lease is kept, the highest is the current one.

    since: when `state` was entered. leased_at: when this lease was granted.
    missing_since: since when it is gone by its heartbeats, the cluster manager and the pid; None otherwise.
    drain_signalled_at, killed_at: when the reconciler sent SIGTERM and SIGKILL to its driver; None: it did not.
    last_heartbeat_at: the newest report of the driver or of any of its tasks, by the server's clock.
    executors, tasks_running, tasks_waiting: as the driver reported last; None before its first heartbeat.
    failures: leases of the ordinal that failed in a row before this one; 0 once this one was healthy for a while.
    tasks_crashing: its tasks that failed repeatedly of late, as the driver reported last.
    """

    run_id: str
    ordinal: int
    lease: int
    revision: int
    state: InstanceState
    since: datetime
    leased_at: datetime
    reason: str | None = None
    application_id: str | None = None
    host: str | None = None
    jvm_pid: int | None = None
    python_pid: int | None = None
    process_started_at: datetime | None = None
    log_path: str | None = None
    submitted_at: datetime | None = None
    claimed_at: datetime | None = None
    executors: int | None = None
    tasks_running: int | None = None
    tasks_waiting: int | None = None
    last_heartbeat_at: datetime | None = None
    missing_since: datetime | None = None
    drain_signalled_at: datetime | None = None
    killed_at: datetime | None = None
    outcome: InstanceOutcome | None = None
    failures: int = 0
    tasks_crashing: int = 0

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def slots_sentence(self) -> str | None:
        """Return `3 of 4 tasks wait for a core`, or None if none waits or the driver has not reported."""
        if not self.tasks_waiting:
            return None
        tasks = self.tasks_waiting + (self.tasks_running or 0)
        return f"{self.tasks_waiting} of {tasks} tasks {'waits' if self.tasks_waiting == 1 else 'wait'} for a core"
