"""The rolling bounce: the first outdated instance drains, once all others have settled."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.reconciliation.actions import Action, advance
from app.core.runs.reconciliation.failures import is_not_restarted
from app.core.runs.reconciliation.view import View

_SETTLED = frozenset({InstanceState.RUNNING, InstanceState.PAUSED})


def bounce(view: View, current: Sequence[Instance]) -> list[Action]:
    """Drain the next outdated instance: one at a time, and none while another one is down."""
    if view.is_stopping or not view.may_start:
        return []
    wanted = [instance for instance in current if not (instance.has_ended and is_not_restarted(view, instance))]
    if any(instance.state not in _SETTLED for instance in wanted if instance.ordinal < view.ordinals):
        return []
    for instance in sorted(wanted, key=lambda i: i.ordinal):
        if not instance.has_ended and (instance.ordinal >= view.ordinals or view.is_outdated(instance)):
            return [advance(instance, InstanceState.DRAINING, _why_bounced(view, instance))]
    return []


def _why_bounced(view: View, instance: Instance) -> str:
    if instance.ordinal >= view.ordinals:
        return f"revision {view.run.revision} has {view.ordinals} instances"
    target = view.run.target_of(instance.ordinal)
    if instance.revision != target:
        return f"its turn in the rolling bounce to revision {target}"
    return "its turn in the rolling restart"
