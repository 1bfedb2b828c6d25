"""A window query on a standalone master under a real server: its executor and the server are killed, and its windows
are recomputed. The judge of the windows shares no code with query or recomputation.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from app.core.pipelines.pipeline import DataframeQuery, SparkSettings, StartPosition, Stream
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark import Executor, SparkCluster
from tests.faults.test_query_drills import create_pipeline
from tests.support import verifier
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET
from tests.support.server_process import ServerProcess
from tests.support.serving import FENCELINE
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

START_S = 1_700_000_000
PER_S = 10
"""Records of a partition in a second of event time: at the feeder's rate, ten of them pass in a second."""
WINDOW_S = 10
WATERMARK_S = 60
STARTS_WITHIN_S = 400
GOES_ON_WITHIN_S = 200
JOB_WITHIN_S = 400
PER_WINDOW = """
SELECT carrier AS key, window.start AS start, carrier, count(*) AS n, sum(number) AS total
FROM records GROUP BY window(at, '10 seconds'), carrier
"""
Window = tuple[str, int, int, int]
"""Carrier, start in seconds, number and sum."""


def fields_of(identity: str) -> tuple[str, int, int]:
    """The carrier, the event time in seconds and the number of a record."""
    sequence = int(identity.partition(":")[2])
    return "ABC"[sequence % 3], START_S + sequence // PER_S, sequence


def value_of(identity: str) -> bytes:
    carrier, at, number = fields_of(identity)
    event_time = datetime.fromtimestamp(at, UTC).isoformat()
    return json.dumps({"carrier": carrier, "at": event_time, "number": number}).encode()


