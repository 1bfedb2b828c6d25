"""What the reconciler does next for one run: pure, from its rows and from what was seen of its applications.

For each ordinal the current lease moves toward what is wanted:

    wanted          PENDING    SUBMITTING   STARTING, RUNNING, PAUSED   DRAINING             ended
    RUN, PAUSE      submit     wait         wait (drain, if outdated)   wait                 lease again, after a wait
    DRAIN           (ended by  drain        drain                       SIGTERM, later kill
    KILL             request)  kill         kill                        kill

Two facts end an instance that did not say how it ended (`_judge_gone`): its driver's process is gone *and* the resource
manager has ended it: FAILED; gone, silent, and unknown to the resource manager for `lost_after`: LOST. Without the
resource manager's word it is UNREACHABLE, and its ordinal is not leased again.

While `may_start` is false (after a start of the server and after a database restore) nothing is leased or submitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from app.domain.instance import Instance, InstanceOutcome, InstanceState
from app.domain.observation import MasterWord, Observation, ProcessWord
from app.domain.run import DesiredRunState, Run, is_outdated
from app.domain.task import OutcomeKind

_S = InstanceState
_WORKING = frozenset({_S.STARTING, _S.RUNNING, _S.PAUSED})
_SETTLED = frozenset({_S.RUNNING, _S.PAUSED})
_STOPPING = frozenset({DesiredRunState.DRAIN, DesiredRunState.KILL})
_TROUBLE = ("Error", "ERROR", "Exception", "CRITICAL")
_ROUTINE = (" INFO ", " DEBUG ", "WARN")


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long the reconciler waits for what.

    heartbeat_timeout: silence after which an instance is looked at closely.
    lost_after: how long silence, the resource manager's word and the absent process must hold before LOST.
    ended_after: the same for a process that is gone while the resource manager says that the application has ended;
        the executors of a killed driver live on for a moment.
    submit_grace: how long after SUBMITTING was written its process may still be about to start.
    drain_signal_after, drain_kill_after: how long a DRAINING instance may take until its driver gets SIGTERM, SIGKILL.
    healthy_after: a lease that lived this long ends the row of failures before it.
    first_wait, longest_wait: the wait before a failed ordinal is submitted again, doubling.
    give_up_after: failures in a row after which an ordinal is left alone until somebody restarts it.
    """

    heartbeat_timeout: timedelta = timedelta(seconds=10)
    lost_after: timedelta = timedelta(seconds=30)
    ended_after: timedelta = timedelta(seconds=2)
    submit_grace: timedelta = timedelta(seconds=15)
    drain_signal_after: timedelta = timedelta(seconds=15)
    drain_kill_after: timedelta = timedelta(seconds=120)
    healthy_after: timedelta = timedelta(seconds=60)
    first_wait: timedelta = timedelta(seconds=1)
    longest_wait: timedelta = timedelta(seconds=60)
    give_up_after: int = 5

    def wait_after(self, failures: int) -> timedelta:
        """How long an ordinal waits after so many failures in a row."""
        if failures <= 0:
            return timedelta(0)
        return min(self.longest_wait, self.first_wait * 2 ** min(failures - 1, 30))


class LeaseAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Write the ordinal's next lease, at the run's revision."""

    ordinal: int
    reason: str | None


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    ordinal: int
    lease: int


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """Write a new state, or with the same state a new reason."""

    ordinal: int
    lease: int
    to: InstanceState
    reason: str | None


class MarkMissing(msgspec.Struct, frozen=True, kw_only=True):
    """Write since when it has been gone by all accounts; None: it is not."""

    ordinal: int
    lease: int
    since: datetime | None


class TakeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Write the outcome that the driver left on this host while no server heard it."""

    ordinal: int
    lease: int
    outcome: InstanceOutcome


class SignalDrain(msgspec.Struct, frozen=True, kw_only=True):
    """SIGTERM to the Python driver: it drains without any server."""

    ordinal: int
    lease: int


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    ordinal: int
    lease: int


