"""Drills of a query on a real broker and a local Spark under a real server: no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
import psycopg
import pytest
from msgspec.structs import replace

from app.core.pipelines.pipeline import DataframeQuery, Identity, SparkSettings, Stream
from app.edges.embedded.kafka import KafkaCluster
from tests.support import verifier
from tests.support.databases import create_database, drop_database
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.server_process import ServerProcess
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

SESSION_S = 6.0
FREEZE_S = 45.0
"""Long enough for a second driver: the session timeout, a JVM's start, and the claim."""
DRIVER_STARTS_S = 400


@dataclass
class RunningQuery:
    name: str
    run_id: str
    pipeline: TestPipeline
    server: ServerProcess
    feeder: Feeder

    def leases(self) -> list[dict[str, Any]]:
        """Oldest first."""
        return sorted(self.server.get(f"/runs/{self.run_id}/instances")["items"], key=lambda one: one["lease"])

    def log(self, lease: int) -> str:
        found = self.server.state_dir.glob(f"instances/{self.run_id}-0-{lease}/driver.log")
        return "\n".join(path.read_text(errors="replace") for path in found)

    def drill(self, kind: str, deadline_s: float) -> dict[str, Any]:
        """Order a drill, and return it at its end."""
        ordered = self.server.post(f"/pipelines/{self.name}/drills", {"kind": kind, "ordinal": 0, "for_s": FREEZE_S})
        drill: dict[str, Any] = {}

        def has_ended() -> bool:
            drill.update(self.server.get(f"/drills/{ordered['id']}"))
            return drill["ended_at"] is not None

        wait_for(has_ended, deadline_s, lambda: f"the end of the drill; {told(drill)}\n{self.log(2)[-3000:]}")
        return drill

    def assert_fenced_by_a_driver(self) -> None:
        """A transaction that was open, if any, was ended by the second driver, or by its timeout on a busy machine. A
        driver that thaws in the middle of a batch may initialise the id, too: that event has its name.
        """
        events = self.server.get(f"/fencing?pipeline={self.name}")["items"]
        others = [event for event in events if event["cause"] not in ("newer_driver", "timeout")]
        assert {event["cause"] for event in others} <= {"takeover"}, others
        assert all(event["sentence"].startswith("The driver of lease 1 ") for event in others), others
        detail = self.server.get(f"/clusters/embedded/groups/{self.pipeline.definition.group_id}")
        assert [one["instance_id"] for one in detail["member_list"]] == [f"{self.name}-driver"]

    def assert_nothing_lost_nothing_double(self) -> None:
        """Every row that was fed by now is in the sink once. The query goes on."""
        fed = set(self.feeder.fed())
        audits: list[verifier.Audit] = []

        def is_all_there() -> bool:
            rows = verifier.read_all(self.pipeline.bootstrap_servers, self.pipeline.sink)
            audits.append(verifier.audit([row for row in rows if verifier.id_of(row.value) in fed], fed))
            return not audits[-1].lost

        wait_for(is_all_there, 60, lambda: f"all rows; {audits[-1]}")
        assert not audits[-1].duplicated, str(audits[-1])


def told(drill: Mapping[str, Any]) -> list[str]:
    return [entry["sentence"] for entry in drill.get("entries", ())]


def value_of(identity: str) -> bytes:
    return f'{{"id": "{identity}"}}'.encode()


