"""One Spark application with one stage of independent, endless tasks; all use of pyspark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkConf, SparkContext, TaskContext

from workers.spark.gone import FailedAttempt
from workers.spark.spark_errors import SparkGoneError, first_line, last_python_line

log = logging.getLogger(__name__)

ATTEMPTS_LOOKED_AT = 500
PartitionFunction = Callable[[int, Iterable[object]], Iterator[bytes]]
Job = Callable[[SparkContext], list[bytes]]


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """The number of executors, of running and waiting tasks, and of attempts that have failed so far."""

    executors: int
    tasks_running: int
    tasks_waiting: int
    attempts_failed: int = 0


def attempt_number() -> int:
    """Spark's attempt of the task that runs in this process; grows with each retry of the same task."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("there is no task context: this function belongs into a Spark task")
    return context.attemptNumber()


class ActiveStage(msgspec.Struct, frozen=True, kw_only=True):
    """Spark's running stage, and the number of its tasks that have ended."""

    id: int
    tasks_done: int
    tasks: int


class Application:
    """A running SparkContext. SparkContext and not SparkSession: it is up in 2 s where the session takes 5 s."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._stage: InheritableThread | None = None
        self._results: list[bytes] | None = None
        self._error: BaseException | None = None
        self._tasks = 0
        self._is_local = str(context.master).startswith("local")

    @classmethod
    def start(cls) -> Application:
        """Connect to the master of spark-submit. Raises Spark's error when it refuses."""
        return cls(SparkContext(conf=SparkConf()))

    @property
    def application_id(self) -> str:
        return str(self._context.applicationId)

    @property
    def driver_host(self) -> str:
        """The address under which executors reach this process."""
        return str(self._context.getConf().get("spark.driver.host", "127.0.0.1"))

    @property
    def bind_address(self) -> str:
        """The address on which this process listens."""
        return str(self._context.getConf().get("spark.driver.bindAddress", self.driver_host))

    def conf(self) -> dict[str, str]:
        """The effective configuration, as Spark itself reads it back."""
        return dict(self._context.getConf().getAll())

    def run_stage(self, tasks: int, function: PartitionFunction) -> None:
        """Start the stage in a thread of its own, so that the main thread stays free for signals."""
        self._tasks = tasks

        def stage(context: SparkContext) -> list[bytes]:
            return context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(function).collect()

        self.run_job(stage)

    def run_job(self, job: Job) -> None:
        """Start `job` in a thread of its own; `wait` and `results` apply to it as to a stage."""
        self._stage = InheritableThread(target=self._collect, args=(job,), name="fenceline-stage")
        self._stage.daemon = True
        self._stage.start()

    def wait(self, timeout_s: float) -> bool:
        """True if the stage has ended within `timeout_s`."""
        if self._stage is None:
            return True
        self._stage.join(timeout_s)
        return not self._stage.is_alive()

    def results(self) -> list[bytes]:
        """The results of the tasks, after the stage has ended; raises the stage's error."""
        if self._error is not None:
            raise self._error
        return self._results or []

    def slots(self) -> Slots:
        """A momentary count; raises SparkGoneError when the JVM does not answer any more."""
        try:
            return self._slots()
        except (Py4JError, OSError) as error:
            raise SparkGoneError(f"Spark's driver JVM does not answer: {first_line(error)}") from error

    def active_stage(self) -> ActiveStage | None:
        """The first running stage; raises SparkGoneError when the JVM does not answer any more."""
        try:
            tracker = self._context.statusTracker()
            for stage_id in sorted(tracker.getActiveStageIds()):
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    return ActiveStage(id=stage_id, tasks_done=stage.numCompletedTasks, tasks=stage.numTasks)
        except (Py4JError, OSError) as error:
            raise SparkGoneError(f"Spark's driver JVM does not answer: {first_line(error)}") from error
        return None

    def last_failure(self) -> str:
        """Spark's reason for the newest failed attempt; empty when Spark reports none."""
        try:
            return self._last_failure()
        except (Py4JError, OSError) as error:
            return f"(Spark reports no reason: {first_line(error)})"

    def failed_attempts(self) -> list[FailedAttempt]:
        """The newest failed attempts, with Spark's reason; raises SparkGoneError when the JVM does not answer."""
        try:
            return self._failed_attempts()
        except (Py4JError, OSError) as error:
            raise SparkGoneError(f"Spark's driver JVM does not answer: {first_line(error)}") from error

    def stop(self, *, timeout_s: float) -> bool:
        """Stop the context; False when that took longer than `timeout_s` (an absent master can delay it)."""
        thread = threading.Thread(target=self._stop, name="fenceline-stop", daemon=True)
        thread.start()
        thread.join(timeout_s)
        return not thread.is_alive()

    def _stop(self) -> None:
        try:
            self._context.stop()
        except (Py4JError, OSError) as error:
            log.warning("stopping Spark's context: %s", error)

    def _collect(self, job: Job) -> None:
        try:
            self._results = job(self._context)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it in `results`
            self._error = error

    def _slots(self) -> Slots:
        running = failed = done = 0
        tracker = self._context.statusTracker()
        for stage_id in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                running += stage.numActiveTasks
                failed += stage.numFailedTasks
                done += stage.numCompletedTasks
        waiting = max(0, self._tasks - running - done) if self._stage is not None and self._stage.is_alive() else 0
        return Slots(executors=self._executors(), tasks_running=running, tasks_waiting=waiting, attempts_failed=failed)

    def _executors(self) -> int:
        if self._is_local:
            return 1
        # The driver's own block manager is in this map too.
        return int(self._scala_context().getExecutorMemoryStatus().size()) - 1

    def _failed_attempts(self) -> list[FailedAttempt]:
        store = self._scala_context().statusStore()
        found: list[FailedAttempt] = []
        for stage_id in self._context.statusTracker().getActiveStageIds():
            attempts = store.taskList(stage_id, 0, ATTEMPTS_LOOKED_AT)
            for index in range(attempts.size()):
                attempt = attempts.apply(index)
                error = attempt.errorMessage()
                if error.isDefined():
                    said = str(error.get())
                    found.append(FailedAttempt(task=int(attempt.index()), attempt=int(attempt.attempt()), error=said))
        return found

    def _last_failure(self) -> str:
        store = self._scala_context().statusStore()
        for stage_id in self._context.statusTracker().getActiveStageIds():
            attempts = store.taskList(stage_id, 0, ATTEMPTS_LOOKED_AT)
            for index in reversed(range(attempts.size())):
                error = attempts.apply(index).errorMessage()
                if error.isDefined():
                    return last_python_line(str(error.get()))
        return ""

    def _scala_context(self) -> Any:
        """The JVM's SparkContext: the Python API counts no executors and shows no failed attempts."""
        java_context: Any = self._context._jsc  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return java_context.sc()
