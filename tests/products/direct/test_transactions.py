"""The commands that ask brokers directly, from the shell: stuck, transactions, groups, fence, end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient

from app.core.clusters.partition import Partition
from app.edges.embedded.kafka import KafkaCluster
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.hanging import UNVERIFIED, make_hanging
from tests.support.kafka_clients import Writer
from tests.support.serving import FENCELINE
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def scene() -> Generator[Scene]:
    # Kafka's default: a metadata request creates the topic.
    settings = {**TEST_BROKER_SETTINGS, **UNVERIFIED, "auto.create.topics.enable": "true"}
    with KafkaCluster.start(overrides=settings) as cluster:
        yield Scene(cluster.bootstrap_servers)


@pytest.fixture
def fenceline(scene: Scene, tmp_path: Path) -> Command:
    """Run a command against the broker, without a server; with any exit code."""

    def run(*arguments: str, servers: str | None = scene.bootstrap_servers) -> subprocess.CompletedProcess[str]:
        named = [] if servers is None else ["--bootstrap-server", servers]
        return subprocess.run(
            [*FENCELINE, *arguments, *named],
            cwd=tmp_path,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def document(ended: subprocess.CompletedProcess[str]) -> Any:
    assert ended.returncode == 0, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
    return orjson.loads(ended.stdout)


@pytest.mark.core
def test_stuck_reads_as_a_chain_and_ends_with_what_to_do(scene: Scene, fenceline: Command) -> None:
    topic = scene.topic()
    name, producer = scene.leave_open(topic, records=2, timeout_ms=900_000)
    ended = fenceline("stuck", f"{topic}:0")
    assert ended.returncode == 0, ended.stderr
    first, *links, verdict, line, ours = ended.stdout.splitlines()
    assert first.startswith(f"read_committed consumers of {topic}-0 are blocked at offset 0. 2 records are behind it")
    assert [line.split()[0] for line in links] == ["because", "because", "which"]
    assert links[0].endswith("s ago")
    assert verdict.startswith("  blocked by an open transaction: It would end by itself only at")
    assert f"describe --transactional-id {name}" in line
    assert ours == f"  fenceline fence {name} --bootstrap-server {scene.bootstrap_servers}"
    found = document(fenceline("stuck", topic, "--json"))
    assert (found["verdict"], found["kind"]) == ("fence", "topic")
    producer.abort_transaction(20)


def test_hanging_transaction_is_shown_then_ended(scene: Scene, fenceline: Command) -> None:
    topic = scene.topic()
    make_hanging(scene.bootstrap_servers, Partition(topic, 0), unique_name("late"))
    shown = fenceline("end", topic, "0")
    assert shown.returncode == 0, shown.stderr
    assert "nothing was changed; --execute executes the plan" in shown.stdout
    assert "kafka-transactions.sh" in shown.stdout
    assert document(fenceline("stuck", topic, "--json"))["verdict"] == "end"
    for found in (
        document(fenceline("stuck", "--json")),
        document(fenceline("transactions", "--hanging", "--json"))["hanging"],
    ):
        (one,) = found["items"]
        assert (one["topic"], one["is_corroborated"]) == (topic, True)
    causes = document(fenceline("stuck", "--json"))["blocked"]["causes"]
    assert [one["verdict"] for one in causes if one["partitions"][0]["topic"] == topic] == ["end"]
    assert f"{topic}-0: " in fenceline("stuck").stdout
    unasked = fenceline("end", topic, "0", "--execute")
    assert "Give --yes to confirm" in unasked.stderr
    done = fenceline("end", topic, "0", "--execute", "--yes")
    assert done.returncode == 0, done.stderr
    assert "is not blocked: consumers can read" in done.stdout
    assert document(fenceline("stuck", topic, "--json"))["verdict"] == "free"


def test_ending_what_lives_is_refused_and_force_needs_a_reason(scene: Scene, fenceline: Command) -> None:
    topic = scene.topic()
    name, producer = scene.leave_open(topic)
    refused = fenceline("end", topic, "0", "--execute", "--yes")
    assert refused.returncode == 1
    assert f"knows it as {name}" in refused.stderr
    assert "--force --why TEXT" in refused.stderr
    assert "--force needs a reason" in fenceline("end", topic, "0", "--force").stderr
    producer.commit_transaction(20)


def test_fence_is_shown_then_done(scene: Scene, fenceline: Command) -> None:
    idle, committed = scene.leave_open(scene.topic())
    committed.commit_transaction(20)
    shown = document(fenceline("fence", idle, "--json"))
    assert shown["is_done"] is False
    assert "it has no open transaction" in shown["refusal"]
    topic = scene.topic()
    name, producer = scene.leave_open(topic)
    done = document(fenceline("fence", name, "--execute", "--yes", "--force", "--why", "its host is gone", "--json"))
    assert (done["is_done"], done["state"]) == (True, "Empty")
    assert document(fenceline("stuck", topic, "--json"))["verdict"] == "free"
    del producer


def test_transactions_are_listed_open_ones_first(scene: Scene, fenceline: Command) -> None:
    topic = scene.topic()
    _, done = scene.leave_open(topic)
    done.commit_transaction(20)
    name, producer = scene.leave_open(topic, records=2)
    found = document(fenceline("transactions", "--json"))
    assert found["source"] == "__transaction_state"
    assert (found["items"][0]["transactional_id"], found["items"][0]["state"]) == (name, "Ongoing")
    assert found["items"][0]["partitions"] == [f"{topic}-0"]
    assert [item["transactional_id"] for item in document(fenceline("transactions", "--open", "--json"))["items"]] == [
        name
    ]
    detail = fenceline("transactions", name)
    assert f"in {topic}-0" in detail.stdout
    assert "initialised" in detail.stdout
    assert "the transactional id nobody was not found" in fenceline("transactions", "nobody").stderr
    producer.abort_transaction(20)


def test_groups_show_what_is_committed_and_what_is_pending(scene: Scene, fenceline: Command) -> None:
    topic, group = scene.topic(), unique_name("g")
    writer = Writer(scene.connection)
    writer.begin(topic, records=1)
    writer.send_offset(group, Partition(topic, 0), 4)
    found = document(fenceline("groups", group, "--json"))
    (position,) = found["positions"]
    assert position["committed"] is None
    assert position["pending"][0]["offset"] == 4
    assert [item["group"] for item in document(fenceline("groups", "--pending", "--json"))["items"]] == [group]
    writer.commit()
    (position,) = document(fenceline("groups", group, "--json"))["positions"]
    assert (position["committed"]["offset"], position["pending"]) == (4, [])
    listed = fenceline("groups", "--match", group)
    assert group in listed.stdout
    assert "1 of 1 group" in listed.stdout


def test_impossible_requests_are_reported(fenceline: Command) -> None:
    assert "name the cluster: --bootstrap-server" in fenceline("stuck", "orders", servers=None).stderr
    away = fenceline("stuck", "orders", servers="127.0.0.1:9")
    assert away.returncode == 3
    assert "no Kafka broker answers at 127.0.0.1:9" in away.stderr
    nothing = fenceline("stuck", "no-such-name")
    assert "no group and no topic" in nothing.stderr


def test_looking_for_a_topic_does_not_create_it(scene: Scene, fenceline: Command) -> None:
    before = set(AdminClient(dict(scene.connection)).list_topics(timeout=20).topics)
    assert "has no topic no-such-topic" in fenceline("log", "no-such-topic", "0").stderr
    assert set(AdminClient(dict(scene.connection)).list_topics(timeout=20).topics) == before
