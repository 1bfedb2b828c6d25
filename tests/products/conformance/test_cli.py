"""`fenceline conformance` from the shell: the report names its cluster, and no topic is left there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from confluent_kafka.admin import AdminClient

from app.edges.embedded.kafka import KafkaCluster
from tests.support.serving import FENCELINE
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

_SCHEMA = Path(__file__).parents[3] / "docs" / "conformance.schema.json"


def started(kafka: KafkaCluster, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*FENCELINE, "conformance", "--bootstrap-server", kafka.bootstrap_servers, *arguments],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def topics_of(kafka: KafkaCluster, prefix: str) -> list[str]:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return [topic for topic in client.list_topics(timeout=20).topics if topic.startswith(prefix)]


def test_report_says_of_which_cluster_it_is(kafka: KafkaCluster, tmp_path: Path) -> None:
    chosen = ("--only", "committed-stays", "--only", "durability")
    said, errors = started(kafka, tmp_path, *chosen, "--json").communicate(timeout=60)
    found: dict[str, Any] = json.loads(said)
    jsonschema.validate(found, json.loads(_SCHEMA.read_text("utf-8")))
    verdicts = {one["check"]: one["verdict"] for one in found["results"]}
    assert verdicts == {"committed-stays": "kept", "outlives-a-broker": "at_risk"}
    assert found["cluster_id"] == kafka.cluster_id
    assert found["features"]["transaction.version"] == 2
    settings = {one["name"]: one["values"] for one in found["settings"]}
    assert settings["transaction.state.log.min.isr"] == ["1"]
    assert [broker["version"] for broker in found["brokers"]] == ["4.3"]
    assert (found["is_complete"], found["left_behind"], errors) == (True, [], "")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_prints_its_results_and_leaves_no_topics(
    kafka: KafkaCluster, tmp_path: Path, stop: signal.Signals
) -> None:
    prefix = unique_name("stopped")
    # It lasts for seconds, whatever the machine.
    running = started(kafka, tmp_path, "--prefix", prefix, "--only", "dead-producer-is-aborted")
    try:
        wait_for(lambda: topics_of(kafka, prefix), 30, "a topic of the check")
        running.send_signal(stop)
        said, errors = running.communicate(timeout=30)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130, errors
    assert "stopped before the end: nothing checked" in said
    assert "Traceback" not in errors
    wait_for(lambda: not topics_of(kafka, prefix), 20, lambda: f"no topics, there are {topics_of(kafka, prefix)}")
