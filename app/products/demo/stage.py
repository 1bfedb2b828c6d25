"""The services of the demo: Kafka, Postgres, Spark and the server, started and stopped together."""

import contextlib
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, cast

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

# Not in the list of public names of the package's admin module, so pyright needs its module.
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.maven import KAFKA_JARS, ensure_jars
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.embedded.progress import shown_progress
from app.edges.embedded.spark import SparkCluster
from app.products.demo.feed import describe_error
from app.products.demo.server import DemoServer

CLUSTER = "demo"
# Inherited by the server and by every driver that it detaches, so that all of them can be found and ended.
_MARK = "DEMO_OF_FENCELINE"
_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class DemoStage:
    """The running services.

    files_root: a folder for files, which is deleted at the end; so is that of the checkpoints.
    """

    kafka: KafkaCluster
    spark: SparkCluster
    server: DemoServer
    files_root: Path
    checkpoints: Path

    def checkpoint(self, pipeline: str) -> Path:
        """Return the place of a pipeline's checkpoint."""
        return self.checkpoints / pipeline

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka.bootstrap_servers

    def create_topics(self, names: tuple[str, ...], *, partitions: int) -> None:
        """Create topics, and return when each partition has a leader."""
        wanted = [NewTopic(name, num_partitions=partitions, replication_factor=1) for name in names]
        try:
            with AdminClient(
                {"bootstrap.servers": self.bootstrap_servers, **NEVER_CREATE_TOPICS, "log_level": 0}
            ) as admin:
                created = cast(
                    "dict[str, Future[None]]", cast(Any, admin).create_topics(wanted, operation_timeout=_ANSWER_S)
                )
                for topic in created.values():
                    topic.result(_ANSWER_S)
        except KafkaException as error:
            raise EmbeddedError(f"the topics {', '.join(names)}: {describe_error(error)}") from error


@contextmanager
def open_stage(console: Console, *, cores: int) -> Generator[DemoStage]:
    """Start everything and yield it; on exit, end all of its processes.

    Args:
        console: shows the progress of downloads and starts.
        cores: the number of Spark tasks that can run at once.
    """
    mark = uuid.uuid4().hex
    environment = {**os.environ, _MARK: mark}
    # Stopped in reverse order: the server, then its services, then the remaining drivers.
    with ExitStack() as stack:
        stack.enter_context(_interruptible())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fenceline-demo-")))
        stack.callback(sweep, _MARK, mark)
        with shown_progress(console) as on_progress:
            ensure_jars(KAFKA_JARS, on_progress=on_progress)
        find_java(may_fetch=True)
        with console.status("Starting Kafka, Postgres and Spark"):
            started = time.monotonic()
            pool = stack.enter_context(ThreadPoolExecutor(max_workers=3))
            kafka_up = pool.submit(KafkaCluster.start, jvm=Jvm(heap_mb=512, quick_start=False))
            stack.callback(_stop_when_up, kafka_up)
            postgres_up = pool.submit(EmbeddedPostgres.start, durable=False)
            stack.callback(_stop_when_up, postgres_up)
            spark_up = pool.submit(SparkCluster.start, workers=1, cores_per_worker=cores)
            stack.callback(_stop_when_up, spark_up)
            kafka, postgres, spark = kafka_up.result(), postgres_up.result(), spark_up.result()
        console.print(
            f"Kafka at {kafka.bootstrap_servers}, Postgres at 127.0.0.1:{postgres.port}, Spark at {spark.master_url} "
            f"({time.monotonic() - started:.1f} s)",
            highlight=False,
            soft_wrap=True,
        )
        with console.status("Starting the server"):
            server = DemoServer.start(
                folder=folder,
                environment={
                    **environment,
                    "FENCELINE_DATABASE_URL": postgres.url,
                    # Never a port that an instance needs for its restart.
                    "FENCELINE_AUDIT_CORES": "1",
                    "FENCELINE_SPARK_MASTER_WEB_URLS": f"{spark.master_url}={spark.master_web_url}",
                },
            )
            stack.callback(server.stop)
        server.register_cluster(CLUSTER, kafka.bootstrap_servers)
        console.print(f"Fenceline at {server.users_url}", highlight=False, soft_wrap=True)
        stack.callback(_ignore_interrupts)
        yield DemoStage(kafka, spark, server, files_root=folder / "files", checkpoints=folder / "checkpoints")


class _Stoppable(Protocol):
    def stop(self) -> None: ...


def _stop_when_up(starting: Future[Any]) -> None:
    """Stop services that run or start; a failed start has cleaned up already."""
    if not starting.cancel() and starting.exception() is None:
        cast(_Stoppable, starting.result()).stop()


def sweep(name: str, value: str) -> None:
    """Kill every process of this user whose environment has `name=value`, as drivers are detached."""
    left = [process for process in psutil.process_iter() if _has_variable(process, name, value)]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    psutil.wait_procs(left, timeout=10)


def _has_variable(process: psutil.Process, name: str, value: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        return process.environ().get(name) == value
    except (psutil.Error, OSError):
        # Owned by another user, or ended meanwhile.
        return False


@contextmanager
def _interruptible() -> Generator[None]:
    """SIGTERM ends the demo as Ctrl-C does, with its cleanup; afterwards both handlers are as before.

    SIGINT is set too: a shell starts background jobs with SIGINT ignored, and the demo must handle it.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_interrupts() -> None:
    """Ignore a second Ctrl-C during the cleanup, which takes seconds and is bounded."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
