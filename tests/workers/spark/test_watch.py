"""The driver's treatment of its stage: the end of a stage, and its outcome.

The stage is played here, so that minutes pass in moments; the same on real Spark is in tests/spark and tests/faults.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from typing import Any, cast

import msgspec
import pytest

from app.core.pipelines.pipeline import FileSink, PipelineDefinition, SparkSettings
from app.core.wire.heartbeat import Counters, DesiredTaskState, GoneAttempt, GoneBy, OutcomeKind
from app.core.wire.specification import InstanceSpecification, TaskIdentity
from tests.support.definitions import a_definition
from tests.support.java_errors import SHUT_DOWN, JavaError
from tests.support.waiting import wait_for
from workers.loop.control import TaskEnd, TaskResult
from workers.spark.application import Application, Slots
from workers.spark.coordination import CoordinationServer
from workers.spark.driver import for_definition
from workers.spark.driver_reporting import DriverReporter
from workers.spark.gone import FailedAttempt
from workers.spark.messages import BEGIN_PATH, END_PATH, AttemptEnd, AttemptEnded, Begun
from workers.spark.spark_errors import SparkGoneError
from workers.spark.watch import DriverBounds, DriverEnding, SignalFlag, StageWatch

SPECIFICATION = InstanceSpecification(
    fenceline_version="1",
    pipeline="p",
    revision=1,
    run_id="r",
    ordinal=0,
    lease=1,
    database_epoch="e",
    definition=PipelineDefinition(cluster="c", source_topics=("in",), group_id="g", sink_topic="out"),
    client_config={},
    tasks=(TaskIdentity(task=0, transactional_id="a"), TaskIdentity(task=1, transactional_id="b")),
)
BOUNDS = DriverBounds(
    look_every_s=0.05,
    no_executors_s=0.4,
    drain_s=1.5,
    drain_without_executors_s=0.4,
    drain_idle_s=0.6,
    successor_s=0.4,
    unreached_attempts=3,
)


class PlayedApplication:
    """A stage that runs until the test changes it."""

    driver_host = "127.0.0.1"

    def __init__(self) -> None:
        self.executors = 2
        self.attempts_failed = 0
        self.is_gone = False
        self.error: Exception | None = None
        self._ended = threading.Event()
        self._results: list[TaskResult] = []

    def run_stage(self, tasks: int, function: Callable[..., Any]) -> None:
        assert tasks == 2

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(min(timeout_s, 0.02))

    def results(self) -> list[bytes]:
        if self.error is not None:
            raise self.error
        return [msgspec.json.encode(result) for result in self._results]

    def slots(self) -> Slots:
        if self.is_gone:
            raise SparkGoneError("Spark's driver JVM does not answer any more")
        return Slots(executors=self.executors, tasks_running=2, tasks_waiting=0, attempts_failed=self.attempts_failed)

    def failed_attempts(self) -> list[FailedAttempt]:
        return [FailedAttempt(task=1, attempt=0, error="Python worker exited unexpectedly (crashed)\n\tat org.apache")]

    def last_failure(self) -> str:
        return "No module named 'msgspec'"

    def end_stage(self, *ends: TaskEnd) -> None:
        self._results = [TaskResult(end=end, message=end, counters=Counters()) for end in ends]
        self._ended.set()


class PlayedReporter:
    """The server's answer, set by the test."""

    def __init__(self) -> None:
        self.is_current: bool | None = True
        self.published: list[Slots] = []
        self.gone: tuple[GoneAttempt, ...] = ()
        self.tasks_crashing = 0

    def publish(self, slots: Slots, gone: tuple[GoneAttempt, ...] = (), *, tasks_crashing: int = 0) -> None:
        self.published.append(slots)
        self.gone = gone
        self.tasks_crashing = tasks_crashing


