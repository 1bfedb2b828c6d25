"""Leases that ended without being asked to: how many in a row, how long the ordinal waits, when it is given up."""

from __future__ import annotations

from app.domain.reconciliation.view import View
from app.domain.runs.instance import Instance, InstanceState
from app.domain.runs.task import OutcomeKind


def failures_in_a_row(view: View, ordinal: int) -> int:
    """Leases of the ordinal that ended without being asked to, since one was healthy or a restart was asked for."""
    leases = sorted((i for i in view.history if i.ordinal == ordinal), key=lambda i: i.lease, reverse=True)
    failures = 0
    for instance in leases:
        if not instance.has_ended:
            continue
        restarted = view.run.bounce_requested_at
        if restarted is not None and instance.leased_at < restarted:
            break
        if instance.state is InstanceState.STOPPED:
            break
        failures += 1
        began = instance.claimed_at or instance.since
        if instance.since - began >= view.timing.healthy_after:
            break
    return failures


def is_given_up(view: View, ordinal: int) -> bool:
    """Too many failures in a row, or an error that only a person can mend; until a restart is asked for."""
    if failures_in_a_row(view, ordinal) >= view.timing.give_up_after:
        return True
    last = max((i for i in view.history if i.ordinal == ordinal), key=lambda i: i.lease, default=None)
    if last is None or last.outcome is None or last.outcome.kind != OutcomeKind.HOPELESS:
        return False
    restarted = view.run.bounce_requested_at
    return restarted is None or last.leased_at >= restarted


def why_again(view: View, ended: Instance) -> str | None:
    if ended.state is InstanceState.STOPPED:
        return None
    failures = failures_in_a_row(view, ended.ordinal)
    wait_s = view.timing.wait_after(failures).total_seconds()
    return f"again after {wait_s:g} s: lease {ended.lease} was {ended.state}, {ended.reason or 'no reason known'}"
