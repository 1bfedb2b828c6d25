"""The life of an instance: one Spark application of a run, with an ordinal and a lease.

PENDING ─▶ SUBMITTING ─▶ STARTING ─▶ RUNNING ⇄ PAUSED
   │           │            │           │        │
   │           ▼            ▼           ▼        ▼
   │        FAILED ◀──── FAILED      DRAINING ◀──┘
   ▼                                    │
STOPPED ◀───────────────────────────────┘

From every state in which an application may live: UNREACHABLE (no heartbeat and not ours to look at) and back,
and from UNREACHABLE: LOST (silence *and* the resource manager's word, held for 30 s, pid gone).
Only after STOPPED, FAILED or LOST may the ordinal be leased again.
"""

from __future__ import annotations

from enum import StrEnum


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


class IllegalTransitionError(Exception):
    """A state change that the table does not allow; a bug or a race, never ignored."""


def advance(state: InstanceState, to: InstanceState) -> InstanceState:
    """Return `to` if the table allows it; the same state is always allowed. Raises IllegalTransitionError."""
    if to != state and to not in TRANSITIONS[state]:
        raise IllegalTransitionError(f"an instance cannot go from {state} to {to}")
    return to
