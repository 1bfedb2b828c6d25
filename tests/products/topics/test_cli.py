"""`fenceline topics` from the shell: with and without a server, and its errors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.fixtures import Fenceline, json_of
from tests.support.topics import unique_name
from tests.support.transactions import producer, take_over

pytestmark = pytest.mark.slow

NO_SERVER = {"FENCELINE_SERVER_URL": "http://127.0.0.1:1"}


@pytest.fixture
def direct(kafka: KafkaCluster) -> tuple[str, ...]:
    return ("--bootstrap-server", kafka.bootstrap_servers)


def test_server_and_brokers_give_the_same_answer(
    fenceline: Fenceline, kafka: KafkaCluster, cluster: str, direct: tuple[str, ...], make_topic: MakeTopic
) -> None:
    topic, name = make_topic(partitions=2), unique_name()
    connection = {"bootstrap.servers": kafka.bootstrap_servers}
    writer = producer(connection)
    writer.produce(topic, '{"id": 7}', key=b"\xff", partition=1, headers={"h": "v"})
    assert writer.flush(30) == 0
    clients = take_over(connection, topic, name)
    arguments = ("topics", "records", topic, "--from", "start", "--json")
    found: dict[str, Any] = json_of(fenceline(*arguments, *direct, **NO_SERVER))
    assert json_of(fenceline(*arguments, "--cluster", cluster)) == found
    states = {(one["partition"], one["offset"]): one["state"] for one in found["records"]}
    assert states == {(1, 0): "plain", (0, 0): "aborted", (0, 2): "open"}
    assert {one["transactional_id"] for one in found["records"]} == {None, name}

    lines = ("topics", "records", topic, "--from", "start", "--value", "id = 7", "--lines")
    told = [fenceline(*lines, *direct, **NO_SERVER), fenceline(*lines, "--cluster", cluster)]
    assert [ended.returncode for ended in told] == [0, 0], told[1].stderr
    (line,) = told[0].stdout.splitlines()
    assert told[1].stdout == told[0].stdout
    assert msgspec.json.decode(line)["key"] == {"text": "/w==", "is_base64": True, "size_bytes": 1, "is_cut": False}

    listed = ("topics", "list", "--search", topic, "--json")
    (of_brokers,) = json_of(fenceline(*listed, *direct, **NO_SERVER))["items"]
    (of_server,) = json_of(fenceline(*listed, "--cluster", cluster))["items"]
    assert of_brokers.pop("usage") is None
    assert of_server.pop("usage")["readers"] == []
    assert of_brokers == of_server
    shown = fenceline("topics", "show", topic, *direct, **NO_SERVER)
    assert f"{topic} has one replica" in shown.stdout
    assert "min.insync.replicas" in shown.stdout
    assert json_of(fenceline("topics", "show", topic, "--cluster", cluster, "--json"))["topic"]["name"] == topic
    del clients


def test_errors_are_named_and_have_an_exit_code(
    fenceline: Fenceline, direct: tuple[str, ...], make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for arguments, code, says in (
        (("records", "no-such-topic", *direct), 1, "has no topic no-such-topic"),
        (("show", "no-such-topic", *direct), 1, "has no topic no-such-topic"),
        (("records", topic, "3", *direct), 1, f"{topic} has only partition 0, no partition 3"),
        (("records", topic, "0", "--from", "5", *direct), 5, f"{topic}-0 is empty; its next record gets offset 0"),
        (("records", topic, "--state", "gone", *direct), 2, "--state: gone is no outcome"),
        (("records", topic, "--from", "soon", *direct), 2, "--from: soon is neither an offset"),
        (("records", topic, "--limit", "501", *direct), 2, "--limit is at most 500 without --lines"),
        (("records", topic), 2, "name the cluster"),
        (("list", "--bootstrap-server", "127.0.0.1:1"), 3, "no Kafka broker answers at 127.0.0.1:1"),
    ):
        ended = fenceline("topics", *arguments, **NO_SERVER)
        assert ended.returncode == code, (arguments, ended.stderr)
        assert says in ended.stderr
        assert "Traceback" not in ended.stderr


def test_records_are_for_operators(fenceline: Fenceline, cluster: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    viewer = fenceline("tokens", "create", unique_name("looker"), "--role", "viewer").stdout.strip()
    assert fenceline("topics", "show", topic, "--cluster", cluster, FENCELINE_TOKEN=viewer).returncode == 0
    for more in ((), ("--lines",)):
        refused = fenceline("topics", "records", topic, "--cluster", cluster, *more, FENCELINE_TOKEN=viewer)
        assert refused.returncode == 4
        assert "operator" in refused.stderr
