"""Crash loops: an instance, or a task of it, that fails repeatedly soon after its start.

It is restarted for ever, with growing waits. Only a permanent error, which a restart cannot fix, ends the restarts.
"""

from __future__ import annotations

from datetime import datetime

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.task import OutcomeKind

CRASH_LOOPING_AFTER = 3
"""Failures in a row; one or two can be a host that went down."""
_COMING = frozenset({InstanceState.PENDING, InstanceState.SUBMITTING, InstanceState.STARTING})
_FAILED = frozenset({InstanceState.FAILED, InstanceState.LOST})


def has_permanent_error(instance: Instance) -> bool:
    """Return whether its application ended with an error that a restart cannot fix (docs/spark.md)."""
    return instance.outcome is not None and instance.outcome.kind == OutcomeKind.HOPELESS


def failures_so_far(instance: Instance, *, bounce_requested_at: datetime | None) -> int:
    """Return how many leases of its ordinal failed in a row, with this one; a requested restart resets the count."""
    if bounce_requested_at is not None and instance.leased_at < bounce_requested_at:
        return 0
    was_drilled = instance.outcome is not None and instance.outcome.kind == OutcomeKind.DRILLED
    return instance.failures + (1 if instance.state in _FAILED and not was_drilled else 0)


def is_failing(instance: Instance, *, bounce_requested_at: datetime | None) -> bool:
    """Return whether it has failed often enough to be reported, and was not healthy for a while since."""
    if has_permanent_error(instance):
        return False
    if instance.tasks_crashing and not instance.has_ended:
        return True
    return failures_so_far(instance, bounce_requested_at=bounce_requested_at) >= CRASH_LOOPING_AFTER


def is_crash_looping(instance: Instance, *, bounce_requested_at: datetime | None) -> bool:
    """Return whether it is failing and not running: it waits, starts, or has just failed."""
    if not is_failing(instance, bounce_requested_at=bounce_requested_at):
        return False
    if instance.state in _COMING | _FAILED:
        return True
    return instance.tasks_crashing > 0 and instance.state in (InstanceState.RUNNING, InstanceState.PAUSED)


def crash_loop_sentence(instance: Instance, *, bounce_requested_at: datetime | None) -> str:
    """Return the number of failures and the reason of the last one."""
    why = f": {instance.reason}" if instance.reason else ""
    failures = failures_so_far(instance, bounce_requested_at=bounce_requested_at)
    if failures >= CRASH_LOOPING_AFTER:
        return f"instance {instance.ordinal} has failed {failures} times in a row{why}"
    tasks = "1 task is" if instance.tasks_crashing == 1 else f"{instance.tasks_crashing} tasks are"
    return f"instance {instance.ordinal}: {tasks} crash-looping{why}"
