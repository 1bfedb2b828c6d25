"""`fenceline runs` from the start to the end of a real run, as a user types it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from app.core.runs.cli import ENDED
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support import verifier
from tests.support.fixtures import Fenceline, json_of
from tests.support.serving import Serving
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

UP_WITHIN_S = "180"
DOWN_WITHIN_S = "60"


@pytest.fixture
def pipeline(served: Serving, cluster: str, make_topic: MakeTopic) -> Generator[str]:
    """It runs on this machine, and has nothing to read. No run of it is left."""
    name = unique_name("typed")
    definition = {
        "cluster": cluster,
        "source_topics": [make_topic()],
        "group_id": name,
        "sink_topic": make_topic(),
        "spark": {"master": "local"},
    }
    with served.client() as client:
        created = client.post("/api/v1/pipelines", json={"name": name, "definition": definition})
        assert created.status_code == 201, created.text
        yield name

        def current() -> Any:
            return client.get(f"/api/v1/pipelines/{name}").json()["current_run"]

        if (run := current()) is not None and run["state"] not in ENDED:
            client.post(f"/api/v1/runs/{run['id']}/kill", json={})
            wait_for(lambda: current()["state"] in ENDED, 60, lambda: f"the end of {current()}")


def test_run_is_started_shown_paused_resumed_and_drained(fenceline: Fenceline, pipeline: str) -> None:
    started = fenceline("runs", "start", pipeline, "--why", "by hand", "--wait", UP_WITHIN_S)
    assert started.returncode == 0, started.stdout + started.stderr
    assert f"started {pipeline}, run " in started.stdout + started.stderr
    assert "it is running" in started.stdout + started.stderr

    shown = json_of(fenceline("runs", "show", pipeline, "--json"))
    run_id = shown["id"]
    assert (shown["pipeline"], shown["state"], shown["started_by"]) == (pipeline, "running", "local-administrator")
    assert [(last["ordinal"], last["task"], last["state"]) for last in (task["last"] for task in shown["tasks"])] == [
        (0, 0, "running")
    ]
    as_table = fenceline("runs", "show", run_id).stdout
    assert shown["instances"][0]["application_id"][:8] in as_table
    assert [item["id"] for item in json_of(fenceline("runs", "list", "-p", pipeline, "--json"))] == [run_id]
    assert pipeline in fenceline("runs", "list").stdout

    again = fenceline("runs", "start", pipeline)
    assert again.returncode == 1
    assert f"has a run already: {run_id} is running" in " ".join(again.stderr.split())

    for verb, becomes in (("pause", "paused"), ("resume", "running")):
        ended = json_of(fenceline("runs", verb, pipeline, "--wait", "30", "--json"))
        assert (ended["id"], ended["state"]) == (run_id, becomes)

    drained = json_of(fenceline("runs", "drain", pipeline, "--why", "seen enough", "--wait", DOWN_WITHIN_S, "--json"))
    assert (drained["state"], drained["instances"][0]["outcome"]["kind"]) == ("stopped", "drained")
    late = fenceline("runs", "pause", pipeline)
    assert late.returncode == 1
    assert f"run {run_id} of {pipeline} has ended already" in " ".join(late.stderr.split())


def feed(bootstrap_servers: str, topic: str, ids: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in ids:
        producer.produce(topic, f"{number}".encode())
    assert producer.flush(20) == 0


def test_a_start_of_a_group_that_was_deleted_is_refused_and_resumes_at_the_recorded_offsets(
    fenceline: Fenceline, served: Serving, pipeline: str, kafka: KafkaCluster
) -> None:
    with served.client() as client:
        definition = client.get(f"/api/v1/pipelines/{pipeline}").json()["definition"]
    (source,), sink, group = definition["source_topics"], definition["sink_topic"], definition["group_id"]

    def is_consumed(count: int) -> bool:
        return verifier.committed_offsets(kafka.bootstrap_servers, group) == {(source, 0): count}

    def run_over(count: int) -> None:
        started = fenceline("runs", "start", pipeline)
        assert started.returncode == 0, started.stdout + started.stderr
        wait_for(lambda: is_consumed(count), float(UP_WITHIN_S), f"{count} committed records")
        drained = json_of(fenceline("runs", "drain", pipeline, "--wait", DOWN_WITHIN_S, "--json"))
        assert drained["instances"][0]["outcome"]["kind"] == "drained"

    feed(kafka.bootstrap_servers, source, range(10))
    run_over(10)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_consumer_groups([group])[group].result(30)  # pyright: ignore[reportUnknownMemberType]
    feed(kafka.bootstrap_servers, source, range(10, 13))

    refused = fenceline("runs", "start", pipeline)
    assert refused.returncode == 1
    said = " ".join(refused.stderr.split())
    assert f"{source}-0 was committed at 10 and would begin at 0 (10 offsets processed again)" in said
    assert f"fenceline runs offsets {pipeline} --to recorded --execute --why" in said

    resume = ("runs", "offsets", pipeline, "--to", "recorded")
    shown = json_of(fenceline(*resume, "--json"))
    assert [(one["committed"], one["target"]) for one in shown["changes"]] == [(None, 10)]
    without = fenceline(*resume, "--execute")
    assert without.returncode != 0
    assert "--execute needs a reason" in " ".join(without.stderr.split())
    assert verifier.committed_offsets(kafka.bootstrap_servers, group) == {}
    assert fenceline(*resume, "--execute", "--why", "somebody deleted the group").returncode == 0
    assert is_consumed(10)

    run_over(13)
    found = [int(record.value or b"") for record in verifier.read_all(kafka.bootstrap_servers, sink)]
    assert sorted(found) == list(range(13))


def test_kill_asks_first_and_a_timeout_is_reported(fenceline: Fenceline, pipeline: str) -> None:
    slow = fenceline("runs", "start", pipeline, "--wait", "0")
    assert slow.returncode == 1
    assert "timed out; run " in " ".join(slow.stderr.split())
    asked = fenceline("runs", "kill", pipeline)
    assert asked.returncode != 0, "there is no terminal to confirm"
    killed = json_of(fenceline("runs", "kill", pipeline, "--yes", "--wait", DOWN_WITHIN_S, "--json"))
    assert killed["state"] == "stopped"
