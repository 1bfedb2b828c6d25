"""The processor time of a server while one small pipeline runs: `python -m bench.server_load [--seconds S] [--dry]`.

A real server on an embedded Postgres, a broker, one Spark instance with two tasks, 400 records a second, commits each
100 ms. Three times: no run; the run without an open page; the run with its page open in one browser's event stream.
Figures are of the server's process without the drivers that it started, and of Postgres; they go
to bench/results/server_load.json.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from app.core.pipelines.pipeline import SparkSettings
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.embedded.spark import SparkCluster
from bench.growth.server import MeasuredServer, count_statements
from bench.machine import keep, machine
from tests.support.databases import create_database
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_for

_NAME = "small"
_RECORDS_PER_S = 400
_DEADLINE_S = 120.0
_SETTLES_S = 10.0
_MOST = 40
_SHOWN = 300


def used(server: MeasuredServer, seconds: float) -> dict[str, object]:
    """What server and Postgres use, once they have settled; the statements that were sent most often."""
    time.sleep(_SETTLES_S)
    server.count_anew()
    before = server.spent()
    time.sleep(seconds)
    after, statements = server.spent(), server.statements()
    took_s = after.at_s - before.at_s
    return {
        "server_cores": round((after.server_cpu_s - before.server_cpu_s) / took_s, 4),
        "postgres_cores": round((after.postgres_cpu_s - before.postgres_cpu_s) / took_s, 4),
        "statements_per_second": round(sum(one.calls for one in statements) / took_s, 1),
        "most_often": [
            {"per_second": round(one.calls / took_s, 2), "text": one.text[:_SHOWN]}
            for one in sorted(statements, key=lambda one: -one.calls)[:_MOST]
        ],
        "load": round(os.getloadavg()[0], 1),
    }


@contextmanager
def page_open(server: ServerProcess) -> Generator[list[int]]:
    """The pipeline's page in a browser: its event stream, read to the end of the block. The list grows by frames."""
    sizes: list[int] = []
    ended = threading.Event()
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as browser:
        server.log_in(browser)

        def read() -> None:
            with browser.stream("GET", f"/pipelines/{_NAME}/stream") as answer:
                for part in answer.iter_bytes():
                    sizes.append(len(part))
                    if ended.is_set():
                        return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        wait_for(lambda: bool(sizes), 30, "a frame of the pipeline's page")
        try:
            yield sizes
            assert reader.is_alive(), "the stream has ended"
        finally:
            ended.set()
            reader.join(30)


def measure(folder: Path, seconds: float) -> dict[str, object]:
    """Everything started, and the three measurements."""
    with EmbeddedPostgres.start() as postgres, KafkaCluster.start() as kafka, SparkCluster.start() as spark:
        count_statements(postgres)
        server = ServerProcess(
            state_dir=folder / "state",
            cache_dir=folder / "cache",
            database_url=create_database(postgres.url),
            settings={"FENCELINE_SPARK_MASTER_WEB_URLS": f"{spark.master_url}={spark.master_web_url}"},
        )
        server.start()
        measured = MeasuredServer(server, postgres, kafka.bootstrap_servers)
        try:
            pipeline = TestPipeline.create(
                kafka.bootstrap_servers,
                partitions=4,
                cluster=server.registered_cluster(kafka.bootstrap_servers),
                tasks_per_instance=2,
                commit_interval_ms=100,
                session_timeout_ms=10_000,
                spark=SparkSettings(master=spark.master_url),
            )
            server.create_pipeline(_NAME, pipeline.definition)
            without = used(measured, seconds)
            run_id = str(server.post(f"/pipelines/{_NAME}/runs")["id"])
            server.wait_for_run(run_id, "running", _DEADLINE_S)
            feeder = Feeder(pipeline, records_per_s=_RECORDS_PER_S, remembers=False)
            feeder.start()
            running = used(measured, seconds)
            with page_open(server) as sizes:
                watched = used(measured, seconds)
            feeder.stop()
            server.post(f"/runs/{run_id}/drain")
            server.wait_for_run(run_id, "stopped", _DEADLINE_S)
        finally:
            server.process.stop()
            server.end_drivers()
    return {
        "seconds": seconds,
        "records_per_second": _RECORDS_PER_S,
        "without_a_run": without,
        "running": running,
        "running_with_a_page": {**watched, "bytes_per_second": round(sum(sizes) / (seconds + _SETTLES_S))},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--dry", action="store_true", help="print only")
    said = parser.parse_args()
    on = machine()
    with tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder:
        keep("server_load", on, measure(Path(folder), said.seconds))


if __name__ == "__main__":
    main()
