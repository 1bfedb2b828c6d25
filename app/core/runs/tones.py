"""The colours of states: runs, instances, tasks, their events and modes."""

from __future__ import annotations

from app.core.runs.instance import InstanceState
from app.core.runs.mode import Mode
from app.core.runs.run import RunState
from app.core.runs.task import EventKind, TaskState

TONES: tuple[tuple[str, str], ...] = (
    (RunState.PENDING, "busy"),
    (RunState.STARTING, "busy"),
    (RunState.RUNNING, "good"),
    (RunState.PAUSED, "warn"),
    (RunState.DEGRADED, "bad"),
    (RunState.CRASH_LOOPING, "bad"),
    (RunState.BOUNCING, "busy"),
    (RunState.DRAINING, "busy"),
    (RunState.KILLING, "warn"),
    (RunState.STOPPED, "idle"),
    (RunState.FAILED, "bad"),
    (InstanceState.PENDING, "busy"),
    (InstanceState.SUBMITTING, "busy"),
    (InstanceState.STARTING, "busy"),
    (InstanceState.RUNNING, "good"),
    (InstanceState.PAUSED, "warn"),
    (InstanceState.DRAINING, "busy"),
    (InstanceState.UNREACHABLE, "warn"),
    (InstanceState.STOPPED, "idle"),
    (InstanceState.FAILED, "bad"),
    (InstanceState.LOST, "bad"),
    (TaskState.STARTING, "busy"),
    (TaskState.RUNNING, "good"),
    (TaskState.PAUSED, "warn"),
    (TaskState.BACKING_OFF, "warn"),
    (TaskState.FENCED, "bad"),
    (TaskState.DRAINING, "busy"),
    (TaskState.DRAINED, "idle"),
    (TaskState.SUPERSEDED, "idle"),
    (TaskState.FAILED, "bad"),
    (Mode.GROUP_ONLY, "warn"),
    (Mode.GENERATION, "busy"),
    (Mode.V2, "good"),
    (EventKind.ASSIGNED, "good"),
    (EventKind.REVOKED, "busy"),
    (EventKind.LOST, "warn"),
    (EventKind.FENCED, "bad"),
    (EventKind.ABORTED, "warn"),
    (EventKind.OUTCOME_UNKNOWN, "warn"),
    (EventKind.REBUILT, "good"),
    (EventKind.SUPERSEDED, "idle"),
    (EventKind.BAD_RECORD, "warn"),
    (EventKind.ERROR, "bad"),
)
