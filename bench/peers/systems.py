"""The systems that take records from one topic to another here, each with its best settings.

A system is started by its function, runs while the block does, and is stopped as its makers mean it to be stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from app.core.pipelines.pipeline import (
    Filter,
    Identity,
    PipelineDefinition,
    ProcessingGuarantee,
    Project,
    PythonFunction,
    PythonScope,
    SparkSettings,
    StepOperator,
    Steps,
    Transform,
)
from app.edges.embedded.java import find_java
from app.edges.embedded.maven import SPARK_KAFKA_JARS, ensure_jars
from app.edges.embedded.spark import SparkCluster
from bench.identity_loop import spark_instance
from bench.peers.bare import bare_tasks
from bench.peers.work import Job, Work
from tests.support.kafka_tools import compile_streams_program
from workers.transforms.user_code import sha256_of

PROGRAMS = Path(__file__).parent / "programs"
_STREAMS = Path(__file__).parent / "java" / "StreamsCopy.java"
_STOPS_WITHIN_S = 30.0


class Place(NamedTuple):
    """Where systems run. folder: for what they write, a new one for each run."""

    bootstrap_servers: str
    broker_pid: int
    folder: Path
    spark: SparkCluster
    quix_python: Path


Check = Callable[[], None]
"""Raises AssertionError when the system has ended by itself."""
Start = Callable[[Place, Work, str, str], AbstractContextManager[Check]]


@dataclass(frozen=True)
class System:
    """`promises`: exactly once, at least once, or nothing."""

    name: str
    start: Start
    promises: str
    jobs: tuple[Job, ...] = (Job.IDENTITY,)


def fenceline(guarantee: ProcessingGuarantee, *, in_spark: bool) -> Start:
    @contextmanager
    def start(place: Place, work: Work, source: str, sink: str) -> Generator[Check]:
        chosen = PipelineDefinition(
            cluster="bench",
            source_topics=(source,),
            group_id=f"fenceline-{sink}",
            sink_topic=sink,
            processing_guarantee=guarantee,
            tasks_per_instance=work.tasks,
            commit_interval_ms=work.commit_interval_ms,
            transform=_transform(work.job),
            producer_overrides={} if work.compression == "none" else {"compression.type": work.compression},
            spark=SparkSettings(master=place.spark.master_url),
        )
        text = _FILES[work.job].read_text(encoding="utf-8") if work.job in _FILES else None
        if in_spark:
            with spark_instance(place.bootstrap_servers, chosen, place.spark, place.folder, transform_source=text):
                yield _nothing
        else:
            with bare_tasks(place.bootstrap_servers, chosen, transform_source=text) as tasks:
                yield tasks.check

    return start


def _nothing() -> None:
    """Spark starts again what ends."""


_FILES = {Job.FUNCTION: PROGRAMS / "functions.py", Job.ARROW: PROGRAMS / "arrow_functions.py"}


def _transform(job: Job) -> Transform:
    match job:
        case Job.IDENTITY:
            return Identity()
        case Job.FILTER:
            return Steps(
                steps=(
                    Filter(field="arr_delay", operator=StepOperator.GE, value=15),
                    Project(fields=("id", "carrier")),
                )
            )
        case Job.FUNCTION | Job.ARROW:
            return PythonFunction(
                function="delay_in_hours",
                scope=PythonScope.ARROW if job is Job.ARROW else PythonScope.BATCH,
                file_name=_FILES[job].name,
                sha256=sha256_of(_FILES[job].read_text(encoding="utf-8")),
            )


_STREAMS_AT_ITS_BEST: dict[str, Any] = {
    "consumer.max.poll.records": 10_000,
    "consumer.max.partition.fetch.bytes": 4_194_304,
    "consumer.fetch.max.bytes": 52_428_800,
    "producer.linger.ms": 5,
    "producer.batch.size": 524_288,
    "producer.buffer.memory": 134_217_728,
    "buffered.records.per.partition": 20_000,
}


def streams(guarantee: str, *, at_its_best: bool = True) -> Start:
    """Kafka Streams, one thread a task, a heap that it does not fill.

    at_its_best: with large batches and fetches; else with its own defaults for them.
    """

    @contextmanager
    def start(place: Place, work: Work, source: str, sink: str) -> Generator[Check]:
        settings: dict[str, Any] = {
            "bootstrap.servers": place.bootstrap_servers,
            "application.id": f"streams-{sink}",
            "state.dir": place.folder / "streams",
            "processing.guarantee": guarantee,
            "commit.interval.ms": work.commit_interval_ms,
            "num.stream.threads": work.tasks,
            "consumer.auto.offset.reset": "earliest",
            "producer.acks": "all",
            "producer.compression.type": work.compression,
            **(_STREAMS_AT_ITS_BEST if at_its_best else {}),
        }
        class_path = compile_streams_program(_STREAMS, place.folder / "classes")
        java = str(find_java(may_fetch=False).executable)
        arguments = [f"{key}={value}" for key, value in settings.items()]
        command = [java, "-Xms1g", "-Xmx1g", "-XX:+UseParallelGC", "-cp", class_path]
        command += ["StreamsCopy", source, sink, work.job, *arguments]
        with running(command, place.folder / "streams.log") as check:
            yield check

    return start


def spark_sink(*, at_its_best: bool = True) -> Start:
    """Spark's own source and sink; with large batches and fetches, or with their own defaults for them."""

    @contextmanager
    def start(place: Place, work: Work, source: str, sink: str) -> Generator[Check]:
        jars = ",".join(str(jar) for jar in ensure_jars(SPARK_KAFKA_JARS))
        folder = place.folder / "structured"
        folder.mkdir()
        arguments = [place.bootstrap_servers, source, sink, str(work.tasks), work.compression, str(folder), jars]
        java_home = str(find_java(may_fetch=False).home)
        environment = {**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, str(PROGRAMS / "spark_sink.py"), *arguments, "best" if at_its_best else "defaults"]
        with running(command, place.folder / "structured.log", environment=environment) as check:
            yield check

    return start


