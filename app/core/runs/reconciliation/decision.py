"""The reconciler's next step for one run.

For each ordinal the current lease moves toward the desired state:

    desired         PENDING    SUBMITTING   STARTING, RUNNING, PAUSED   DRAINING             ended
    RUN, PAUSE      submit     wait         wait (drain, if outdated)   wait                 lease again, after a wait
    DRAIN           (ended by  drain        drain                       SIGTERM, later kill
    KILL             request)  kill         kill                        kill

An ended ordinal is restarted for ever; only a permanent error, which a restart cannot fix, ends that (failures.py).

A server on its host drains and kills an UNREACHABLE instance like the others: there.py. The facts that end an instance
without its own report are in gone.py.

While `may_start` is false (after a start of the server and after a database restore) nothing is leased or submitted.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.observation import ProcessWord
from app.core.runs.reconciliation.actions import Action, FailRun, LeaseAgain, Submit, advance, not_missing
from app.core.runs.reconciliation.bounce import bounce
from app.core.runs.reconciliation.failures import failures_in_a_row, is_not_restarted, mark_healthy, why_again
from app.core.runs.reconciliation.gone import judge_gone
from app.core.runs.reconciliation.there import judge_there, kill
from app.core.runs.reconciliation.view import View
from app.core.runs.run import DesiredRunState


def decide(view: View) -> list[Action]:
    """Return the next step of every ordinal; at most one state change each, so that the next turn sees its result."""
    current = {instance.ordinal: instance for instance in view.run.instances}
    actions: list[Action] = []
    for ordinal in sorted({*current, *range(view.ordinals)}):
        instance = current.get(ordinal)
        if instance is None or instance.has_ended:
            actions += _restart(view, ordinal, instance)
        else:
            actions += _step(view, instance)
    if not actions:
        actions += bounce(view, list(current.values()))
    return actions + _end_if_permanent(view, current)


def _restart(view: View, ordinal: int, ended: Instance | None) -> list[Action]:
    """Lease an ordinal that has no live instance; the wait after failures comes before the submission."""
    unwanted = view.is_stopping or ordinal >= view.ordinals
    if unwanted or not view.may_start:
        return []
    if ended is None:
        return [LeaseAgain(ordinal=ordinal, reason=None)]
    if is_not_restarted(view, ended):
        return []
    return [LeaseAgain(ordinal=ordinal, reason=why_again(view, ended), failures=failures_in_a_row(view, ended))]


def _step(view: View, instance: Instance) -> list[Action]:
    if instance.state is InstanceState.PENDING:
        return _submit(view, instance)
    seen = view.observations.get(instance.ordinal)
    if seen is None:
        return []
    if view.run.desired is DesiredRunState.KILL:
        return kill(view, instance, seen)
    if seen.process is ProcessWord.GONE:
        return judge_gone(view, instance, seen)
    return [*not_missing(instance), *mark_healthy(view, instance), *judge_there(view, instance, seen)]


def _submit(view: View, instance: Instance) -> list[Action]:
    if view.is_stopping:
        return [advance(instance, InstanceState.STOPPED, "not submitted before the end was requested")]
    if instance.ordinal >= view.ordinals or instance.revision != view.run.target_of(instance.ordinal):
        reason = f"not submitted: it has moved to revision {view.run.target_of(instance.ordinal)}"
        return [advance(instance, InstanceState.STOPPED, reason)]
    wait = view.timing.wait_after(failures_in_a_row(view, instance))
    leased_at = view.past(instance.leased_at)
    if not view.may_start or (leased_at is not None and view.now - leased_at < wait):
        return []
    return [Submit(ordinal=instance.ordinal, lease=instance.lease)]


def _end_if_permanent(view: View, current: Mapping[int, Instance]) -> list[Action]:
    """End the run once every ordinal has ended with a permanent error."""
    if view.is_stopping or not view.ordinals:
        return []
    if any(not instance.has_ended for instance in current.values()):
        return []
    if not all(ordinal in current and is_not_restarted(view, current[ordinal]) for ordinal in range(view.ordinals)):
        return []
    last = max(current.values(), key=lambda instance: instance.since)
    return [
        FailRun(
            reason=f"not restarted: instance {last.ordinal}, lease {last.lease}: {last.reason or 'no reason known'}"
        )
    ]
