"""`python -m bench.start`: from the click on start to the first committed record, and from drain to stopped.

A real server on an embedded Postgres, a broker, a standalone Spark cluster; a pipeline of one instance with one task,
made and started over REST, with records waiting. The moments are those that the product records: rows of the instance,
events of its tasks, lines of the driver's and the executor's log, start times of processes; the first committed record
is seen by a reader beside it. Five rounds of one pipeline; the first one finds nothing in any cache. Every round,
medians, lowest and highest go to bench/results/start.json (`--dry`: nowhere); `python -m bench.waiting_page` makes
docs/measured/waiting.md of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from app.core.pipelines.pipeline import SparkSettings
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.embedded.spark import SparkCluster
from bench.latency.__main__ import say, versions
from bench.machine import keep, machine
from bench.start import moments
from bench.start.moments import DRAIN, START, parsed, parts_s
from tests.support.databases import create_database
from tests.support.pipelines import TestPipeline
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_for

_PARTITIONS = 4
_NAME = "waiting"
_DEADLINE_S = 120.0
_RUNS_FOR_S = 2.0
"""Long enough for every heartbeat and event to have been reported before it is drained."""


@dataclass
class Scene:
    """A server with one pipeline, on a Spark cluster."""

    server: ServerProcess
    spark: SparkCluster
    pipeline: TestPipeline

    def round(self) -> dict[str, dict[str, float]]:
        """One start and one drain, each as its parts in seconds."""
        self.pipeline.feed(10)
        reader = _reader(self.pipeline)
        try:
            started, run_id = self._start(reader)
        finally:
            reader.close()
        time.sleep(_RUNS_FOR_S)
        return {"start": started, "drain": self._drain(run_id)}

    def _start(self, reader: Consumer) -> tuple[dict[str, float], str]:
        asked = time.time()
        run_id = str(self.server.post(f"/pipelines/{_NAME}/runs")["id"])
        found = {"answered": time.time()}
        found["committed"] = _first_record(reader)
        instance, pid = self._is_told(run_id)
        driver, task = self._logs(run_id, instance)
        found |= {
            "picked_up": parsed(instance["submitted_at"]),
            "submitted": moments.process_started_at(instance["jvm_pid"]),
            "driver": moments.process_started_at(instance["python_pid"]),
            "claimed": parsed(instance["claimed_at"]),
            "worker": moments.process_started_at(pid),
            "assigned": moments.assigned_at(self.server.get(f"/runs/{run_id}/events")["items"]),
            **moments.of_driver(driver),
            **moments.of_tasks(task),
        }
        return parts_s(found, START, asked=asked), run_id

    def _drain(self, run_id: str) -> dict[str, float]:
        asked = time.time()
        self.server.post(f"/runs/{run_id}/drain")
        answered = time.time()
        run = self.server.wait_for_run(run_id, "stopped", _DEADLINE_S)
        (instance,) = run["instances"]
        assert instance["outcome"]["kind"] == "drained", instance
        driver, task = self._logs(run_id, instance)
        found = {
            "answered": answered,
            "stopped": parsed(run["ended_at"]),
            **moments.of_driver(driver),
            **moments.of_tasks(task),
        }
        return parts_s(found, DRAIN, asked=asked)

    def _is_told(self, run_id: str) -> tuple[Mapping[str, Any], int]:
        """The instance, and the pid of its task, once the server has received both."""

        def told() -> tuple[Mapping[str, Any], int] | None:
            (instance,) = self.server.get(f"/runs/{run_id}")["instances"]
            tasks = self.server.get(f"/runs/{run_id}/tasks")["items"]
            events = self.server.get(f"/runs/{run_id}/events")["items"]
            is_all = tasks and any(event["kind"] == "assigned" for event in events)
            return (instance, int(tasks[0]["last"]["pid"])) if is_all else None

        found = wait_for(told, 30, "the server to receive the task's heartbeat")
        assert found is not None
        return found

    def _logs(self, run_id: str, instance: Mapping[str, Any]) -> tuple[str, str]:
        """The driver's and the executor's."""
        folder = self.server.state_dir / "instances" / f"{run_id}-{instance['ordinal']}-{instance['lease']}"
        driver = (folder / "driver.log").read_text(errors="replace")
        return driver, moments.task_log(self.spark.data_dir, str(instance["application_id"]))


def _reader(pipeline: TestPipeline) -> Consumer:
    """The records that are committed to the sink from now on."""
    reader = Consumer(
        {
            "bootstrap.servers": pipeline.bootstrap_servers,
            "group.id": "bench-start-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    asked = [TopicPartition(pipeline.sink, number) for number in range(_PARTITIONS)]
    reader.assign([TopicPartition(one.topic, one.partition, reader.get_watermark_offsets(one, 30)[1]) for one in asked])
    return reader


def _first_record(reader: Consumer) -> float:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            return time.time()
    raise AssertionError(f"nothing was committed within {_DEADLINE_S:g} s")


def measure(folder: Path, rounds: int) -> list[dict[str, dict[str, float]]]:
    """Everything started, and as many rounds."""
    found: list[dict[str, dict[str, float]]] = []
    with EmbeddedPostgres.start() as postgres, KafkaCluster.start() as kafka, SparkCluster.start() as spark:
        server = ServerProcess(
            state_dir=folder / "state",
            cache_dir=folder / "cache",
            database_url=create_database(postgres.url),
            settings={"FENCELINE_SPARK_MASTER_WEB_URLS": f"{spark.master_url}={spark.master_web_url}"},
        )
        server.start()
        try:
            pipeline = TestPipeline.create(
                kafka.bootstrap_servers,
                partitions=_PARTITIONS,
                cluster=server.registered_cluster(kafka.bootstrap_servers),
                session_timeout_ms=10_000,
                spark=SparkSettings(master=spark.master_url),
            )
            server.create_pipeline(_NAME, pipeline.definition)
            scene = Scene(server, spark, pipeline)
            for number in range(rounds):
                found.append(scene.round())
                took = {name: round(sum(parts.values()), 2) for name, parts in found[-1].items()}
                say(f"round {number + 1}: start {took['start']} s, drain {took['drain']} s")
        finally:
            server.process.stop()
            server.end_drivers()
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 3), "lowest": min(values), "highest": max(values)}


def summary(rounds: Sequence[Mapping[str, Mapping[str, float]]], of: str) -> dict[str, Any]:
    """The median of each part by itself, and of the whole: the medians of the parts need not add up to it."""
    each = {part: spread([one[of][part] for one in rounds]) for part in rounds[0][of]}
    return {"all_s": spread([round(sum(one[of].values()), 3) for one in rounds]), "parts_s": each}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.start", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dry", action="store_true", help="print only")
    chosen = parser.parse_args()
    on = machine()
    with tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder:
        rounds = measure(Path(folder), chosen.rounds)
    summaries = {of: summary(rounds, of) for of in ("start", "drain")}
    keep("start", on, {"versions": versions(), **summaries, "rounds": rounds})


if __name__ == "__main__":
    sys.exit(main())
