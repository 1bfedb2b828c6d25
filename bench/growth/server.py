"""The server that is measured, with a broker and a Postgres of its own, and what server and Postgres have spent.

`python -m bench.growth.server serve …` is `fenceline serve` with one double: where a Spark application would be
submitted, a process is started that does nothing. It has a file of its instance's folder open and in its arguments, as
a driver has, so the reconciler looks at it as it does at drivers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg
from sqlalchemy import make_url

from app.edges.cli import main
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.spark.spark_submit import SparkSubmit
from bench.journal_load import prepare
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.databases import create_database
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_for

CLUSTER = "bench"
_HEAVIEST_SQL = """
    SELECT s.calls, s.total_exec_time, regexp_replace(s.query, '\\s+', ' ', 'g')
    FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
    WHERE d.datname = %s ORDER BY s.total_exec_time DESC
"""


class Spent(NamedTuple):
    """Since their starts: at_s is of the monotonic clock, the others are seconds of processor time."""

    at_s: float
    server_cpu_s: float
    postgres_cpu_s: float


class Statement(NamedTuple):
    """A kind of statement, since they were counted anew: how often, and the milliseconds of Postgres for all."""

    calls: int
    took_ms: float
    text: str


@dataclass
class MeasuredServer:
    process: ServerProcess
    postgres: EmbeddedPostgres
    bootstrap_servers: str

    def spent(self) -> Spent:
        postmaster = psutil.Process(self.postgres.pid)
        # What sessions that are over have spent, Postgres has collected from its children.
        ended = postmaster.cpu_times()
        cpu_s = ended.children_user + ended.children_system
        for process in (postmaster, *postmaster.children()):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            cpu_s += times.user + times.system
        own = psutil.Process(self.process.process.pid).cpu_times()
        return Spent(time.monotonic(), own.user + own.system, cpu_s)

    def memory_mb(self) -> float:
        """Resident, as of now."""
        return psutil.Process(self.process.process.pid).memory_info().rss / 1e6

    def count_anew(self) -> None:
        with self._observing() as connection:
            connection.execute("SELECT pg_stat_statements_reset()")

    def statements(self) -> list[Statement]:
        """Those of the server's database since `count_anew`, BEGIN and COMMIT included, the heaviest first."""
        name = make_url(self.process.database_url).database
        with self._observing() as connection:
            return [Statement(*row) for row in connection.execute(_HEAVIEST_SQL, [name]).fetchall()]

    @contextmanager
    def _observing(self) -> Generator[psycopg.Connection]:
        """From another database than the server's, so that what is asked here is not counted."""
        with psycopg.connect(_plain(self.postgres.url), autocommit=True) as connection:
            yield connection


@contextmanager
def measured_server(folder: Path, *, heap_mb: int = 512) -> Generator[MeasuredServer]:
    """With one cluster, observed, and no pipeline. Everything ends with the context."""
    with (
        KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, jvm=Jvm(heap_mb=heap_mb, quick_start=False)) as kafka,
        EmbeddedPostgres.start() as postgres,
    ):
        count_statements(postgres)
        prepare(kafka.bootstrap_servers)
        process = ServerProcess(
            state_dir=folder / "state",
            cache_dir=folder / "cache",
            database_url=create_database(postgres.url),
            program=(sys.executable, "-m", "bench.growth.server"),
        )
        process.start()
        server = MeasuredServer(process, postgres, kafka.bootstrap_servers)
        try:
            # Its pages and its database are in use, as they are in every server.
            process.look("/clusters")
            process.post("/clusters", {"name": CLUSTER, "bootstrap_servers": kafka.bootstrap_servers})
            path = f"/api/v1/clusters/{CLUSTER}/observer"
            wait_for(lambda: '"live"' in process.ask(path).text, 60, lambda: process.ask(path).text)
            yield server
        finally:
            process.kill()
            process.end_drivers()


def count_statements(postgres: EmbeddedPostgres) -> None:
    """Postgres' own extension counts them; it must be there when Postgres starts."""
    with psycopg.connect(_plain(postgres.url), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    postgres.restart()
    with psycopg.connect(_plain(postgres.url), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def serve() -> None:
    def argv(*_: object, arguments: Sequence[str], **__: object) -> list[str]:
        return ["tail", "-n", "0", "-f", arguments[arguments.index("--specification") + 1]]

    def refuse_without_java(_: object) -> None:
        """The double needs none."""

    submit: Any = SparkSubmit
    submit.argv, submit.refuse_without_java = argv, refuse_without_java
    sys.argv[0] = "fenceline"
    main()


if __name__ == "__main__":
    serve()
