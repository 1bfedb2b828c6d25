"""Drills of a query on a real broker and a local Spark under a real server: no row is lost or doubled."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
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
SERVER_AWAY_S = 15.0
LONGEST_FREEZE_S = 120.0
OUTLASTS_ALL_MS = 600_000
"""A transaction timeout that no test reaches."""
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

    def order(self, kind: str, for_s: float) -> str:
        """Order a drill, and return its id."""
        ordinal = None if kind == "freeze_server" else 0
        wanted = {"kind": kind, "ordinal": ordinal, "for_s": for_s}
        return str(self.server.post(f"/pipelines/{self.name}/drills", wanted)["id"])

    def drill(self, kind: str, deadline_s: float, for_s: float = FREEZE_S) -> dict[str, Any]:
        """Order a drill, and return it at its end."""
        return self.ended(self.order(kind, for_s), deadline_s)

    def ended(self, drill_id: str, deadline_s: float) -> dict[str, Any]:
        drill: dict[str, Any] = {}

        def has_ended() -> bool:
            drill.update(self.server.get(f"/drills/{drill_id}"))
            return drill["ended_at"] is not None

        wait_for(has_ended, deadline_s, lambda: f"the end of the drill; {told(drill)}\n{self.log(2)[-3000:]}")
        return drill

    def fencings(self) -> list[dict[str, Any]]:
        return self.server.get(f"/fencing?pipeline={self.name}")["items"]

    def wait_until_superseded(self) -> None:
        """Until the first driver has ended, refused."""
        wait_for(lambda: "ended: " in self.log(1), 60, lambda: f"the end of the zombie\n{self.log(1)[-3000:]}")
        assert "ended: superseded" in self.log(1), self.log(1)[-3000:]

    @contextmanager
    def frozen_in_a_transaction(self) -> Generator[None]:
        """Stop the JVM while its transaction is open. It stays stopped until a drill's watchdog thaws it."""
        (lease,) = self.leases()
        jvm = psutil.Process(lease["jvm_pid"])

        def is_stopped_in_one() -> bool:
            if not self._has_open_transaction():
                return False
            jvm.suspend()
            # The request that ends it may be on its way.
            if all(self._has_open_transaction() for _ in range(3)):
                return True
            jvm.resume()
            return False

        wait_for(is_stopped_in_one, 120, "an open transaction")
        try:
            yield
        finally:
            with suppress(psutil.NoSuchProcess):
                jvm.resume()

    def _has_open_transaction(self) -> bool:
        return verifier.has_open_transaction(self.pipeline.bootstrap_servers, self.pipeline.sink)

    def assert_fenced_by_a_driver(self) -> None:
        """A transaction that was open, if any, was ended by the second driver, or by its timeout on a busy machine. A
        driver that thaws in the middle of a batch may initialise the id, too: that event has its name.
        """
        others = [event for event in self.fencings() if event["cause"] not in ("newer_driver", "timeout")]
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
def start(server: ServerProcess, kafka: KafkaCluster, tmp_path: Path) -> Generator[Callable[..., RunningQuery]]:
    started: list[RunningQuery] = []

    def make(*, transaction_timeout_ms: int = 60_000) -> RunningQuery:
        pipeline = TestPipeline.create(
            kafka.bootstrap_servers,
            value_of=value_of,
            cluster=server.registered_cluster(kafka.bootstrap_servers),
            session_timeout_ms=int(SESSION_S * 1000),
            transaction_timeout_ms=transaction_timeout_ms,
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
    query.wait_until_superseded()
    assert (drill["verdict"], drill["audit"]) == ("survived", None), drill["sentence"]
    query.assert_fenced_by_a_driver()
    first, second = query.leases()
    assert (first["outcome"]["kind"], second["state"]) == ("drilled", "running")
    query.assert_nothing_lost_nothing_double()


def test_a_driver_that_is_replaced_within_a_transaction_is_fenced_by_a_newer_driver(
    start: Callable[..., RunningQuery],
) -> None:
    """Two living drivers: the second one aborts what the first one has open, and the first one thaws afterwards."""
    query = start(transaction_timeout_ms=OUTLASTS_ALL_MS)
    assert query.fencings() == []
    with query.frozen_in_a_transaction():
        drill_id = query.order("freeze_instance", LONGEST_FREEZE_S)
        wait_for(
            lambda: bool(query.fencings()),
            LONGEST_FREEZE_S,
            lambda: f"a fencing event; {told(query.server.get(f'/drills/{drill_id}'))}\n{query.log(2)[-3000:]}",
        )
        query.server.post(f"/drills/{drill_id}/stop")
        assert query.ended(drill_id, 60)["verdict"] == "stopped"
    query.wait_until_superseded()
    # Between its thaw and its end the first driver may initialise the id, too: later events than this one.
    event = query.fencings()[-1]
    assert (event["cause"], event["confidence"]) == ("newer_driver", "likely"), event
    group = query.pipeline.definition.group_id
    assert re.match(
        rf"A newer driver took pipeline {query.name}: the driver of lease 2 on \S+, claimed [^,;]+ before; the older "
        rf"one had lease 1\. It joined group {re.escape(group)} as static member {query.name}-driver\. It fenced ",
        event["sentence"],
    ), event["sentence"]
    page = query.server.look(f"/fencing/{event['id']}")
    assert "<h1>Newer driver</h1>" in page
    assert f"A newer driver took pipeline {query.name}" in page
    query.assert_nothing_lost_nothing_double()


def test_without_the_server_every_batch_is_committed_and_reported_afterwards(
    start: Callable[..., RunningQuery],
) -> None:
    query = start()
    drill = query.drill("freeze_server", 120, SERVER_AWAY_S)
    sentences = told(drill)
    assert (drill["verdict"], drill["audit"]) == ("survived", None), (drill["sentence"], sentences)
    found = re.match(r"batches ([\d,]+) to ([\d,]+) are committed once each by their records", drill["sentence"])
    assert found, drill["sentence"]
    first, last = (int(each.replace(",", "")) for each in found.groups())
    assert drill["watched"]["unseen_s"] >= SERVER_AWAY_S - 1
    assert drill["watched"]["committed_unseen"] > 0, sentences
    # One batch of half a second after the other, also while nobody could receive a report.
    listed = query.server.get(f"/pipelines/{query.name}/batches?limit=200")["items"]
    assert set(range(first, last + 1)) <= {one["batch"] for one in listed}
    assert last - first > SERVER_AWAY_S / 2, (first, last)
    assert [one["lease"] for one in query.leases()] == [1]
    assert query.fencings() == []
    query.assert_nothing_lost_nothing_double()
