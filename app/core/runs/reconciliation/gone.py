"""What it means that a driver's process is gone: by its own word, by the resource manager's, or not known yet.

Two facts end an instance that did not say how it ended: its process is gone *and* the resource manager has ended it:
FAILED; gone, silent, and unknown to the resource manager for `lost_after`: LOST. Without the resource manager's word it
is UNREACHABLE, and its ordinal is not leased again.
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
    """The driver's process is not there any more: by its own word, by the resource manager's, or not known yet."""
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
                "its driver is gone and the Spark master does not answer, so nobody knows whether its executors still "
                "run: bring the master back, or kill the run",
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
        return end_as_lost(
            instance,
            f"silent for {duration_s(gone_for.total_seconds())}, unknown to the Spark master, and its driver is gone",
        )
    return unreachable(instance, "its driver is gone and the Spark master knows of no such application")


def _judge_never_claimed(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """No task has run under this lease, so nobody else needs to be asked; only its process may be about to start."""
    began = view.past(instance.since)
    if instance.jvm_pid is None and began is not None and view.now - began < view.timing.submit_grace:
        return []
    return [advance(instance, InstanceState.FAILED, _why_it_ended(instance, seen))]


def unreachable(instance: Instance, reason: str) -> list[Action]:
    if instance.state is InstanceState.UNREACHABLE and instance.reason == reason:
        return []
    return [advance(instance, InstanceState.UNREACHABLE, reason)]


def end_as_lost(instance: Instance, reason: str) -> list[Action]:
    """LOST is entered from UNREACHABLE only, so that a page shows what is feared before it is acted on."""
    if instance.state is not InstanceState.UNREACHABLE:
        return [advance(instance, InstanceState.UNREACHABLE, reason)]
    return [advance(instance, InstanceState.LOST, reason)]


def _why_it_ended(instance: Instance, seen: Observation) -> str:
    if instance.killed_at is not None and instance.drain_signalled_at is not None:
        return killed_undrained(instance.killed_at - instance.drain_signalled_at)
    return why_it_ended(seen.log_tail, exit_code=seen.exit_code, has_claimed=instance.claimed_at is not None)


def killed_undrained(waited: timedelta) -> str:
    """Why the reconciler killed a driver that nobody asked to kill."""
    return f"killed: it had not drained {duration_s(waited.total_seconds())} after SIGTERM"
