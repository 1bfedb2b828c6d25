"""One run of faults over queries with DataFrames: query after query, each with faults drawn from the seed."""

from __future__ import annotations

import os
import platform
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import KAFKA_VERSION, SPARK_KAFKA_VERSION
from app.edges.embedded.spark import SparkCluster
from tests.fault_suite.dataframes.ledger import DataframeEntry
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.dataframes.drivers import Driver, DriverDiedError, driver, mutated_sink
from tests.support.dataframes.jobs import Job, Rows, comparable, write_events
from tests.support.results import git, is_changed_since_commit
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for

KINDS = ("stateless", "random_rows", "window", "join", "dedup", "transform_with_state")
DRIVER_STEPS = ("CLAIMED", "FENCED", "CHECKED", "PLANNED", "ENDED")
WRITER_STEPS = ("READY", "MARKED", "SENT", "COMMITTED")
EVENTS = 40_000
EACH = 4_000
_QUERY_WITHIN_S = 300.0
_FAULT_WITHIN_S = 120.0
_RESTARTS = 20

MARKER_OFF = ("Batch.java", "if (marker.batch() < number) {", "if (marker.batch() <= number) {")


class NotDoneError(Exception):
    """The moment of a fault did not come: the query ended before it."""


def run_dataframes(
    seed: int, folder: Path, *, minutes: float, at_most: int | None = None, has_marker: bool = True
) -> DataframeEntry:
    """Queries for so many minutes, and not more than so many faults; each is judged when it has ended.

    Args:
        has_marker: False: the negative control, a sink that ignores its markers.
    """
    began_at, commit, is_changed = time.monotonic(), git("rev-parse", "HEAD"), is_changed_since_commit()
    jar = None if has_marker else mutated_sink(folder, [MARKER_OFF])
    with (
        KafkaCluster.start(data_dir=folder / "kafka", overrides=TEST_BROKER_SETTINGS) as kafka,
        SparkCluster.start(workers=2, cores_per_worker=2, memory_per_core_mb=700, data_dir=folder / "spark") as spark,
    ):
        run = DataframeRun(random.Random(seed), folder, kafka, spark, jar)
        try:
            run.over(until=time.monotonic() + 60 * minutes, at_most=at_most)
        except Exception as error:  # noqa: BLE001 - it is told, and counts as a failure
            run.failures.append(f"{type(error).__name__}: {error}")
        finally:
            run.close()
    return DataframeEntry(
        seed=seed,
        queries=dict(run.queries),
        faults=run.done.total(),
        not_done=run.not_done,
        by_kind=dict(run.done),
        refusals=dict(run.refusals),
        rows=run.rows,
        outputs=run.outputs,
        lost=run.lost,
        duplicated=run.duplicated,
        wrong=run.wrong,
        seconds=round(time.monotonic() - began_at),
        failure="; ".join(run.failures) or None,
        commit=commit,
        changed_since_commit=is_changed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "kafka": KAFKA_VERSION,
            "pyspark": version("pyspark"),
            "connector": SPARK_KAFKA_VERSION,
            "python": platform.python_version(),
        },
    )


