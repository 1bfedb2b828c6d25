"""The next step for a driver that lives, or may live on another host: no action, drain, SIGTERM or kill.

A drain is requested in the answer to a heartbeat. If it takes too long, or no heartbeat arrives, the server on the
driver's host sends one SIGTERM, and after a bound SIGKILL. Both are written first, so that they are recorded once.
"""

from __future__ import annotations

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.observation import MasterWord, Observation, ProcessWord
from app.core.runs.reconciliation.actions import Action, Kill, SignalDrain, advance, mark_missing
from app.core.runs.reconciliation.gone import end_as_lost, killed_undrained, unreachable
from app.core.runs.reconciliation.view import View
from app.core.runs.run import DesiredRunState
from app.kit.words import duration_s

_WORKING = frozenset({InstanceState.STARTING, InstanceState.RUNNING, InstanceState.PAUSED})


def judge_there(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """Return the next step of an instance whose run is not to be killed."""
    if instance.state is InstanceState.DRAINING:
        return _hurry(view, instance, seen)
    if view.run.desired is DesiredRunState.DRAIN:
        return _drain(instance, seen)
    if instance.claimed_at is None and seen.process is ProcessWord.ALIVE:
        # It is still starting; the first message of a driver is its claim.
        return []
    if not view.is_silent(instance):
        # Written while no heartbeat arrived; now one has.
        is_stale = instance.state in _WORKING and instance.reason is not None
        return [advance(instance, instance.state, None)] if is_stale else []
    if seen.process is ProcessWord.ALIVE:
        return _say(instance, "no heartbeat arrives, though its driver runs; it continues and reports later")
    return unreachable(instance, f"no heartbeat arrives; it runs on {instance.host or 'another host'}")


def kill(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """Return the next step of an instance whose run is to be killed."""
    if seen.process is ProcessWord.ALIVE:
        return _kill(view, instance, "killed on request")
    is_over = seen.process is ProcessWord.GONE and seen.master in (MasterWord.FINISHED, MasterWord.UNKNOWN)
    if is_over:
        return [advance(instance, InstanceState.STOPPED, "killed")]
    # Its host or its master does not answer: a user decided to kill it, so it ends after the usual time.
    missing_since = view.past(instance.missing_since)
    if missing_since is None:
        return [mark_missing(instance, view.now)]
    if view.now - missing_since >= view.timing.lost_after and view.is_silent(instance):
        return end_as_lost(instance, "killed; no heartbeat since, and no server could verify that it has ended")
    return []


def _drain(instance: Instance, seen: Observation) -> list[Action]:
    if instance.state is not InstanceState.UNREACHABLE:
        return [advance(instance, InstanceState.DRAINING, None)]
    if seen.process is not ProcessWord.ALIVE:
        # Its host is another one. It gets the order with its next heartbeat, or from the server of its host.
        return []
    return [advance(instance, InstanceState.DRAINING, "no heartbeat arrived when the drain was requested")]


def _hurry(view: View, instance: Instance, seen: Observation) -> list[Action]:
    is_silent = view.is_silent(instance)
    if seen.process is not ProcessWord.ALIVE:
        where = instance.host or "another host"
        return _say(instance, f"it drains without a heartbeat, and it runs on {where}") if is_silent else []
    timing = view.timing
    signalled_at = view.past(instance.drain_signalled_at)
    if signalled_at is None:
        since = view.past(instance.since)
        if not is_silent and since is not None and view.now - since < timing.drain_signal_after:
            return []
        bound_s = timing.drain_signal_after.total_seconds()
        why = "no heartbeat arrives" if is_silent else f"it has not drained within {duration_s(bound_s)}"
        reason = f"{why}: its driver got SIGTERM"
        return [SignalDrain(ordinal=instance.ordinal, lease=instance.lease, reason=reason)]
    waited = view.now - signalled_at
    if waited < timing.drain_kill_after + view.uploads:
        return []
    return _kill(view, instance, killed_undrained(waited))


def _kill(view: View, instance: Instance, reason: str) -> list[Action]:
    killed_at = view.past(instance.killed_at)
    if killed_at is None:
        return [Kill(ordinal=instance.ordinal, lease=instance.lease, reason=reason)]
    if view.now - killed_at < view.timing.kill_again_after:
        return []
    return [Kill(ordinal=instance.ordinal, lease=instance.lease, reason=None)]


def _say(instance: Instance, reason: str) -> list[Action]:
    return [] if instance.reason == reason else [advance(instance, instance.state, reason)]