class FailRun(msgspec.Struct, frozen=True, kw_only=True):
    """Every ordinal was given up."""

    reason: str


Action = LeaseAgain | Submit | Advance | MarkMissing | TakeOutcome | SignalDrain | Kill | FailRun


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the reconciler sees it in one turn.

    ordinals: how many instances the run's revision wants.
    history: all leases of the run, the current ones among them.
    observations: of the current leases that may have an application, by ordinal.
    listening_since: before this nobody could hear heartbeats, so silence counts from here.
    """

    run: Run
    ordinals: int
    history: Sequence[Instance]
    observations: Mapping[int, Observation]
    now: datetime
    listening_since: datetime
    may_start: bool
    timing: Timing = Timing()

    def silence(self, instance: Instance) -> timedelta:
        """How long nothing was heard of the instance though somebody listened."""
        heard = [
            at for at in (instance.last_heartbeat_at, instance.claimed_at, instance.submitted_at) if at is not None
        ]
        return self.now - max([self.listening_since, *heard])

    def is_silent(self, instance: Instance) -> bool:
        return self.silence(instance) > self.timing.heartbeat_timeout

    def is_outdated(self, instance: Instance) -> bool:
        return is_outdated(instance, revision=self.run.revision, bounce_requested_at=self.run.bounce_requested_at)


def decide(view: View) -> list[Action]:
    """The next step of every ordinal; at most one state change each, so that the next turn sees what became of it."""
    current = {instance.ordinal: instance for instance in view.run.instances}
    actions: list[Action] = []
    for ordinal in sorted({*current, *range(view.ordinals)}):
        instance = current.get(ordinal)
        if instance is None or instance.has_ended:
            actions += _restart(view, ordinal, instance)
        else:
            actions += _step(view, instance)
    if not actions:
        actions += _bounce(view, list(current.values()))
    return actions + _give_up(view, current)


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
        if instance.state is _S.STOPPED:
            break
        failures += 1
        began = instance.claimed_at or instance.since
        if instance.since - began >= view.timing.healthy_after:
            break
    return failures


def _restart(view: View, ordinal: int, ended: Instance | None) -> list[Action]:
    """Lease an ordinal that has no living instance; the wait after failures stands before the submission."""
    unwanted = view.run.desired in _STOPPING or ordinal >= view.ordinals
    if unwanted or not view.may_start or _is_given_up(view, ordinal):
        return []
    return [LeaseAgain(ordinal=ordinal, reason=None if ended is None else _why_again(view, ended))]


def _why_again(view: View, ended: Instance) -> str | None:
    if ended.state is _S.STOPPED:
        return None
    failures = failures_in_a_row(view, ended.ordinal)
    wait_s = view.timing.wait_after(failures).total_seconds()
    return f"again after {wait_s:g} s: lease {ended.lease} was {ended.state}, {ended.reason or 'no reason known'}"


def _is_given_up(view: View, ordinal: int) -> bool:
    """Too many failures in a row, or an error that only a person can mend; until a restart is asked for."""
    if failures_in_a_row(view, ordinal) >= view.timing.give_up_after:
        return True
    last = max((i for i in view.history if i.ordinal == ordinal), key=lambda i: i.lease, default=None)
    if last is None or last.outcome is None or last.outcome.kind != OutcomeKind.HOPELESS:
        return False
    restarted = view.run.bounce_requested_at
    return restarted is None or last.leased_at >= restarted


def _step(view: View, instance: Instance) -> list[Action]:
    if instance.state is _S.PENDING:
        return _submit(view, instance)
    seen = view.observations.get(instance.ordinal)
    if seen is None:
        return []
    if view.run.desired is DesiredRunState.KILL:
        return _kill(view, instance, seen)
    if seen.process is ProcessWord.GONE:
        return _judge_gone(view, instance, seen)
    return [*_not_missing(instance), *_judge_there(view, instance, seen)]


def _submit(view: View, instance: Instance) -> list[Action]:
    if view.run.desired in _STOPPING:
        return [_advance(instance, _S.STOPPED, "not submitted before the end was asked for")]
    if instance.ordinal >= view.ordinals or instance.revision != view.run.revision:
        return [_advance(instance, _S.STOPPED, f"not submitted: the run has moved to revision {view.run.revision}")]
    waited = view.now - instance.leased_at
    if not view.may_start or waited < view.timing.wait_after(failures_in_a_row(view, instance.ordinal)):
        return []
    return [Submit(ordinal=instance.ordinal, lease=instance.lease)]


def _kill(view: View, instance: Instance, seen: Observation) -> list[Action]:
    if seen.process is ProcessWord.ALIVE:
        return [Kill(ordinal=instance.ordinal, lease=instance.lease)]
    is_over = seen.process is ProcessWord.GONE and seen.master in (MasterWord.FINISHED, MasterWord.UNKNOWN)
    if is_over:
        return [_advance(instance, _S.STOPPED, "killed")]
    # Its host or its master does not answer: the kill was a person's decision, so it holds after the usual time.
    if instance.missing_since is None:
        return [MarkMissing(ordinal=instance.ordinal, lease=instance.lease, since=view.now)]
    if view.now - instance.missing_since >= view.timing.lost_after and view.is_silent(instance):
        return _end_as_lost(instance, "killed; nothing was heard of it since, and nobody could say that it has ended")
    return []


def _judge_gone(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """The driver's process is not there any more: by its own word, by the resource manager's, or not known yet."""
    if seen.outcome is not None and view.silence(instance) > view.timing.ended_after:
        return [TakeOutcome(ordinal=instance.ordinal, lease=instance.lease, outcome=seen.outcome)]
    if instance.claimed_at is None:
        return _judge_never_claimed(view, instance, seen)
    if seen.master is MasterWord.RUNNING:
        return _unreachable(instance, "its driver is gone, but the Spark master still counts it as running")
    if seen.master is MasterWord.UNREACHABLE:
        return [
            *_not_missing(instance),
            *_unreachable(
                instance,
                "its driver is gone and the Spark master does not answer, so nobody knows whether its executors still "
                "run: bring the master back, or kill the run",
            ),
        ]
    if instance.missing_since is None:
        return [MarkMissing(ordinal=instance.ordinal, lease=instance.lease, since=view.now)]
    gone_for = min(view.now - instance.missing_since, view.silence(instance))
    if seen.master is MasterWord.FINISHED:
        return [_advance(instance, _S.FAILED, _last_words(seen))] if gone_for >= view.timing.ended_after else []
    if gone_for >= view.timing.lost_after:
        return _end_as_lost(
            instance,
            f"silent for {gone_for.total_seconds():.0f} s, unknown to the Spark master, and its driver is gone",
        )
    return _unreachable(instance, "its driver is gone and the Spark master knows of no such application")


def _judge_never_claimed(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """No task has run under this lease, so nobody else needs to be asked; only its process may be about to start."""
    if instance.jvm_pid is None and view.now - instance.since < view.timing.submit_grace:
        return []
    return [_advance(instance, _S.FAILED, _last_words(seen))]


def _judge_there(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """The driver lives, or lives where this host cannot look."""
    if view.run.desired is DesiredRunState.DRAIN and instance.state is not _S.DRAINING:
        if instance.state is _S.UNREACHABLE:
            return [SignalDrain(ordinal=instance.ordinal, lease=instance.lease)]
        return [_advance(instance, _S.DRAINING, None)]
    if instance.state is _S.DRAINING:
        return _hurry(view, instance, seen)
    if instance.claimed_at is None and seen.process is ProcessWord.ALIVE:
        # It is still starting; the first word of a driver is its claim.
        return []
    if not view.is_silent(instance):
        # Said when it was silent; it is not any more.
        is_stale = instance.state in _WORKING and instance.reason is not None
        return [_advance(instance, instance.state, None)] if is_stale else []
    if seen.process is ProcessWord.ALIVE:
        silence = "no heartbeat arrives, though its driver runs; it goes on by itself and reports later"
        return [] if instance.reason == silence else [_advance(instance, instance.state, silence)]
    return _unreachable(instance, f"no heartbeat arrives; it runs on {instance.host or 'another host'}")


def _hurry(view: View, instance: Instance, seen: Observation) -> list[Action]:
    """A drain goes by heartbeat answer; where that takes too long, by signal, and at last by force."""
    if seen.process is not ProcessWord.ALIVE:
        return []
    age = view.now - instance.since
    if age >= view.timing.drain_kill_after:
        return [Kill(ordinal=instance.ordinal, lease=instance.lease)]
    if age >= view.timing.drain_signal_after or view.is_silent(instance):
        return [SignalDrain(ordinal=instance.ordinal, lease=instance.lease)]
    return []


def _bounce(view: View, current: Sequence[Instance]) -> list[Action]:
    """Drain the first outdated instance, once all others have settled: one at a time, and none while one is away."""
    if view.run.desired in _STOPPING or not view.may_start:
        return []
    wanted = [instance for instance in current if not (instance.has_ended and _is_given_up(view, instance.ordinal))]
    if any(instance.state not in _SETTLED for instance in wanted if instance.ordinal < view.ordinals):
        return []
    for instance in sorted(wanted, key=lambda i: i.ordinal):
        if not instance.has_ended and (instance.ordinal >= view.ordinals or view.is_outdated(instance)):
            return [_advance(instance, _S.DRAINING, _why_bounced(view, instance))]
    return []


def _why_bounced(view: View, instance: Instance) -> str:
    if instance.ordinal >= view.ordinals:
        return f"revision {view.run.revision} has {view.ordinals} instances"
    if instance.revision != view.run.revision:
        return f"its turn in the rolling bounce to revision {view.run.revision}"
    return "its turn in the rolling restart"


def _give_up(view: View, current: Mapping[int, Instance]) -> list[Action]:
    """End the run when not one of its ordinals is left to try."""
    if view.run.desired in _STOPPING or not view.ordinals:
        return []
    if any(not instance.has_ended for instance in current.values()):
        return []
    if not all(ordinal in current and _is_given_up(view, ordinal) for ordinal in range(view.ordinals)):
        return []
    last = max(current.values(), key=lambda instance: instance.since)
    return [
        FailRun(
            reason=f"every instance was given up, instance {last.ordinal} after lease {last.lease}: "
            f"{last.reason or 'no reason known'}"
        )
    ]


def _advance(instance: Instance, to: InstanceState, reason: str | None) -> Advance:
    return Advance(ordinal=instance.ordinal, lease=instance.lease, to=to, reason=reason)


def _unreachable(instance: Instance, reason: str) -> list[Action]:
    if instance.state is _S.UNREACHABLE and instance.reason == reason:
        return []
    return [_advance(instance, _S.UNREACHABLE, reason)]


def _end_as_lost(instance: Instance, reason: str) -> list[Action]:
    """LOST is entered from UNREACHABLE only, so that a page shows what is feared before it is acted on."""
    if instance.state is not _S.UNREACHABLE:
        return [_advance(instance, _S.UNREACHABLE, reason)]
    return [_advance(instance, _S.LOST, reason)]


def _not_missing(instance: Instance) -> list[Action]:
    if instance.missing_since is None:
        return []
    return [MarkMissing(ordinal=instance.ordinal, lease=instance.lease, since=None)]


def _last_words(seen: Observation) -> str:
    """The last line of the driver's log that tells of an error, else the last of all: scripts name no level.

    A killed driver leaves neither, its log breaks off after a routine line.
    """
    lines = [line.strip() for line in seen.log_tail.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line for word in _TROUBLE)]
    if not telling and lines and not any(word in lines[-1] for word in _ROUTINE):
        telling = lines
    if not telling:
        return "its driver ended without a word: it was killed, by hand or for want of memory"
    return f"its driver ended without saying how; its log says: {telling[-1][:300]}"
