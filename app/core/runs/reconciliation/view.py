"""The input of one turn of the reconciler."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from app.core.runs.instance import Instance
from app.core.runs.observation import Observation
from app.core.runs.run import DesiredRunState, Run, is_outdated
from app.kit.back_off import BackOff


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The waits of the reconciler.

    heartbeat_timeout: the time without a heartbeat after which an instance is checked closely.
    lost_after: how long it must be without heartbeat, process and entry in the cluster manager before LOST.
    ended_after: the same if the cluster manager reports the application's end. The executors of a killed driver live on
        for a moment.
    submit_grace: how long after SUBMITTING was written its process may still be about to start.
    drain_signal_after: how long a DRAINING instance may take until its driver gets SIGTERM; 0 without heartbeats.
    drain_kill_after: how long after that SIGTERM it is killed. It covers the driver's own bounds to drain, to stop
        Spark and to report its end (workers/spark/watch.py), with a margin.
    kill_again_after: a server may have died between the row that says "killed" and the signal, so it is sent again.
    healthy_after: a lease that ran for this long resets the failures before it.
    back_off: the wait before a failed ordinal is submitted again; it is restarted for ever.
    """

    heartbeat_timeout: timedelta = timedelta(seconds=10)
    lost_after: timedelta = timedelta(seconds=30)
    ended_after: timedelta = timedelta(seconds=2)
    submit_grace: timedelta = timedelta(seconds=15)
    drain_signal_after: timedelta = timedelta(seconds=15)
    drain_kill_after: timedelta = timedelta(seconds=120)
    kill_again_after: timedelta = timedelta(seconds=10)
    healthy_after: timedelta = timedelta(seconds=60)
    back_off: BackOff = BackOff(1.0, 300.0)

    def wait_after(self, failures: int) -> timedelta:
        """Return the wait of an ordinal after so many failures in a row."""
        return timedelta(seconds=self.back_off.wait_s(failures))


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the reconciler sees it in one turn.

    ordinals: the number of instances in the run's revision.
    observations: of the current leases that may have an application, by ordinal.
    listening_since: since when this server can receive heartbeats; the time without them counts from here.
    uploads: the additional time of a drain for its files, as the driver has it (workers/spark/driver.py).
    """

    run: Run
    ordinals: int
    observations: Mapping[int, Observation]
    now: datetime
    listening_since: datetime
    may_start: bool
    uploads: timedelta = timedelta(0)
    timing: Timing = Timing()

    def past(self, at: datetime | None) -> datetime | None:
        """Return `at`, at the latest now; None if only a clock that has jumped back since can have written it.

        Another server's clock may be ahead of this one by less than the heartbeat timeout.
        """
        if at is None or at > self.now + self.timing.heartbeat_timeout:
            return None
        return min(at, self.now)

    def silence(self, instance: Instance) -> timedelta:
        """Return the time without a heartbeat of the instance while this server could receive one."""
        words = (instance.last_heartbeat_at, instance.claimed_at, instance.submitted_at)
        heard = [at for at in map(self.past, words) if at is not None]
        return self.now - max([self.listening_since, *heard])

    def is_silent(self, instance: Instance) -> bool:
        return self.silence(instance) > self.timing.heartbeat_timeout

    @property
    def is_stopping(self) -> bool:
        """Return whether the run is to end, by a drain or a kill."""
        return self.run.desired in (DesiredRunState.DRAIN, DesiredRunState.KILL)

    def is_outdated(self, instance: Instance) -> bool:
        return is_outdated(
            instance, revision=self.run.target_of(instance.ordinal), bounce_requested_at=self.run.bounce_requested_at
        )