class Watched:
    """A watch in a thread of its own."""

    def __init__(self, *, executors: int = 2, master: str = "local", tasks_begin: bool = True) -> None:
        self.application = PlayedApplication()
        self.application.executors = executors
        self.reporter = PlayedReporter()
        self.coordination = CoordinationServer(host="127.0.0.1", tasks=2, desired=DesiredTaskState.RUN)
        self.coordination.start()
        self.sigterm = SignalFlag()
        self._ending: DriverEnding | None = None
        self._watch = StageWatch(
            cast(Application, self.application),
            msgspec.structs.replace(
                SPECIFICATION,
                definition=msgspec.structs.replace(SPECIFICATION.definition, spark=SparkSettings(master=master)),
            ),
            cast(DriverReporter, self.reporter),
            self.coordination,
            self.sigterm,
            BOUNDS,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        for task in (0, 1) if tasks_begin else ():
            self.tell(BEGIN_PATH, Begun(task=task, attempt=0, host="h", pid=1))

    def _run(self) -> None:
        self._ending = self._watch.run()

    def tell(self, path: str, message: msgspec.Struct) -> None:
        self.coordination.answer(path, msgspec.json.encode(message))

    def task_ends(self, task: int, end: AttemptEnd, message: str = "") -> None:
        self.tell(END_PATH, AttemptEnded(task=task, attempt=0, end=end, message=message))

    def ending(self) -> DriverEnding:
        self._thread.join(10)
        assert self._ending is not None, "the watch goes on"
        return self._ending

    def goes_on(self) -> bool:
        self._thread.join(0.8)
        return self._ending is None


@pytest.fixture
def watched() -> Generator[Watched]:
    made = Watched()
    yield made
    made.application.end_stage()
    made.ending()
    made.coordination.close()


def wait_for_drain(watched: Watched) -> None:
    wait_for(lambda: watched.coordination.desired is DesiredTaskState.DRAIN, 5, "the drain of the tasks")


def wait_until_published(watched: Watched, executors: int) -> None:
    published = watched.reporter.published
    wait_for(
        lambda: bool(published) and published[-1].executors == executors, 5, lambda: f"{executors}; {published[-1:]}"
    )


def test_an_attempt_that_spark_knows_to_be_gone_is_reported(watched: Watched) -> None:
    wait_until_published(watched, 2)
    assert watched.reporter.gone == ()
    watched.application.attempts_failed = 1
    told = (GoneAttempt(task=1, attempt=0, by=GoneBy.WORKER),)
    wait_for(lambda: watched.reporter.gone == told, 5, lambda: f"{told}; {watched.reporter.gone}")


def test_sigterm_drains_the_tasks_and_ends_as_drained(watched: Watched) -> None:
    watched.sigterm.is_set = True
    wait_for_drain(watched)
    watched.application.end_stage(TaskEnd.DRAINED, TaskEnd.DRAINED)
    assert watched.ending() == DriverEnding(kind=OutcomeKind.DRAINED, message="drained on SIGTERM")


def test_the_servers_drain_ends_as_drained(watched: Watched) -> None:
    watched.coordination.want(DesiredTaskState.DRAIN)
    watched.application.end_stage(TaskEnd.DRAINED, TaskEnd.DRAINED)
    assert watched.ending().kind is OutcomeKind.DRAINED


def test_tasks_that_got_the_drain_before_the_driver_end_as_drained(watched: Watched) -> None:
    watched.application.end_stage(TaskEnd.DRAINED, TaskEnd.DRAINED)
    assert watched.ending().kind is OutcomeKind.DRAINED


def test_a_driver_that_is_not_current_drains_and_is_superseded(watched: Watched) -> None:
    watched.reporter.is_current = False
    wait_for_drain(watched)
    watched.application.end_stage(TaskEnd.SUPERSEDED, TaskEnd.DRAINED)
    assert watched.ending().kind is OutcomeKind.SUPERSEDED


def test_superseded_tasks_of_the_current_lease_are_no_success(watched: Watched) -> None:
    watched.task_ends(0, AttemptEnd.SUPERSEDED)
    wait_for_drain(watched)
    watched.application.end_stage(TaskEnd.SUPERSEDED, TaskEnd.DRAINED)
    ending = watched.ending()
    assert ending.kind is OutcomeKind.FAILED
    assert "no successor lives" in ending.message


def test_a_stage_that_ended_as_superseded_under_the_current_lease_has_failed(watched: Watched) -> None:
    watched.application.end_stage(TaskEnd.SUPERSEDED, TaskEnd.SUPERSEDED)
    ending = watched.ending()
    assert ending.kind is OutcomeKind.FAILED
    assert "2 of 2 tasks were superseded" in ending.message


def test_superseded_tasks_with_a_server_that_cannot_be_asked_end_as_superseded(watched: Watched) -> None:
    watched.reporter.is_current = None
    watched.task_ends(0, AttemptEnd.SUPERSEDED)
    wait_for_drain(watched)
    watched.application.end_stage(TaskEnd.SUPERSEDED, TaskEnd.DRAINED)
    ending = watched.ending()
    assert ending.kind is OutcomeKind.SUPERSEDED
    assert "could not be asked" in ending.message


def test_a_permanent_error_of_a_task_drains_its_siblings_with_the_reason(watched: Watched) -> None:
    watched.task_ends(1, AttemptEnd.HOPELESS, "refused at in-0@17")
    wait_for_drain(watched)
    watched.application.end_stage(TaskEnd.DRAINED, TaskEnd.DRAINED)
    assert watched.ending() == DriverEnding(kind=OutcomeKind.HOPELESS, message="task 1: refused at in-0@17")


def test_without_executors_for_too_long_it_ends(watched: Watched) -> None:
    wait_until_published(watched, 2)
    watched.application.executors = 0
    assert watched.ending().kind is OutcomeKind.NO_EXECUTORS


def test_executors_that_come_back_in_time_are_waited_for(watched: Watched) -> None:
    wait_until_published(watched, 2)
    watched.application.executors = 0
    wait_until_published(watched, 0)
    watched.application.executors = 1
    assert watched.goes_on()


def test_a_drain_does_not_wait_for_executors_that_are_gone(watched: Watched) -> None:
    watched.sigterm.is_set = True
    watched.application.executors = 0
    ending = watched.ending()
    assert ending.kind is OutcomeKind.DRAINED
    assert "no executor was left" in ending.message


def test_a_drain_is_bounded_and_says_so(watched: Watched) -> None:
    watched.sigterm.is_set = True
    ending = watched.ending()
    assert ending.kind is OutcomeKind.DRAINED
    assert "not all tasks ended" in ending.message


def test_a_drain_does_not_wait_for_attempts_started_after_our_tasks_have_ended(watched: Watched) -> None:
    watched.sigterm.is_set = True
    for task in (0, 1):
        watched.task_ends(task, AttemptEnd.DRAINED)
    began = time.monotonic()
    assert watched.ending().message == "drained on SIGTERM"
    assert time.monotonic() - began < BOUNDS.drain_s


def test_attempts_that_never_reach_our_code_end_it_with_sparks_reason(watched: Watched) -> None:
    watched.application.attempts_failed = 2 + BOUNDS.unreached_attempts
    wait_for_drain(watched)
    watched.application.end_stage()
    ending = watched.ending()
    assert ending.kind is OutcomeKind.FAILED
    assert "No module named 'msgspec'" in ending.message


def test_a_stage_that_spark_ends_is_failed_with_its_words(watched: Watched) -> None:
    watched.application.error = RuntimeError("Job aborted: the master removed our application")
    watched.application.end_stage()
    ending = watched.ending()
    assert ending.kind is OutcomeKind.FAILED
    assert "the master removed our application" in ending.message


@pytest.mark.parametrize("executors", [0, 2])
def test_only_an_application_that_never_had_an_executor_was_not_taken_by_its_master(executors: int) -> None:
    watched = Watched(executors=executors, master="spark://10.0.0.7:7077", tasks_begin=False)
    wait_until_published(watched, executors)
    watched.application.error = JavaError(SHUT_DOWN)
    watched.application.end_stage()
    ending = watched.ending()
    watched.coordination.close()
    assert ending.kind is OutcomeKind.FAILED
    assert "SparkContext has been shutdown" in ending.message
    assert ("did not take the application" in ending.message) is (executors == 0)


def test_a_jvm_that_is_gone_is_failed(watched: Watched) -> None:
    watched.application.is_gone = True
    assert watched.ending().kind is OutcomeKind.FAILED


def test_an_application_that_still_waits_for_its_first_executor_is_left_waiting() -> None:
    waiting = Watched(executors=0)
    assert waiting.goes_on()
    waiting.application.end_stage(TaskEnd.DRAINED)
    waiting.ending()
    waiting.coordination.close()


def test_drain_of_files_is_given_the_time_of_its_uploads() -> None:
    files = FileSink(root="file:///srv/lake", upload_timeout_ms=90_000)
    slow = for_definition(BOUNDS, a_definition(files=files, transaction_timeout_ms=10_000))
    assert slow.drain_s == 110.0
    assert for_definition(BOUNDS, a_definition()) == BOUNDS
