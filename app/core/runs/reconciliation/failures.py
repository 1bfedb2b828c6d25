"""Leases that ended without a request: how many in a row, the wait of the ordinal, and the end of the restarts."""

from __future__ import annotations

from app.core.runs.crash_loop import failures_so_far, has_permanent_error
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.reconciliation.actions import Action, MarkHealthy
from app.core.runs.reconciliation.view import View
from app.core.runs.task import OutcomeKind
from app.kit.words import duration_s

_AT_WORK = frozenset({InstanceState.RUNNING, InstanceState.PAUSED})


def failures_in_a_row(view: View, instance: Instance) -> int:
    """Return the leases of the ordinal that ended without a request, since one was healthy or a restart was requested.

    A lease without executors or with crashing tasks was never healthy, even if it lived long.
    """
    if instance.state is InstanceState.STOPPED:
        return 0
    failures = failures_so_far(instance, bounce_requested_at=view.run.bounce_requested_at)
    had_no_executors = instance.outcome is not None and instance.outcome.kind == OutcomeKind.NO_EXECUTORS
    if failures and instance.has_ended and not (had_no_executors or instance.tasks_crashing):
        began = instance.claimed_at or instance.since
        if instance.since - began >= view.timing.healthy_after:
            return 1
    return failures


def is_not_restarted(view: View, instance: Instance) -> bool:
    """Return whether its permanent error ends the restarts, until a user requests one."""
    restarted = view.run.bounce_requested_at
    return has_permanent_error(instance) and (restarted is None or instance.leased_at >= restarted)


def mark_healthy(view: View, instance: Instance) -> list[Action]:
    """Reset the failures of an instance that has run for a while."""
    claimed_at = view.past(instance.claimed_at)
    if not instance.failures or instance.state not in _AT_WORK or instance.tasks_crashing or claimed_at is None:
        return []
    if view.is_silent(instance) or view.now - claimed_at < view.timing.healthy_after:
        return []
    return [MarkHealthy(ordinal=instance.ordinal, lease=instance.lease)]


def why_again(view: View, ended: Instance) -> str | None:
    if ended.state is InstanceState.STOPPED:
        return None
    failures = failures_in_a_row(view, ended)
    wait = duration_s(view.timing.wait_after(failures).total_seconds())
    counted = f", failure {failures} in a row" if failures > 1 else ""
    return f"again after {wait}{counted}: lease {ended.lease} was {ended.state}, {ended.reason or 'no reason known'}"
