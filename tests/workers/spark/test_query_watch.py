"""The driver's treatment of its query: drain, pause, and the outcome of each end. The query is played."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import cast

import pytest

from app.core.runs.task import TaskState
from app.core.wire.heartbeat import DesiredTaskState, OutcomeKind
from app.products.dataframes.wire import BatchProgress, QueryState
from tests.support.waiting import wait_for
from workers.spark.application import Slots
from workers.spark.driver_reporting import DriverReporter
from workers.spark.query_failure import FailureKind, PlanError, QueryFailedError
from workers.spark.query_progress import Progress, decode
from workers.spark.query_reporting import BatchReporter, WriterReports
from workers.spark.query_watch import Desired, Query, QueryWatch
from workers.spark.spark_errors import SparkGoneError
from workers.spark.watch import DriverBounds, DriverEnding, SignalFlag

BOUNDS = DriverBounds(
    look_every_s=0.05, no_executors_s=0.4, drain_s=1.0, drain_without_executors_s=0.3, successor_s=0.4
)


class PlayedQuery:
    """A query whose batch goes on until the test ends it."""

    id = "q"

    def __init__(self) -> None:
        self.ended_by: QueryFailedError | None = None
        self.is_over = False
        self.is_active = True
        self.waits_at_hold = False
        self.is_held = False
        self.was_active_at_stop: bool | None = None
        self.is_gone = False
        self.progress: list[Progress] = []

    def has_ended(self) -> bool:
        if self.is_gone:
            raise SparkGoneError("Spark's driver JVM does not answer")
        return self.is_over

    def failure(self) -> QueryFailedError | None:
        return self.ended_by

    def hold(self, *, is_held: bool) -> None:
        self.is_held = is_held

    def is_holding(self) -> bool:
        return self.is_held and self.waits_at_hold

    def is_trigger_active(self) -> bool:
        return self.is_active and not self.is_over

    def stop(self) -> None:
        self.was_active_at_stop = self.is_trigger_active() and not self.is_holding()
        self.is_over = True

    def new_progress(self) -> list[Progress]:
        found, self.progress = self.progress, []
        return found

    def fail(self, kind: FailureKind, message: str) -> None:
        self.ended_by = QueryFailedError(kind, message)
        self.is_over = True


class PlayedReports:
    """What writers and batches would report."""

    def __init__(self) -> None:
        self.tasks: list[TaskState] = []
        self.states: list[QueryState] = []
        self.batches: list[int] = []
        self.failed_by = ""

    def start(self) -> None: ...
    def close(self) -> None: ...


class PlayedWriters(PlayedReports):
    def publish(self, state: TaskState, batches: list[Progress] | None = None) -> None:
        self.tasks.append(state)

    def failed(self, message: str) -> None:
        self.failed_by = message


class PlayedBatches(PlayedReports):
    def publish(self, query_id: str, state: QueryState, batches: list[BatchProgress]) -> None:
        self.states.append(state)
        self.batches += [batch.batch for batch in batches]


class PlayedServer:
    def __init__(self) -> None:
        self.is_current: bool | None = True

    def publish(self, slots: Slots) -> None: ...


class Watched:
    """A watch in a thread of its own."""

    def __init__(
        self, *, error: Exception | None = None, initial: DesiredTaskState = DesiredTaskState.RUN, blocks: bool = False
    ) -> None:
        self.query = PlayedQuery()
        self.writers = PlayedWriters()
        self.batches = PlayedBatches()
        self.server = PlayedServer()
        self.desired = Desired(initial)
        self.sigterm = SignalFlag()
        self.executors = 1
        self.may_start = threading.Event()
        self.was_held_at_start: bool | None = None
        self._error = error
        self._ending: DriverEnding | None = None
        if not blocks:
            self.may_start.set()
        self.watch = QueryWatch(
            self._start,
            slots=lambda: Slots(executors=self.executors, tasks_running=0, tasks_waiting=0),
            reporter=cast(DriverReporter, self.server),
            writers=cast(WriterReports, self.writers),
            batches=cast(BatchReporter, self.batches),
            desired=self.desired,
            sigterm=self.sigterm,
            bounds=BOUNDS,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _start(self, is_held: bool) -> Query:
        self.may_start.wait(10)
        self.was_held_at_start = self.query.is_held = is_held
        if self._error is not None:
            raise self._error
        return self.query

    def _run(self) -> None:
        self._ending = self.watch.run()

    def ending(self) -> DriverEnding:
        self._thread.join(10)
        assert self._ending is not None, "the watch goes on"
        return self._ending

    def goes_on(self) -> bool:
        self._thread.join(0.6)
        return self._ending is None

    def wait_for_state(self, state: QueryState) -> None:
        wait_for(lambda: self.batches.states[-1:] == [state], 5, lambda: f"{state}; {self.batches.states[-1:]}")


@pytest.fixture
def watched() -> Generator[Watched]:
    made = Watched()
    yield made
    made.query.is_over = True
    made.ending()


def test_a_kill_waits_for_a_batch_and_not_for_ever(watched: Watched) -> None:
    watched.query.is_active = False
    watched.wait_for_state(QueryState.WAITING)
    begun = time.monotonic()
    watched.watch.wait_for_batch(0.1)
    assert 0.1 <= time.monotonic() - begun < 1
    threading.Timer(0.1, lambda: setattr(watched.query, "is_active", True)).start()
    watched.watch.wait_for_batch(10)
    assert time.monotonic() - begun < 5


def test_a_drain_lets_the_batch_end_and_stops_before_the_next_one(watched: Watched) -> None:
    watched.wait_for_state(QueryState.RUNNING)
    watched.sigterm.is_set = True
    wait_for(lambda: watched.query.is_held, 5, "the hold")
    assert not watched.query.is_over
    assert watched.writers.tasks[-1] is TaskState.DRAINING
    watched.query.waits_at_hold = True
    assert watched.ending() == DriverEnding(kind=OutcomeKind.DRAINED, message="drained on SIGTERM")
    assert watched.query.was_active_at_stop is False
    assert watched.writers.tasks[-1] is TaskState.DRAINED


def test_a_drain_while_no_batch_runs_stops_at_once(watched: Watched) -> None:
    watched.query.is_active = False
    watched.desired.want(DesiredTaskState.DRAIN)
    assert watched.ending().message == "drained as the server asked"


def test_a_drain_is_bounded_and_says_that_the_batch_was_aborted(watched: Watched) -> None:
    watched.sigterm.is_set = True
    ending = watched.ending()
    assert ending.kind is OutcomeKind.DRAINED
    assert "the batch did not end within 1 s and was aborted" in ending.message
    assert watched.query.was_active_at_stop is True


def test_batches_that_end_during_a_drain_are_reported(watched: Watched) -> None:
    watched.wait_for_state(QueryState.RUNNING)
    watched.sigterm.is_set = True
    wait_for(lambda: watched.query.is_held, 5, "the hold")
    watched.query.progress = [decode('{"batchId": 7, "timestamp": "2026-01-01T00:00:00.000Z"}')]
    watched.query.is_active = False
    watched.ending()
    assert watched.batches.batches == [7]


def test_a_batch_that_fails_during_a_drain_is_the_outcome(watched: Watched) -> None:
    watched.wait_for_state(QueryState.RUNNING)
    watched.sigterm.is_set = True
    wait_for(lambda: watched.query.is_held, 5, "the hold")
    watched.query.fail(FailureKind.ERROR, "the value of t-0@1 does not fit")
    ending = watched.ending()
    assert ending == DriverEnding(kind=OutcomeKind.FAILED, message="the value of t-0@1 does not fit")


def test_a_pause_holds_the_next_batch_and_run_goes_on(watched: Watched) -> None:
    watched.wait_for_state(QueryState.RUNNING)
    watched.desired.want(DesiredTaskState.PAUSE)
    wait_for(lambda: watched.query.is_held, 5, "the hold")
    assert watched.writers.tasks[-1] is TaskState.RUNNING, "its batch goes on"
    watched.query.waits_at_hold = True
    watched.wait_for_state(QueryState.HELD)
    assert watched.writers.tasks[-1] is TaskState.PAUSED
    watched.desired.want(DesiredTaskState.RUN)
    watched.wait_for_state(QueryState.RUNNING)
    assert not watched.query.is_held
    assert not watched.query.is_over


def test_a_query_that_starts_paused_is_held_before_its_first_batch() -> None:
    paused = Watched(initial=DesiredTaskState.PAUSE)
    paused.query.is_active = False
    paused.wait_for_state(QueryState.HELD)
    assert paused.was_held_at_start is True
    paused.sigterm.is_set = True
    assert paused.ending().kind is OutcomeKind.DRAINED


def test_a_server_that_is_away_changes_nothing(watched: Watched) -> None:
    watched.server.is_current = None
    assert watched.goes_on()


def test_a_driver_that_is_not_current_is_superseded(watched: Watched) -> None:
    watched.query.is_active = False
    watched.server.is_current = False
    assert watched.ending().kind is OutcomeKind.SUPERSEDED
    assert watched.writers.tasks[-1] is TaskState.SUPERSEDED


def test_a_refusal_of_the_sink_is_a_permanent_error(watched: Watched) -> None:
    watched.query.fail(FailureKind.REFUSAL, "a row has no topic.")
    assert watched.ending() == DriverEnding(kind=OutcomeKind.HOPELESS, message="a row has no topic.")
    assert watched.writers.failed_by == "a row has no topic."


def test_an_error_of_the_query_has_failed(watched: Watched) -> None:
    watched.query.fail(FailureKind.ERROR, "the value of t-0@1 does not fit")
    assert watched.ending().kind is OutcomeKind.FAILED


def test_a_lost_claim_is_superseded_if_the_server_says_so(watched: Watched) -> None:
    watched.wait_for_state(QueryState.RUNNING)
    watched.query.fail(FailureKind.TAKEOVER, "a newer driver has taken over p.")
    wait_for(lambda: watched.writers.tasks[-1] is TaskState.FENCED, 5, "the question")
    watched.server.is_current = False
    assert watched.ending() == DriverEnding(kind=OutcomeKind.SUPERSEDED, message="a newer driver has taken over p.")


@pytest.mark.parametrize("is_current", [True, None])
def test_a_lost_claim_has_failed_where_no_successor_is_known(watched: Watched, is_current: bool | None) -> None:
    watched.server.is_current = is_current
    watched.query.fail(FailureKind.TAKEOVER, "a newer driver has taken over p.")
    assert watched.ending().kind is OutcomeKind.FAILED


def test_without_executors_for_too_long_it_ends(watched: Watched) -> None:
    watched.wait_for_state(QueryState.RUNNING)
    watched.executors = 0
    assert watched.ending().kind is OutcomeKind.NO_EXECUTORS
    assert watched.query.is_over


def test_a_jvm_that_is_gone_has_failed(watched: Watched) -> None:
    watched.query.is_gone = True
    assert watched.ending().kind is OutcomeKind.FAILED
    watched.query.is_gone = False


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PlanError("transform.sql", "`nope` cannot be resolved."), OutcomeKind.HOPELESS),
        (QueryFailedError(FailureKind.REFUSAL, "topic t does not exist."), OutcomeKind.HOPELESS),
        (QueryFailedError(FailureKind.ERROR, "no broker answered in 15 s."), OutcomeKind.FAILED),
        (RuntimeError("no memory"), OutcomeKind.FAILED),
    ],
)
def test_a_start_that_fails_is_its_outcome(error: Exception, kind: OutcomeKind) -> None:
    ending = Watched(error=error).ending()
    assert ending.kind is kind
    assert str(error) in ending.message


def test_a_drain_during_the_start_is_done_when_the_query_is_there() -> None:
    blocked = Watched(blocks=True)
    wait_for(lambda: blocked.writers.tasks[-1:] == [TaskState.STARTING], 5, "its start")
    blocked.sigterm.is_set = True
    wait_for(lambda: blocked.writers.tasks[-1:] == [TaskState.DRAINING], 5, "the drain")
    blocked.query.is_active = False
    blocked.may_start.set()
    assert blocked.ending() == DriverEnding(kind=OutcomeKind.DRAINED, message="drained on SIGTERM")
    assert blocked.query.is_over
