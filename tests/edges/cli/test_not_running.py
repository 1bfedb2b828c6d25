"""A run whose task cannot join its group is never called running: real brokers, a real task, the command as typed."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.core.runs.cli import ENDED
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.fixtures import Fenceline, json_of
from tests.support.kafka_clients import Members
from tests.support.serving import Serving
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

UP_WITHIN_S = "180"


def _definition(cluster: str, name: str, source: str, sink: str, **more: Any) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "source_topics": [source],
        "group_id": name,
        "sink_topic": sink,
        "spark": {"master": "local"},
        **more,
    }


@pytest.fixture
def pipeline(served: Serving, cluster: str, make_topic: MakeTopic) -> Generator[tuple[str, str]]:
    """Its name and its source topic. No run of it is left."""
    name, source = unique_name("joins"), make_topic()
    with served.client() as client:
        body = {"name": name, "definition": _definition(cluster, name, source, make_topic())}
        created = client.post("/api/v1/pipelines", json=body)
        assert created.status_code == 201, created.text
        yield name, source

        def current() -> Any:
            return client.get(f"/api/v1/pipelines/{name}").json()["current_run"]

        if (run := current()) is not None and run["state"] not in ENDED:
            client.post(f"/api/v1/runs/{run['id']}/kill", json={})
            wait_for(lambda: current()["state"] in ENDED, 60, lambda: f"the end of {current()}")


@pytest.fixture
def members(kafka: KafkaCluster) -> Generator[Members]:
    made = Members({"bootstrap.servers": kafka.bootstrap_servers})
    yield made
    made.leave()


def test_member_with_another_assignor_is_the_reason_and_the_run_is_not_called_running(
    fenceline: Fenceline, served: Serving, pipeline: tuple[str, str], members: Members
) -> None:
    """It joins behind the check of the start, and before the task: librdkafka's own assignors are range, roundrobin."""
    name, source = pipeline
    ended: list[Any] = []
    starting = threading.Thread(
        target=lambda: ended.append(fenceline("runs", "start", name, "--wait", UP_WITHIN_S)), daemon=True
    )
    starting.start()
    with served.client() as client:

        def has_run() -> bool:
            return client.get(f"/api/v1/pipelines/{name}").json()["current_run"] is not None

        wait_for(has_run, 60, "the run being begun")
        members.join(name, source, protocol="classic", client_id="stranger")
        starting.join(240)
        (result,) = ended
        said = " ".join((result.stdout + result.stderr).split())
        assert result.returncode == 1, said
        assert "it is running" not in said
        assert "does not progress: task 0.0: " in said
        assert "INCONSISTENT_GROUP_PROTOCOL" in said or "nconsistent group protocol" in said
        run = client.get(f"/api/v1/pipelines/{name}").json()["current_run"]
        assert run["state"] != "running"
    # Once it is there, the next start is refused for it.
    json_of(fenceline("runs", "kill", name, "--yes", "--wait", "60", "--json"))
    refused = fenceline("runs", "start", name, "--wait", UP_WITHIN_S)
    said = " ".join((refused.stdout + refused.stderr).split())
    assert refused.returncode != 0
    assert "brokers refuse its members (INCONSISTENT_GROUP_PROTOCOL)" in said
    # Control: without it, the same pipeline runs.
    members.leave()
    started = fenceline("runs", "start", name, "--wait", UP_WITHIN_S)
    assert "it is running" in started.stdout + started.stderr


def test_kip_848_switched_off_at_the_broker_is_named_by_validate_and_start(
    fenceline: Fenceline, served: Serving, tmp_path: Path
) -> None:
    protocols = {"group.coordinator.rebalance.protocols": "classic"}
    name = unique_name("kip")
    with (
        KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as kafka,
        served.client() as client,
    ):
        registered = client.post("/api/v1/clusters", json={"name": name, "bootstrap_servers": kafka.bootstrap_servers})
        assert registered.status_code == 201, registered.text
        for topic in ("in", "out"):
            create_topic(kafka.bootstrap_servers, topic)
        definition = _definition(name, name, "in", "out", group_protocol="consumer")
        file = tmp_path / "pipeline.yaml"
        file.write_text(yaml.safe_dump({"name": name, **definition}))
        assert fenceline("pipelines", "validate", "-f", str(file)).returncode == 0
        created = client.post("/api/v1/pipelines", json={"name": name, "definition": definition})
        assert created.status_code == 201, created.text

        broker = kafka.broker(1)
        broker.stop()
        settings = broker.data_dir / "server.properties"
        settings.write_text(settings.read_text() + "".join(f"{key}={value}\n" for key, value in protocols.items()))
        broker.start()
        for command in (("pipelines", "validate", "-f", str(file)), ("runs", "start", name, "--wait", UP_WITHIN_S)):
            refused = fenceline(*command)
            said = " ".join((refused.stdout + refused.stderr).split())
            assert refused.returncode != 0, said
            assert "does not offer the group protocol `consumer` (KIP-848" in said
            assert "it is running" not in said
        assert client.get(f"/api/v1/pipelines/{name}").json()["current_run"] is None
