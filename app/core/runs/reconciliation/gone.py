"""The next step for an instance whose driver's process has ended.

Two facts end an instance that did not report its end. If its process is gone and the cluster manager has ended it, it
is FAILED. If it is gone, without heartbeats, and unknown to the cluster manager for `lost_after`, it is LOST. Until the
cluster manager answers, it is UNREACHABLE, and its ordinal is not leased again.
"""

from __future__ import annotations

from datetime import timedelta

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.last_words import why_it_ended
from app.core.runs.observation import MasterWord, Observation
from app.core.runs.reconciliation.actions import Action, TakeOutcome, advance, mark_missing, not_missing
from app.core.runs.reconciliation.view import View
from app.kit.words import duration_s


def judge_gone(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """Return the next step: by its own report or the cluster manager's, or UNREACHABLE while neither is known."""
    if seen.outcome is not None and view.silence(instance) > view.timing.ended_after:
        return [TakeOutcome(ordinal=instance.ordinal, lease=instance.lease, outcome=seen.outcome)]
    if instance.claimed_at is None:
        return _judge_never_claimed(view, instance, seen)
    if seen.master is MasterWord.RUNNING:
        return unreachable(instance, "its driver is gone, but the Spark master still counts it as running")
    if seen.master is MasterWord.UNREACHABLE:
        return [
            *not_missing(instance),
            *unreachable(
                instance,
                "its driver is gone and the Spark master does not answer, so its executors may still run: "
                "restart the master, or kill the run",
            ),
        ]
    missing_since = view.past(instance.missing_since)
    if missing_since is None:
        return [mark_missing(instance, view.now)]
    gone_for = min(view.now - missing_since, view.silence(instance))
    if seen.master is MasterWord.FINISHED:
        return (
            [advance(instance, InstanceState.FAILED, _why_it_ended(instance, seen))]
            if gone_for >= view.timing.ended_after
            else []
        )
    if gone_for >= view.timing.lost_after:
        lasts = duration_s(gone_for.total_seconds())
        return end_as_lost(instance, f"no heartbeat for {lasts}, unknown to the Spark master, and its driver is gone")
    return unreachable(instance, "its driver is gone and the Spark master knows of no such application")


def _judge_never_claimed(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """Judge by the process alone, since no task has run under this lease; it may be about to start."""
    began = view.past(instance.since)
    if instance.jvm_pid is None and began is not None and view.now - began < view.timing.submit_grace:
        return []
    return [advance(instance, InstanceState.FAILED, _why_it_ended(instance, seen))]


def unreachable(instance: Instance, reason: str) -> list[Action]:
    if instance.state is InstanceState.UNREACHABLE and instance.reason == reason:
        return []
    return [advance(instance, InstanceState.UNREACHABLE, reason)]


def end_as_lost(instance: Instance, reason: str) -> list[Action]:
    """Enter LOST from UNREACHABLE only, so that a page shows it before the ordinal is leased again."""
    if instance.state is not InstanceState.UNREACHABLE:
        return [advance(instance, InstanceState.UNREACHABLE, reason)]
    return [advance(instance, InstanceState.LOST, reason)]


def _why_it_ended(instance: Instance, seen: Observation) -> str:
    if instance.killed_at is not None and instance.drain_signalled_at is not None:
        return killed_undrained(instance.killed_at - instance.drain_signalled_at)
    return why_it_ended(seen.log_tail, exit_code=seen.exit_code, has_claimed=instance.claimed_at is not None)


def killed_undrained(waited: timedelta) -> str:
    """Return the reason for a kill by the reconciler that no user requested."""
    return f"killed: it had not drained {duration_s(waited.total_seconds())} after SIGTERM"
