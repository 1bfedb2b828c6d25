"""Watches the streaming query of an application until it ends, and decides the ending of the instance."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from app.core.runs.task import TaskState
from app.core.wire.heartbeat import DesiredTaskState, OutcomeKind
from app.products.dataframes.wire import QueryState
from workers.spark.application import Slots
from workers.spark.driver_reporting import DriverReporter
from workers.spark.failures import is_hopeless
from workers.spark.query_failure import FailureKind, PlanError, QueryFailedError
from workers.spark.query_progress import Progress
from workers.spark.query_reporting import BatchReporter, WriterReports
from workers.spark.spark_errors import SparkGoneError, first_line
from workers.spark.watch import DriverBounds, DriverEnding, ExecutorPresence, SignalFlag

log = logging.getLogger(__name__)


class Desired:
    """The newest desired state; DRAIN is final."""

    def __init__(self, initial: DesiredTaskState) -> None:
        self.state = initial

    def want(self, desired: DesiredTaskState) -> None:
        if self.state is not DesiredTaskState.DRAIN:
            self.state = desired


class Query(Protocol):
    """The started query (workers/spark/query.py)."""

    @property
    def id(self) -> str: ...
    def has_ended(self) -> bool: ...
    def failure(self) -> QueryFailedError | None: ...
    def hold(self, *, is_held: bool) -> None: ...
    def is_holding(self) -> bool: ...
    def is_trigger_active(self) -> bool: ...
    def stop(self) -> None: ...
    def new_progress(self) -> list[Progress]: ...


class Starting:
    """The start of the query in a thread of its own: it blocks, and the main thread has signals and heartbeats."""

    def __init__(self, start: Callable[[], Query]) -> None:
        self._start = start
        self._query: Query | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fenceline-query-start", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def query(self) -> Query:
        """The started query; raises the error of its start. After `wait`."""
        if self._error is not None:
            raise self._error
        if self._query is None:
            raise RuntimeError("the query is not started yet")
        return self._query

    def _run(self) -> None:
        try:
            self._query = self._start()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it in `query`
            self._error = error


class QueryWatch:
    """Watches the query until it ends, and decides the ending.

    A drain holds the query, so that its batch ends with its commit and the next one writes nothing, then stops it.
    """

    def __init__(
        self,
        start: Callable[[bool], Query],
        *,
        slots: Callable[[], Slots],
        reporter: DriverReporter,
        writers: WriterReports,
        batches: BatchReporter,
        desired: Desired,
        sigterm: SignalFlag,
        bounds: DriverBounds,
    ) -> None:
        """start: starts the query, held before its first batch if the argument is true."""
        self._start = start
        self._slots = slots
        self._reporter = reporter
        self._writers = writers
        self._batches = batches
        self._desired = desired
        self._sigterm = sigterm
        self._bounds = bounds
        self._query: Query | None = None
        self._ending: DriverEnding | None = None
        self._draining_since = 0.0
        self._is_held = desired.state is DesiredTaskState.PAUSE
        self._executors = ExecutorPresence()
        self._looked_at = float("-inf")

    def run(self) -> DriverEnding:
        """Run the query to its end. The main thread wakes five times a second, or Python would not see signals."""
        self._writers.start()
        self._batches.start()
        try:
            ending = self._run()
        except SparkGoneError as error:
            ending = self._ending or DriverEnding(kind=OutcomeKind.FAILED, message=str(error))
        self._tell_end(ending)
        self._batches.close()
        self._writers.close()
        return ending

    def wait_for_batch(self, timeout_s: float) -> None:
        """Return as soon as a batch is running, or after `timeout_s`. Called by another thread."""
        deadline = time.monotonic() + timeout_s
        with suppress(SparkGoneError):
            while time.monotonic() < deadline and not (self._query is not None and self._query.is_trigger_active()):
                time.sleep(0.01)

    def _run(self) -> DriverEnding:
        starting = Starting(lambda: self._start(self._is_held))
        while not starting.wait(0.2):
            self._look()
            self._judge_wishes()
            self._writers.publish(TaskState.DRAINING if self._ending else TaskState.STARTING)
            if self._ending is not None and self._draining_s() > self._bounds.drain_s:
                return self._not_in_time(self._ending)
        try:
            query = starting.query()
        except Exception as error:
            log.exception("the query could not start")
            return self._ending or self._ending_of_start(error)
        self._query = query
        log.info("query %s has started", query.id)
        while not query.has_ended():
            self._look()
            self._judge_wishes()
            self._publish(query)
            if self._ending is not None:
                return self._drain(query, self._ending)
            if self._executors.had_any and self._executors.without_s() > self._bounds.no_executors_s:
                return self._without_executors(query)
            self._hold(query, is_held=self._desired.state is DesiredTaskState.PAUSE)
            time.sleep(0.2)
        self._publish(query)
        failure = query.failure()
        if failure is None:
            return DriverEnding(kind=OutcomeKind.FAILED, message="the query was stopped by another program")
        return self._ending_of(failure)

    def _drain(self, query: Query, ending: DriverEnding) -> DriverEnding:
        self._hold(query, is_held=True)
        while query.is_trigger_active() and not query.is_holding() and not query.has_ended():
            self._look()
            self._publish(query)
            if self._draining_s() > self._bounds.drain_s:
                ending = self._not_in_time(ending)
                break
            if self._executors.without_s() > self._bounds.drain_without_executors_s:
                ending = msgspec.structs.replace(ending, message=f"{ending.message}; no executor was left to drain")
                break
            time.sleep(0.1)
        failure = query.failure() if query.has_ended() else None
        query.stop()
        self._publish(query)
        if failure is not None and ending.kind is OutcomeKind.DRAINED:
            return self._ending_of(failure)
        return ending

    def _hold(self, query: Query, *, is_held: bool) -> None:
        if is_held is not self._is_held:
            query.hold(is_held=is_held)
            self._is_held = is_held

    def _judge_wishes(self) -> None:
        if self._sigterm.is_set:
            self._end(OutcomeKind.DRAINED, "drained on SIGTERM")
        elif self._reporter.is_current is False:
            self._end(OutcomeKind.SUPERSEDED, "the server reports another lease of this ordinal as current")
        elif self._desired.state is DesiredTaskState.DRAIN:
            self._end(OutcomeKind.DRAINED, "drained as the server asked")

    def _end(self, kind: OutcomeKind, message: str) -> None:
        """Decide the ending, once."""
        if self._ending is None:
            log.info("ending: %s, %s", kind, message)
            self._ending = DriverEnding(kind=kind, message=message)
            self._draining_since = time.monotonic()

    def _draining_s(self) -> float:
        return time.monotonic() - self._draining_since

    def _not_in_time(self, ending: DriverEnding) -> DriverEnding:
        message = f"{ending.message}; the batch did not end within {self._bounds.drain_s:.0f} s and was aborted"
        return msgspec.structs.replace(ending, message=message)

    def _without_executors(self, query: Query) -> DriverEnding:
        without_s = self._executors.without_s()
        query.stop()
        message = f"the application has had no executor for {without_s:.0f} s"
        return DriverEnding(kind=OutcomeKind.NO_EXECUTORS, message=message)

    def _ending_of_start(self, error: BaseException) -> DriverEnding:
        if isinstance(error, QueryFailedError):
            return self._ending_of(error)
        if isinstance(error, PlanError) or (isinstance(error, Exception) and is_hopeless(error)):
            return DriverEnding(kind=OutcomeKind.HOPELESS, message=str(error))
        return DriverEnding(kind=OutcomeKind.FAILED, message=f"the query could not start: {first_line(error)}")

    def _ending_of(self, failure: QueryFailedError) -> DriverEnding:
        if failure.kind is FailureKind.REFUSAL:
            return DriverEnding(kind=OutcomeKind.HOPELESS, message=failure.message)
        if failure.kind is FailureKind.TAKEOVER:
            return self._ending_of_takeover(failure.message)
        return DriverEnding(kind=OutcomeKind.FAILED, message=failure.message)

    def _ending_of_takeover(self, message: str) -> DriverEnding:
        """Another driver has the claim. Only the server knows if it is a successor."""
        deadline = time.monotonic() + self._bounds.successor_s
        while self._reporter.is_current is not False and time.monotonic() < deadline and not self._sigterm.is_set:
            self._writers.publish(TaskState.FENCED)
            time.sleep(0.1)
        if self._reporter.is_current is False:
            return DriverEnding(kind=OutcomeKind.SUPERSEDED, message=message)
        return DriverEnding(
            kind=OutcomeKind.FAILED, message=f"{message} The server reports no other lease of this ordinal as current."
        )

    def _look(self) -> None:
        """Count slots once a second."""
        now = time.monotonic()
        if now - self._looked_at >= self._bounds.look_every_s:
            self._looked_at = now
            slots = self._slots()
            self._reporter.publish(slots)
            self._executors.note(slots)

    def _publish(self, query: Query) -> None:
        ended = query.new_progress()
        is_active = query.is_trigger_active()
        is_holding = self._is_held and (not is_active or query.is_holding())
        state = QueryState.RUNNING if is_active else QueryState.WAITING
        task = TaskState.RUNNING
        if is_holding:
            state, task = QueryState.HELD, TaskState.PAUSED
        if self._ending is not None:
            task = TaskState.DRAINING
        self._batches.publish(query.id, state, [batch.to_wire() for batch in ended])
        self._writers.publish(task, ended)

    def _tell_end(self, ending: DriverEnding) -> None:
        match ending.kind:
            case OutcomeKind.DRAINED:
                self._writers.publish(TaskState.DRAINED)
            case OutcomeKind.SUPERSEDED:
                self._writers.publish(TaskState.SUPERSEDED)
            case _:
                self._writers.failed(ending.message)