def quix(guarantee: str) -> Start:
    @contextmanager
    def start(place: Place, work: Work, source: str, sink: str) -> Generator[Check]:
        folder = place.folder / "quix"
        arguments = [place.bootstrap_servers, source, sink, work.job, guarantee, str(work.commit_interval_ms / 1000)]
        command = [str(place.quix_python), str(PROGRAMS / "quix_copy.py"), *arguments, work.compression, str(folder)]
        with running(command, place.folder / "quix.log") as check:
            yield check

    return start


@contextmanager
def limit(place: Place, work: Work, source: str, sink: str) -> Generator[Check]:
    arguments = [place.bootstrap_servers, source, sink, work.compression]
    with running([sys.executable, str(PROGRAMS / "limit.py"), *arguments], place.folder / "limit.log") as check:
        yield check


@contextmanager
def running(command: list[str], log: Path, *, environment: dict[str, str] | None = None) -> Generator[Check]:
    """A process with all that it starts, ended by SIGTERM; fails with the end of its log when it ends by itself."""
    with log.open("wb") as into:
        process = subprocess.Popen(
            command, stdout=into, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )

    def check() -> None:
        assert process.poll() is None, f"{command[0]} has ended: {log.read_text(errors='replace')[-2000:]}"

    try:
        yield check
        check()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(_STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


_JOBS = tuple(Job)
V2, V1, ALO = (
    ProcessingGuarantee.EXACTLY_ONCE_V2,
    ProcessingGuarantee.EXACTLY_ONCE,
    ProcessingGuarantee.AT_LEAST_ONCE,
)
SYSTEMS = {
    system.name: system
    for system in (
        System("fenceline exactly_once_v2, spark", fenceline(V2, in_spark=True), "exactly once", _JOBS),
        System("fenceline exactly_once, spark", fenceline(V1, in_spark=True), "exactly once", _JOBS),
        System("fenceline at_least_once, spark", fenceline(ALO, in_spark=True), "at least once", _JOBS),
        System("fenceline exactly_once_v2, bare", fenceline(V2, in_spark=False), "exactly once", _JOBS),
        System("fenceline exactly_once, bare", fenceline(V1, in_spark=False), "exactly once", _JOBS),
        System("fenceline at_least_once, bare", fenceline(ALO, in_spark=False), "at least once", _JOBS),
        System("kafka streams exactly_once_v2", streams("exactly_once_v2"), "exactly once", (Job.IDENTITY, Job.FILTER)),
        System("kafka streams at_least_once", streams("at_least_once"), "at least once"),
        System(
            "kafka streams exactly_once_v2, defaults", streams("exactly_once_v2", at_its_best=False), "exactly once"
        ),
        System("spark kafka sink", spark_sink(), "at least once"),
        System("spark kafka sink, defaults", spark_sink(at_its_best=False), "at least once"),
        System("quix streams exactly-once", quix("exactly-once"), "exactly once", _JOBS),
        System("quix streams at-least-once", quix("at-least-once"), "at least once", _JOBS),
        System("limit", limit, "nothing"),
    )
}