class DataframeRun:
    """The queries of a run, one after the other, and the driver of the present one."""

    def __init__(
        self, rng: random.Random, folder: Path, kafka: KafkaCluster, spark: SparkCluster, sink_jar: Path | None
    ) -> None:
        self.queries: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.failures: list[str] = []
        self.not_done = self.rows = self.outputs = self.lost = self.duplicated = self.wrong = 0
        self._rng = rng
        self._folder = folder
        self._kafka = kafka
        self._spark = spark
        self._sink_jar = sink_jar
        self._stack = ExitStack()
        self._driver: Driver | None = None
        self._is_running = False
        self._source = unique_name("events")
        self._controls: dict[str, Rows] = {}
        self._faults: tuple[Callable[[Job], str], ...] = (
            self._kill_driver_at_step,
            self._kill_driver_at_step,
            self._kill_executor_at_step,
            self._kill_executor_at_step,
            self._fail_attempt_at_step,
            self._kill_driver,
            self._kill_executor,
            self._freeze_executor,
            self._replace_held_driver,
            self._wake_orphaned_executor,
            self._restart_broker,
            self._restart_master,
            self._restart_worker,
        )

    def over(self, *, until: float, at_most: int | None) -> None:
        create_topic(self._kafka.bootstrap_servers, self._source, partitions=4)
        write_events(self._kafka.bootstrap_servers, self._source, EVENTS)
        with driver(self._folder, sink_jar=self._sink_jar) as undisturbed:
            for kind in KINDS:
                job = self._job()
                undisturbed.run(**self._order(job, kind, writers=1))
                self._controls[kind] = comparable(kind, job.rows())
        while time.monotonic() < until and (at_most is None or self.done.total() < at_most):
            self._query()

    def close(self) -> None:
        self._stack.close()

    def _job(self) -> Job:
        topic = unique_name("out")
        create_topic(self._kafka.bootstrap_servers, topic, partitions=4)
        name = unique_name("job")
        return Job(self._kafka.bootstrap_servers, name, topic, self._folder / "checkpoints" / name)

    def _query(self) -> None:
        """One query from its first batch to its last, with faults on the way."""
        rng = self._rng
        kind = rng.choice(KINDS)
        writers = 1 if kind == "random_rows" else rng.choice((1, 1, 2, 3))
        job = self._job()
        self._current = self._order(job, kind, writers=writers)
        for fault in rng.choices(self._faults, k=rng.randint(4, 7)):
            try:
                self.done[fault(job)] += 1
            except NotDoneError:
                self.not_done += 1
        self._finish()
        self._judge(kind, job)

    def _order(self, job: Job, kind: str, *, writers: int) -> dict[str, object]:
        return job.order(self._source, kind, writers=writers, each=EACH)

    def _judge(self, kind: str, job: Job) -> None:
        expected, found = self._controls[kind], comparable(kind, job.rows())
        more = found - expected
        self.queries[kind] += 1
        self.rows += EVENTS
        self.outputs += found.total()
        self.lost += (expected - found).total()
        self.duplicated += sum(count for row, count in more.items() if row in expected)
        self.wrong += sum(count for row, count in more.items() if row not in expected)
        if found != expected:
            self.failures.append(f"query {job.name} of kind {kind}, {self._current['writers']} writers")

    # The driver

    def _running(self) -> Driver:
        """The driver of the present query, which processes it."""
        if self._is_running and self._has_ended():
            self._take_answer()
        if self._driver is None:
            self._driver = self._start_driver()
        if not self._is_running:
            self._driver.begin(do="run", **self._current)
            self._is_running = True
        return self._driver

    def _start_driver(self) -> Driver:
        conf = {
            "spark.cores.max": "2",
            "spark.executor.cores": "2",
            "spark.executor.memory": "640m",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            # Kills at steps are failures of the same task.
            "spark.task.maxFailures": "8",
        }
        return self._stack.enter_context(
            driver(
                self._folder, sink_jar=self._sink_jar, master=self._spark.master_url, conf=conf, stops_in_executors=True
            )
        )

    def _has_ended(self) -> bool:
        assert self._driver is not None
        return self._driver.has_answered() or self._driver.process.poll() is not None

    def _take_answer(self) -> bool:
        """Whether the query ended well. After an error the next one gets a driver of its own."""
        assert self._driver is not None
        self._is_running = False
        try:
            answer = self._driver.answer()
        except DriverDiedError:
            self._driver = None
            return False
        if "error" not in answer:
            return True
        self.refusals[_first_words(answer["text"])] += 1
        self._end_driver()
        return False

    def _end_driver(self) -> None:
        if self._driver is not None:
            self._driver.kill()
        self._driver = None
        self._is_running = False

    def _finish(self) -> None:
        for _ in range(_RESTARTS):
            self._running()
            wait_for(self._has_ended, _QUERY_WITHIN_S, "the end of the query")
            if self._take_answer():
                return
        raise AssertionError(f"the query did not end in {_RESTARTS} starts: {dict(self.refusals)}")

    # Faults; each returns its name, or raises NotDoneError

    def _at_step(self, job: Job, steps: tuple[str, ...], action: str) -> str:
        step = self._rng.choice(steps)
        later = self._rng.randint(0, 2)
        living = self._driver if self._driver is not None else None
        if step in DRIVER_STEPS[:3]:
            # These belong to the start of a query.
            self._end_driver()
            living, batch = None, None
        else:
            batch = _finished(job) + 1 + later
        if living is None:
            self._driver = living = self._start_driver()
        living.stop_at(step, batch=batch, action=action)
        self._running()
        self._wait_until_reached(living, step)
        return step

    def _wait_until_reached(self, living: Driver, step: str) -> None:
        wait_for(
            lambda: living.has_reached(step) or self._has_ended(), _FAULT_WITHIN_S, lambda: f"{step}: {living.tail()}"
        )
        if not living.has_reached(step):
            living.forget_stops()
            self._take_answer()
            raise NotDoneError
        living.forget_stops()

    def _kill_driver_at_step(self, job: Job) -> str:
        step = self._at_step(job, DRIVER_STEPS, "kill")
        wait_for(self._has_ended, _FAULT_WITHIN_S, "the end of the killed driver")
        self._end_driver()
        return f"driver killed at {step}"

    def _kill_executor_at_step(self, job: Job) -> str:
        return f"executor killed at {self._at_step(job, WRITER_STEPS, 'kill')}"

    def _fail_attempt_at_step(self, job: Job) -> str:
        return f"attempt failed at {self._at_step(job, WRITER_STEPS, 'fail')}"

    def _wait_for_batch(self, job: Job) -> None:
        """Until the query has finished one more batch."""
        before = _finished(job)
        self._running()
        wait_for(lambda: _finished(job) > before or self._has_ended(), _FAULT_WITHIN_S, "one more batch")
        if _finished(job) == before:
            raise NotDoneError

    def _kill_driver(self, job: Job) -> str:
        self._wait_for_batch(job)
        self._end_driver()
        return "driver killed"

    def _executor_pid(self) -> int:
        found = wait_for(lambda: self._spark.executors() or self._has_ended(), _FAULT_WITHIN_S, "an executor")
        if not isinstance(found, list):
            raise NotDoneError
        return self._rng.choice(found).pid

    def _kill_executor(self, job: Job) -> str:
        self._wait_for_batch(job)
        _signal(self._executor_pid(), signal.SIGKILL)
        return "executor killed"

    def _freeze_executor(self, job: Job) -> str:
        self._wait_for_batch(job)
        pid = self._executor_pid()
        _signal(pid, signal.SIGSTOP)
        time.sleep(self._rng.uniform(1, 5))
        _signal(pid, signal.SIGCONT)
        return "executor frozen"

    def _replace_held_driver(self, job: Job) -> str:
        """A driver, or one of its writers, is held at a step while a newer driver takes over."""
        step = self._at_step(job, ("PLANNED", *WRITER_STEPS[:3]), "hold")
        old, self._driver, self._is_running = self._driver, None, False
        assert old is not None
        with suppress(NotDoneError):
            self._wait_for_batch(job)
        old.release()
        # A driver whose query the newer one has ended finds nothing more to do; any other is refused.
        wait_for(lambda: old.has_answered() or old.process.poll() is not None, _FAULT_WITHIN_S, old.tail)
        old.kill()
        return f"driver replaced while held at {step}"

    def _wake_orphaned_executor(self, job: Job) -> str:
        """An executor is frozen within a transaction, loses its driver, and wakes when a newer driver has gone on."""
        step = self._at_step(job, WRITER_STEPS[:3], "hold")
        old = self._driver
        assert old is not None
        frozen = [executor.pid for executor in self._spark.executors()]
        for pid in frozen:
            _signal(pid, signal.SIGSTOP)
        old.release()
        self._end_driver()
        with suppress(NotDoneError):
            self._wait_for_batch(job)
        for pid in frozen:
            _signal(pid, signal.SIGCONT)
        return f"orphaned executor woken at {step}"

    def _restart_broker(self, job: Job) -> str:
        self._wait_for_batch(job)
        (broker,) = self._kafka.brokers
        broker.kill()
        broker.start()
        broker.wait_until_ready()
        return "broker killed and restarted"

    def _restart_master(self, job: Job) -> str:
        self._wait_for_batch(job)
        self._spark.master.kill()
        self._spark.master.start()
        self._spark.wait_until_ready()
        return "Spark master killed and restarted"

    def _restart_worker(self, job: Job) -> str:
        self._wait_for_batch(job)
        node = self._rng.choice(list(self._spark.workers))
        node.kill()
        node.start()
        self._spark.wait_until_ready()
        return "Spark worker killed and restarted"


def _finished(job: Job) -> int:
    """The newest batch in the checkpoint's commit log, or -1."""
    return max((int(file.name) for file in (job.checkpoint / "commits").glob("[0-9]*")), default=-1)


def _signal(pid: int, number: signal.Signals) -> None:
    # It may have ended by itself.
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _first_words(text: str) -> str:
    """The error without names and numbers, so that equal ones count together."""
    line = next((line for line in text.splitlines() if "Refusal: " in line), text.splitlines()[0])
    return " ".join(line.rpartition("Refusal: ")[2].split()[:6])