@pytest.fixture(scope="module")
def server(postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    url = create_database(postgres_server_url)
    server = ServerProcess(state_dir=folder / "state", cache_dir=folder / "cache", database_url=url)
    try:
        server.start()
        yield server
    finally:
        server.process.stop()
        server.end_drivers()
        drop_database(postgres_server_url, url)


@pytest.fixture
def start(server: ServerProcess, kafka: KafkaCluster, tmp_path: Path) -> Generator[Callable[[], RunningQuery]]:
    started: list[RunningQuery] = []

    def make() -> RunningQuery:
        pipeline = TestPipeline.create(
            kafka.bootstrap_servers,
            value_of=value_of,
            cluster=server.registered_cluster(kafka.bootstrap_servers),
            session_timeout_ms=int(SESSION_S * 1000),
            transaction_timeout_ms=60_000,
            spark=SparkSettings(master="local[2]"),
            allows_drills=True,
        )
        query = DataframeQuery(
            streams=(Stream(name="records", topic=pipeline.source, schema="id STRING"),),
            checkpoint=(tmp_path / "checkpoint").as_uri(),
            sql="SELECT id AS key, concat(id, ' ') AS value FROM records",
            trigger_ms=500,
            max_offsets_per_trigger=5_000,
        )
        pipeline.definition = replace(pipeline.definition, transform=query)
        name = unique_name("drilled")
        create_pipeline(server, name, pipeline)
        run_id = str(server.post(f"/pipelines/{name}/runs")["id"])
        made = RunningQuery(name, run_id, pipeline, server, Feeder(pipeline, records_per_s=200))
        started.append(made)
        made.feeder.start()
        wait_until_running(made)
        return made

    yield make
    for one in started:
        one.feeder.stop()
        server.post(f"/runs/{one.run_id}/kill")


def create_pipeline(server: ServerProcess, name: str, pipeline: TestPipeline) -> None:
    """Create the query without the check of its plan, for which a loaded machine has too little time."""
    server.create_pipeline(name, replace(pipeline.definition, transform=Identity()))
    plain = server.database_url.replace("postgresql+psycopg://", "postgresql://")
    query = msgspec.json.encode(pipeline.definition.transform).decode()
    with psycopg.connect(plain) as connection:
        # Revisions are kept as they were written, by a trigger.
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE revisions SET definition = definition || jsonb_build_object('transform', %s::jsonb) "
            "FROM pipelines WHERE pipelines.id = revisions.pipeline_id AND pipelines.name = %s",
            (query, name),
        )


def wait_until_running(query: RunningQuery) -> None:
    seen: list[Any] = [None]

    def has_committed() -> bool:
        seen[0] = query.server.get(f"/runs/{query.run_id}/tasks")["items"]
        return any(
            one["last"]["state"] == "running" and one["last"]["counters"]["transactions_committed"] > 1
            for one in seen[0]
        )

    wait_for(has_committed, DRIVER_STARTS_S, lambda: f"batches; {seen[0]}\n{query.log(1)[-3000:]}")


def test_a_killed_driver_is_followed_by_the_next_one(start: Callable[[], RunningQuery]) -> None:
    query = start()
    drill = query.drill("kill_instance", 400)
    sentences = told(drill)
    assert drill["recovered_at"] is not None, sentences
    (target,) = drill["targets"]
    assert (target["is_driver"], target["state"]) == (True, "killed")
    assert not psutil.pid_exists(target["pid"])
    assert not psutil.pid_exists(target["jvm_pid"])
    first, second = query.leases()
    assert (first["state"], first["outcome"]["kind"]) == ("failed", "drilled")
    assert (second["state"], second["failures"]) == ("running", 0)
    assert any("begins attempt 0 (lease 2)" in sentence for sentence in sentences), sentences
    assert (drill["verdict"], drill["audit"]) == ("survived", None), drill["sentence"]
    query.assert_fenced_by_a_driver()
    query.assert_nothing_lost_nothing_double()


def test_a_frozen_driver_is_replaced_and_refused_after_its_thaw(start: Callable[[], RunningQuery]) -> None:
    query = start()
    drill = query.drill("freeze_instance", 400)
    sentences = told(drill)
    assert drill["recovered_at"] is not None, sentences
    assert any(sentence.startswith("lease 1 is ended: frozen by a drill") for sentence in sentences), sentences
    assert any("is thawed (SIGCONT)" in sentence for sentence in sentences), sentences
    wait_for(lambda: "ended: " in query.log(1), 60, lambda: f"the end of the zombie\n{query.log(1)[-3000:]}")
    assert "ended: superseded" in query.log(1), query.log(1)[-3000:]
    assert (drill["verdict"], drill["audit"]) == ("survived", None), drill["sentence"]
    query.assert_fenced_by_a_driver()
    first, second = query.leases()
    assert (first["outcome"]["kind"], second["state"]) == ("drilled", "running")
    query.assert_nothing_lost_nothing_double()