def expected_windows(identities: Iterable[str]) -> dict[tuple[str, int], Window]:
    numbers: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for identity in identities:
        carrier, at, number = fields_of(identity)
        numbers[carrier, at // WINDOW_S * WINDOW_S].append(number)
    return {place: (*place, len(found), sum(found)) for place, found in numbers.items()}


@dataclass
class WindowQuery:
    name: str
    run_id: str
    pipeline: TestPipeline
    server: ServerProcess
    cluster: SparkCluster
    feeder: Feeder

    def instance(self) -> dict[str, Any]:
        (instance,) = self.server.get(f"/runs/{self.run_id}")["instances"]
        return instance

    def leases(self) -> list[int]:
        return [one["lease"] for one in self.server.get(f"/runs/{self.run_id}/instances")["items"]]

    def newest_batch(self) -> int:
        newest = self.server.get(f"/pipelines/{self.name}/query")["newest"]
        return -1 if newest is None else newest["batch"]

    def batches(self) -> list[int]:
        """Those that the server knows, newest first, without a page's rest."""
        return [one["batch"] for one in self.server.get(f"/pipelines/{self.name}/batches?limit=200")["items"]]

    def executor(self) -> Executor:
        application_id = self.instance()["application_id"]
        return wait_for(
            lambda: next(iter(self.cluster.executors(application_id)), None),  # pyright: ignore[reportReturnType]
            60,
            f"an executor of {application_id}",
        )

    def wait_for_batches(self, more: int, deadline_s: float) -> None:
        wanted = self.newest_batch() + more
        wait_for(lambda: self.newest_batch() >= wanted, deadline_s, lambda: f"batch {wanted}; {self.story()}")

    def windows(self) -> Counter[Window]:
        found: Counter[Window] = Counter()
        for record in verifier.read_all(self.pipeline.bootstrap_servers, self.pipeline.sink):
            value = json.loads(record.value or b"")
            start = int(datetime.fromisoformat(value["start"]).timestamp())
            found[value["carrier"], start, value["n"], value["total"]] += 1
        return found

    def assert_closed_windows_are_exact(self) -> int:
        """Every window that the watermark has passed for certain is there once, with its count and sum.

        Returns the number of those windows.
        """
        expected = expected_windows(self.feeder.fed())
        newest = max(start for _, start in expected)
        due = {window for (_, start), window in expected.items() if start + 2 * WINDOW_S + WATERMARK_S < newest}
        seen: list[Counter[Window]] = []

        def is_all_there() -> bool:
            seen.append(self.windows())
            return due <= set(seen[-1])

        wait_for(is_all_there, GOES_ON_WITHIN_S, lambda: f"{sorted(due - set(seen[-1]))[:5]}; {self.story()}")
        found = seen[-1]
        assert [window for window, count in found.items() if count > 1] == []
        places = Counter((carrier, start) for carrier, start, _, _ in found)
        assert [place for place, count in places.items() if count > 1] == [], "a window has two results"
        return len(due)

    def story(self) -> str:
        logs = [*self.server.state_dir.glob(f"instances/{self.run_id}-*/driver.log")]
        told = [path.read_text(errors="replace")[-3000:] for path in logs]
        return "\n".join([str(self.server.get(f"/runs/{self.run_id}")), *told])


@pytest.fixture(scope="module")
def query(
    server: ServerProcess, kafka: KafkaCluster, spark_cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory
) -> Generator[WindowQuery]:
    pipeline = TestPipeline.create(
        kafka.bootstrap_servers,
        value_of=value_of,
        cluster=server.registered_cluster(kafka.bootstrap_servers),
        session_timeout_ms=6_000,
        transaction_timeout_ms=60_000,
        start_position=StartPosition.EARLIEST,
        spark=SparkSettings(master=spark_cluster.master_url),
    )
    records = Stream(
        name="records",
        topic=pipeline.source,
        schema="carrier STRING, at TIMESTAMP, number INT",
        event_time="at",
        watermark_ms=WATERMARK_S * 1_000,
    )
    transform = DataframeQuery(
        streams=(records,),
        checkpoint=(tmp_path_factory.mktemp("query") / "checkpoint").as_uri(),
        sql=PER_WINDOW,
        trigger_ms=1_000,
        max_offsets_per_trigger=5_000,
        shuffle_partitions=2,
        executor_cores=1,
    )
    pipeline.definition = replace(pipeline.definition, transform=transform)
    name = unique_name("windows")
    create_pipeline(server, name, pipeline)
    run_id = str(server.post(f"/pipelines/{name}/runs")["id"])
    feeder = Feeder(pipeline, records_per_s=200)
    made = WindowQuery(name, run_id, pipeline, server, spark_cluster, feeder)
    feeder.start()
    try:
        wait_for(lambda: made.newest_batch() >= 2, STARTS_WITHIN_S, made.story)
        yield made
    finally:
        feeder.stop()
        server.post(f"/runs/{run_id}/kill")


def test_a_killed_executor_is_replaced_under_the_same_driver(query: WindowQuery) -> None:
    before, executor = query.instance(), query.executor()
    os.kill(executor.pid, signal.SIGKILL)
    query.wait_for_batches(3, GOES_ON_WITHIN_S)
    after = query.instance()
    assert [after[each] for each in ("lease", "jvm_pid", "python_pid")] == [
        before[each] for each in ("lease", "jvm_pid", "python_pid")
    ]
    assert query.executor().pid != executor.pid
    assert query.assert_closed_windows_are_exact() > 0


def test_a_restarted_server_adopts_the_driver_and_learns_every_batch(query: WindowQuery) -> None:
    leases, before = query.leases(), query.instance()
    known, windows = query.newest_batch(), query.windows().total()
    query.server.kill()
    wait_for(lambda: query.windows().total() > windows, GOES_ON_WITHIN_S, "windows without a server")
    query.server.start()
    query.server.wait_for_run(query.run_id, "running", 60)
    query.wait_for_batches(3, GOES_ON_WITHIN_S)
    assert query.leases() == leases
    assert psutil.pid_exists(before["python_pid"])
    assert query.instance()["python_pid"] == before["python_pid"]
    newest = query.newest_batch()
    assert set(range(known, newest + 1)) <= set(query.batches())
    assert query.assert_closed_windows_are_exact() > 0


def test_a_recomputation_is_requested_and_read_like_every_comparison_and_finds_a_planted_window(
    query: WindowQuery,
) -> None:
    query.assert_closed_windows_are_exact()
    equal = recomputed(query)
    assert (equal["state"], equal["verdict"]) == ("done", "clean"), equal
    counts = equal["result"]["counts"]
    assert counts["expected"] == counts["outputs"] > 0
    shown = query.server.get(f"/audits/{equal['id']}")
    assert shown["result"]["counts"] == counts
    page = query.server.look(f"/audits/{equal['id']}")
    assert "compared with the recomputation" in page
    assert "Both sides are equal" in page

    planted = plant_another_count(query)
    broken = recomputed(query)
    assert (broken["state"], broken["verdict"]) == ("done", "broken"), broken
    counts = broken["result"]["counts"]
    assert [counts[kind]["records"] for kind in ("lost", "duplicated", "different", "unexpected")] == [0, 1, 0, 0]
    assert planted in json.dumps(query.server.get(f"/audits/{broken['id']}?with_ids=true"))
    assert "broken" in query.server.look(f"/pipelines/{query.name}/audits").lower()


def recomputed(query: WindowQuery) -> dict[str, Any]:
    """The comparison of all records with their recomputation, by the command line of its own process."""
    ended = subprocess.run(
        [
            *FENCELINE,
            *("compare", query.name, "--with", "recomputation", "--id", "key", "--time", "start", "--everything"),
            *("--padding", "0", "--wait", str(JOB_WITHIN_S), "--json"),
        ],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("FENCELINE_")},
            "FENCELINE_STATE_DIR": str(query.server.state_dir),
            "FENCELINE_SERVER_URL": query.server.url,
        },
        capture_output=True,
        text=True,
        timeout=JOB_WITHIN_S + 60,
        check=False,
    )
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout)


def plant_another_count(query: WindowQuery) -> str:
    """Write a committed window of the first records once more, with another count; returns its key."""
    records = verifier.read_all(query.pipeline.bootstrap_servers, query.pipeline.sink)
    first = min(records, key=lambda one: (json.loads(one.value or b"")["start"], one.key or b""))
    fields = json.loads(first.value or b"")
    producer = Producer({"bootstrap.servers": query.pipeline.bootstrap_servers, **QUIET})
    value = json.dumps({**fields, "n": fields["n"] + 1}).encode()
    producer.produce(query.pipeline.sink, key=first.key, value=value, partition=first.partition)
    assert producer.flush(30) == 0
    return (first.key or b"").decode()
