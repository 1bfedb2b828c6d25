"""`fenceline log` from the shell: with and without a server, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.fixtures import Fenceline, json_of
from tests.support.topics import unique_name
from tests.support.transactions import take_over

pytestmark = pytest.mark.slow

NO_SERVER = {"FENCELINE_SERVER_URL": "http://127.0.0.1:1"}


def test_server_and_brokers_give_the_same_answer(
    fenceline: Fenceline, kafka: KafkaCluster, cluster: str, make_topic: MakeTopic
) -> None:
    topic, name = make_topic(), unique_name()
    clients = take_over({"bootstrap.servers": kafka.bootstrap_servers}, topic, name)
    direct = ("--bootstrap-server", kafka.bootstrap_servers)
    arguments = ("log", topic, "0", "--from", "start", "--keys", "--values", "--json")
    found: dict[str, Any] = json_of(fenceline(*arguments, *direct, **NO_SERVER))
    assert json_of(fenceline(*arguments, "--cluster", cluster)) == found
    first, abort, second = found["entries"]
    assert (first["state"], abort["marker"], second["state"]) == ("aborted", "ABORT", "open")
    assert [first["producer_epoch"], abort["producer_epoch"], second["producer_epoch"]] == [0, 1, 2]
    assert {entry["transactional_id"] for entry in found["entries"]} == {name}
    assert second["records"][0]["value"]["text"] == "second"
    listed = fenceline("log", topic, "0", "--from", "lso", *direct, **NO_SERVER)
    assert listed.returncode == 0, listed.stderr
    assert "read_committed consumers are blocked at 2, 1 offset before the end" in listed.stdout
    assert "open" in listed.stdout
    del clients


def test_errors_are_named_and_have_an_exit_code(
    fenceline: Fenceline, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    direct = ("--bootstrap-server", kafka.bootstrap_servers)
    for arguments, code, says in (
        (("log", "no-such-topic", "0", *direct), 1, "has no topic no-such-topic"),
        (("log", topic, "3", *direct), 1, f"{topic} has only partition 0, no partition 3"),
        (("log", topic, "0", "--from", "5", *direct), 5, f"{topic}-0 is empty; its next record gets offset 0"),
        (("log", topic, "0", "--bootstrap-server", "127.0.0.1:1"), 3, "no Kafka broker answers at 127.0.0.1:1"),
    ):
        ended = fenceline(*arguments, **NO_SERVER)
        assert ended.returncode == code, ended.stderr
        assert says in ended.stderr
        assert "Traceback" not in ended.stderr


def test_records_are_for_operators(fenceline: Fenceline, cluster: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    viewer = fenceline("tokens", "create", unique_name("looker"), "--role", "viewer").stdout.strip()
    arguments = ("log", topic, "0", "--cluster", cluster)
    assert fenceline(*arguments, FENCELINE_TOKEN=viewer).returncode == 0
    refused = fenceline(*arguments, "--values", FENCELINE_TOKEN=viewer)
    assert refused.returncode == 4
    assert "operator" in refused.stderr
