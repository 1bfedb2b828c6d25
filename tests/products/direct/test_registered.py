"""`stuck` and `fence` by the server: owners are known, and changes are in the command log."""

from __future__ import annotations

from typing import Any

import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.fixtures import Fenceline, json_of
from tests.support.serving import Serving
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


def test_a_transaction_is_explained_and_fenced_by_the_server(
    fenceline: Fenceline, served: Serving, cluster: str, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    name, producer = Scene(kafka.bootstrap_servers).leave_open(topic)

    def listed() -> list[dict[str, object]]:
        found = json_of(fenceline("transactions", "--match", name, "--open", "--cluster", cluster, "--json"))
        assert found["hanging"]["items"] == []
        return found["items"]

    (one,) = wait_for(listed, 60, "the id in the server's observer")
    assert (one["transactional_id"], one["owner"], one["state"]) == (name, None, "Ongoing")
    found = json_of(fenceline("stuck", f"{topic}:0", "--cluster", cluster, "--json"))
    assert found["partitions"][0]["links"][-1]["sentence"] == "whose owner is not a Fenceline task"
    anywhere = json_of(fenceline("stuck", "--cluster", cluster, "--json"))
    assert (anywhere["items"], anywhere["search"]["problem"]) == ([], "")

    def blocks() -> list[dict[str, Any]]:
        found = json_of(fenceline("stuck", "--cluster", cluster, "--json"))["blocked"]
        assert not found["problem"]
        return [one for one in found["causes"] if one["transactional_id"] == name]

    (blocker,) = wait_for(blocks, 60, "the transaction among the blocked readers")
    assert [(one["topic"], one["records"]) for one in blocker["partitions"]] == [(topic, 1)]
    assert name in fenceline("stuck", "--cluster", cluster).stdout
    shown = json_of(fenceline("end", topic, "0", "--cluster", cluster, "--json"))
    assert f"knows it as {name}" in shown["refusal"]
    idle, committed = Scene(kafka.bootstrap_servers).leave_open(make_topic())
    committed.commit_transaction(20)
    refused = fenceline("fence", idle, "--cluster", cluster, "--execute", "--yes")
    assert refused.returncode == 1
    assert "it has no open transaction" in refused.stderr
    forced = ("--execute", "--yes", "--force", "--why", "its host is gone", "--json")
    assert json_of(fenceline("fence", name, "--cluster", cluster, *forced))["state"] == "Empty"
    assert json_of(fenceline("stuck", f"{topic}:0", "--cluster", cluster, "--json"))["verdict"] == "free"
    with served.client() as client:
        row = client.get("/api/v1/commands", params={"target": f"cluster:{cluster}"}).json()["items"][0]
    assert (row["verb"], row["why"]) == ("fence_transaction", "its host is gone")
    both = fenceline("stuck", topic, "--cluster", cluster, "--bootstrap-server", kafka.bootstrap_servers)
    assert both.returncode == 2
    del producer
