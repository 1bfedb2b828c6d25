"""A partition's log by REST: for viewers without records, for operators with records and a command log entry."""

from __future__ import annotations

import httpx
import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from tests.conftest import MakeTopic
from tests.support.api_samples import register
from tests.support.fixtures import AsRole
from tests.support.transactions import producer, send


@pytest.fixture
async def address(administrator: httpx.AsyncClient, kafka: KafkaCluster, make_topic: MakeTopic) -> str:
    """A log with three plain batches."""
    await register(administrator, kafka.bootstrap_servers)
    topic = make_topic()
    send(producer({"bootstrap.servers": kafka.bootstrap_servers}), topic, "a", "b", "c")
    return f"/api/v1/clusters/local/topics/{topic}/partitions/0/log"


async def test_pages_follow_one_another(as_role: AsRole, address: str) -> None:
    viewer = await as_role(Role.VIEWER)
    offsets: list[int] = []
    start, is_at_end = "start", False
    while not is_at_end:
        response = await viewer.get(address, params={"from": start, "limit": 2})
        assert response.status_code == 200, response.text
        found = response.json()
        offsets += [entry["base_offset"] for entry in found["entries"]]
        start, is_at_end = str(found["next_offset"]), found["is_at_end"]
        assert [entry["records"] for entry in found["entries"]] == [[]] * len(found["entries"])
    assert offsets == [0, 1, 2]


@pytest.mark.parametrize("what", ["keys", "values"])
async def test_records_are_for_operators_and_each_view_of_them_is_logged(
    as_role: AsRole, administrator: httpx.AsyncClient, address: str, what: str
) -> None:
    refused = await (await as_role(Role.VIEWER)).get(address, params={what: "true"})
    assert refused.status_code == 403
    shown = await (await as_role(Role.OPERATOR)).get(address, params={what: "true", "from": "1"})
    assert shown.status_code == 200, shown.text
    key, value = (shown.json()["entries"][0]["records"][0][name] for name in ("key", "value"))
    assert (key and key["text"], value and value["text"]) == (("key", None) if what == "keys" else (None, "b"))
    log = (await administrator.get("/api/v1/commands", params={"target": "cluster:local"})).json()["items"]
    assert [row["verb"] for row in log] == ["read_records", "register_cluster"]
    assert f"saw {what} of" in log[0]["outcome"]
    assert "offsets 1 to 2" in log[0]["outcome"]


async def test_a_missing_partition_is_a_problem_document(as_role: AsRole, address: str) -> None:
    viewer = await as_role(Role.VIEWER)
    for path, parameters, status in (
        (address, {"from": "7"}, 422),
        (address.replace("/0/log", "/9/log"), {}, 404),
        (address.replace("clusters/local", "clusters/none"), {}, 404),
        ("/api/v1/clusters/local/topics/no-such-topic/partitions/0/log", {}, 404),
    ):
        response = await viewer.get(path, params=parameters)
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
