"""Watches the one stage of an application until it ends, and decides the ending of the instance."""

from __future__ import annotations

import logging
import signal
import time
from types import FrameType

import msgspec

from app.core.wire.heartbeat import DesiredTaskState, OutcomeKind
from app.core.wire.specification import InstanceSpecification
from workers import versions
from workers.loop.control import TaskEnd, TaskResult
from workers.spark.application import Application, Slots, attempt_number
from workers.spark.attempts import VerdictKind
from workers.spark.coordination import CoordinationServer
from workers.spark.driver_reporting import DriverReporter
from workers.spark.gone import GoneBook
from workers.spark.spark_errors import SparkGoneError, first_line, not_taken
from workers.spark.tasks import Luggage, pack, run_partition

log = logging.getLogger(__name__)


class DriverBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the driver's waits.

    no_executors_s: without any executor, after there has been one: a restarted master may have lost this application.
    drain_s: from the request to drain to the end of the stage; transactions that are then open are aborted when the
        context stops.
    successor_s: for the server's answer when a task was superseded by an attempt that this driver does not know.
    unreached_attempts: attempts that failed before they reached our code, until the instance ends.
    """

    look_every_s: float = 1.0
    specification_s: float = 120.0
    claim_s: float = 600.0
    no_executors_s: float = 60.0
    drain_s: float = 60.0
    drain_without_executors_s: float = 5.0
    drain_idle_s: float = 10.0
    successor_s: float = 15.0
    stop_s: float = 15.0
    outcome_s: float = 10.0
    unreached_attempts: int = 20


class DriverEnding(msgspec.Struct, frozen=True, kw_only=True):
    kind: OutcomeKind
    message: str


class SignalFlag:
    """Records SIGTERM; from then on the instance drains (rule 9 without a server)."""

    def __init__(self) -> None:
        self.is_set = False

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


class ExecutorPresence:
    """For how long an application has had no executor."""

    def __init__(self) -> None:
        self.had_any = False
        self._seen_at = time.monotonic()

    def note(self, slots: Slots) -> None:
        if slots.executors > 0:
            self.had_any = True
            self._seen_at = time.monotonic()

    def without_s(self) -> float:
        """Seconds since an executor was there, or since the start."""
        return time.monotonic() - self._seen_at


class StageWatch:
    """Watches the stage until it ends, and decides the ending."""

    def __init__(
        self,
        application: Application,
        specification: InstanceSpecification,
        reporter: DriverReporter,
        coordination: CoordinationServer,
        sigterm: SignalFlag,
        bounds: DriverBounds,
    ) -> None:
        self._application = application
        self._specification = specification
        self._reporter = reporter
        self._coordination = coordination
        self._sigterm = sigterm
        self._bounds = bounds
        self._ending: DriverEnding | None = None
        self._draining_since: float | None = None
        self._superseded_since: float | None = None
        self._executors = ExecutorPresence()
        self._active_at = time.monotonic()
        self._slots_at = float("-inf")
        self._attempts_failed = 0
        self._gone = GoneBook()

    def run(self) -> DriverEnding:
        """Run the stage to its end. The main thread wakes five times a second, or Python would not see signals."""
        specification = self._specification
        self._application.run_stage(len(specification.tasks), run_partition(self._luggage(), attempt_number))
        while not self._application.wait(0.2):
            try:
                slots = self._look()
            except SparkGoneError as error:
                return self._ending or self._failed(error, str(error))
            if slots is not None:
                self._judge_slots(slots)
            self._judge_wishes()
            if (early := self._give_up_waiting()) is not None:
                return early
        return self._judge_results()

    def _luggage(self) -> bytes:
        return pack(
            Luggage(
                versions=versions.of_this_process(),
                specification=self._specification,
                driver_host=self._application.driver_host,
                driver_port=self._coordination.port,
                driver_secret=self._coordination.secret,
            )
        )

    def _look(self) -> Slots | None:
        """Count slots once a second; None in between."""
        now = time.monotonic()
        if now - self._slots_at < self._bounds.look_every_s:
            return None
        self._slots_at = now
        slots = self._application.slots()
        if slots.attempts_failed != self._attempts_failed:
            self._gone.note(self._application.failed_attempts(), now_s=now)
            self._attempts_failed = slots.attempts_failed
        self._reporter.publish(slots, self._gone.told(now_s=now), tasks_crashing=self._coordination.crashing_tasks())
        self._executors.note(slots)
        return slots

    def _judge_slots(self, slots: Slots) -> None:
        unreached = slots.attempts_failed - self._coordination.attempts_begun()
        if self._ending is None and unreached >= self._bounds.unreached_attempts:
            self._end(
                OutcomeKind.FAILED,
                f"{unreached} attempts failed before Fenceline's code began: {self._application.last_failure()}",
            )

    def _judge_wishes(self) -> None:
        if self._sigterm.is_set:
            self._end(OutcomeKind.DRAINED, "drained on SIGTERM")
        elif self._reporter.is_current is False:
            self._end(OutcomeKind.SUPERSEDED, "the server reports another lease of this ordinal as current")
        elif self._coordination.desired is DesiredTaskState.DRAIN:
            self._end(OutcomeKind.DRAINED, "drained as the server asked")
        verdict = self._coordination.verdict()
        if verdict is None or self._ending is not None:
            return
        if verdict.kind is VerdictKind.SUPERSEDED:
            self._judge_superseded(verdict.message)
        else:
            self._end(OutcomeKind(verdict.kind), verdict.message)

    def _judge_superseded(self, message: str) -> None:
        """A task was fenced by an attempt that this driver did not start. Only the server knows of a successor."""
        now = time.monotonic()
        self._superseded_since = self._superseded_since or now
        if self._reporter.is_current is True:
            # Our lease is the current one, so the fencing client is no successor: its partitions need a new owner.
            self._end(OutcomeKind.FAILED, f"{message}; but this lease is the current one, so no successor lives")
        elif now - self._superseded_since > self._bounds.successor_s:
            self._end(OutcomeKind.SUPERSEDED, f"{message}; the server could not be asked for a successor")

    def _end(self, kind: OutcomeKind, message: str) -> None:
        """Decide the ending, once, and have the tasks drain."""
        if self._ending is None:
            log.info("ending: %s, %s", kind, message)
            self._ending = DriverEnding(kind=kind, message=message)
            self._draining_since = time.monotonic()
        self._coordination.want(DesiredTaskState.DRAIN)

    def _give_up_waiting(self) -> DriverEnding | None:
        now = time.monotonic()
        without_s = self._executors.without_s()
        if self._ending is None:
            if self._executors.had_any and without_s > self._bounds.no_executors_s:
                return DriverEnding(
                    kind=OutcomeKind.NO_EXECUTORS, message=f"the application has had no executor for {without_s:.0f} s"
                )
            return None
        draining_s = now - (self._draining_since or now)
        if self._coordination.active_attempts():
            self._active_at = now
        if min(now - self._active_at, draining_s) > self._bounds.drain_idle_s:
            # Attempts that Spark still starts do not reach our code, or have nothing to do any more.
            return self._ending
        if min(without_s, draining_s) > self._bounds.drain_without_executors_s:
            return msgspec.structs.replace(
                self._ending, message=f"{self._ending.message}; no executor was left to drain"
            )
        if draining_s > self._bounds.drain_s:
            return msgspec.structs.replace(
                self._ending, message=f"{self._ending.message}; not all tasks ended within {draining_s:.0f} s"
            )
        return None

    def _judge_results(self) -> DriverEnding:
        try:
            results = [msgspec.json.decode(raw, type=TaskResult) for raw in self._application.results()]
        except Exception as error:  # noqa: BLE001 - any error that ends the stage is the instance's outcome
            return self._ending or self._failed(error, f"Spark ended the stage: {first_line(error)}")
        if self._ending is not None:
            return self._ending
        superseded = [result for result in results if result.end is TaskEnd.SUPERSEDED]
        if not superseded:
            # Each task was drained by the server itself, before this driver received it.
            return DriverEnding(kind=OutcomeKind.DRAINED, message="drained as the server asked")
        return self._ending_of_superseded(f"{len(superseded)} of {len(results)} tasks were superseded")

    def _failed(self, error: Exception, message: str) -> DriverEnding:
        """The application is over without our request; if nothing of it ever ran, its master may be the reason."""
        if not self._executors.had_any and not self._coordination.attempts_begun():
            message = not_taken(self._specification.definition.spark.master, error) or message
        return DriverEnding(kind=OutcomeKind.FAILED, message=message)

    def _ending_of_superseded(self, message: str) -> DriverEnding:
        """The stage ended by itself with superseded tasks: no success until a successor is known."""
        deadline = time.monotonic() + self._bounds.successor_s
        while self._reporter.is_current is None and time.monotonic() < deadline and not self._sigterm.is_set:
            time.sleep(0.1)
        if self._reporter.is_current is True:
            return DriverEnding(
                kind=OutcomeKind.FAILED, message=f"{message}, but this lease is the current one, so no successor lives"
            )
        return DriverEnding(kind=OutcomeKind.SUPERSEDED, message=message)
