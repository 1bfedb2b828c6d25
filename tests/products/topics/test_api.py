"""Topics and records by REST: for viewers without records, for operators with records and a command log entry."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from tests.conftest import MakeTopic
from tests.support.api_samples import register
from tests.support.fixtures import AsRole
from tests.support.topics import unique_name
from tests.support.transactions import producer, send, take_over

CLUSTER = "/api/v1/clusters/local"


@pytest.fixture
async def orders(administrator: httpx.AsyncClient, kafka: KafkaCluster, make_topic: MakeTopic) -> str:
    """A topic of two partitions, with nine plain records in each."""
    await register(administrator, kafka.bootstrap_servers)
    topic = make_topic(partitions=2)
    writer = producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(18):
        writer.produce(topic, f'{{"id": {number}}}', key=f"k{number}", partition=number % 2, headers={"h": b"\xff"})
    assert writer.flush(30) == 0
    return topic


async def command_rows(administrator: httpx.AsyncClient) -> list[str]:
    items = (await administrator.get("/api/v1/commands", params={"target": "cluster:local"})).json()["items"]
    return [row["outcome"] for row in items if row["verb"] == "read_records"]


async def test_the_list_has_settings_sizes_and_advice_of_a_page_of_topics(as_role: AsRole, orders: str) -> None:
    viewer = await as_role(Role.VIEWER)
    response = await viewer.get(f"{CLUSTER}/topics", params={"search": orders.upper()})
    assert response.status_code == 200, response.text
    (topic,) = response.json()["items"]
    assert (topic["name"], topic["partition_count"], topic["replication_factor"]) == (orders, 2, 1)
    assert topic["size_bytes"] > 0
    assert topic["settings"]["cleanup.policy"] == "delete"
    assert any("has one replica" in sentence for sentence in topic["advice"])
    internal = await viewer.get(f"{CLUSTER}/topics", params={"search": "__consumer", "internal": "true"})
    assert [one["is_internal"] for one in internal.json()["items"]] in ([], [True])


async def test_a_topic_has_leaders_and_offsets_of_its_partitions(
    as_role: AsRole, kafka: KafkaCluster, orders: str
) -> None:
    clients = take_over({"bootstrap.servers": kafka.bootstrap_servers}, orders, unique_name())
    found = (await (await as_role(Role.VIEWER)).get(f"{CLUSTER}/topics/{orders}")).json()
    first, second = found["partitions"]
    assert first["state"]["in_sync"] == first["state"]["replicas"] == [first["state"]["leader"]]
    # Nine records, an aborted one, its marker, and an open one.
    assert first["offsets"] == {"earliest": 0, "last_stable": 11, "high_watermark": 12}
    assert second["offsets"]["high_watermark"] == 9
    # A plain producer has no producer id.
    (known,) = found["producers"]
    assert known["transactional_id"] is not None
    assert (known["producer"]["producer_epoch"], known["producer"]["open_since"]) == (2, 11)
    del clients


async def test_records_are_for_operators_and_each_view_of_them_is_logged(
    as_role: AsRole, administrator: httpx.AsyncClient, orders: str
) -> None:
    path = f"{CLUSTER}/topics/{orders}/records"
    for refused in (path, f"{path}/download"):
        assert (await (await as_role(Role.VIEWER)).get(refused)).status_code == 403
    assert await command_rows(administrator) == []
    operator = await as_role(Role.OPERATOR)
    shown = await operator.get(path, params={"partition": 1, "from": "start", "value": "id = 7"})
    assert shown.status_code == 200, shown.text
    (record,) = shown.json()["records"]
    assert (record["partition"], record["offset"], record["state"], record["key"]["text"]) == (1, 3, "plain", "k7")
    assert record["headers"][0]["value"] == {"text": "/w==", "is_base64": True, "size_bytes": 1, "is_cut": False}
    assert (shown.json()["read"], shown.json()["is_at_end"]) == (9, True)
    (row,) = await command_rows(administrator)
    assert row == f"saw 1 record of {orders}-1 offsets 0 to 8, filtered by value"
    # Only its parts are named, and nothing of a failed request is.
    assert "id = 7" not in row


async def test_pages_of_all_partitions_follow_one_another_also_beyond_the_end(
    as_role: AsRole, kafka: KafkaCluster, orders: str
) -> None:
    operator = await as_role(Role.OPERATOR)
    query: dict[str, Any] = {"from": "start", "limit": 5}
    seen: list[tuple[int, int]] = []
    for _ in range(20):
        page = (await operator.get(f"{CLUSTER}/topics/{orders}/records", params=query)).json()
        seen += [(one["partition"], one["offset"]) for one in page["records"]]
        query["after"] = page["next_cursor"]
        if page["is_at_end"]:
            break
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(9)]
    send(producer({"bootstrap.servers": kafka.bootstrap_servers}), orders, "newer")
    page = (await operator.get(f"{CLUSTER}/topics/{orders}/records", params=query)).json()
    assert [one["value"]["text"] for one in page["records"]] == ["newer"]


async def test_a_download_has_whole_contents_and_says_if_there_are_more(
    as_role: AsRole, administrator: httpx.AsyncClient, kafka: KafkaCluster, orders: str
) -> None:
    big = "x" * 200_000
    send(producer({"bootstrap.servers": kafka.bootstrap_servers}), orders, big)
    operator = await as_role(Role.OPERATOR)
    path = f"{CLUSTER}/topics/{orders}/records/download"
    response = await operator.get(path, params={"from": "start"})
    assert response.headers["content-type"] == "application/jsonl"
    assert orders in response.headers["content-disposition"]
    lines = [msgspec.json.decode(line) for line in response.content.splitlines()]
    assert len(lines) == 19
    assert lines[-1]["value"] == {"text": big, "is_base64": False, "size_bytes": 200_000, "is_cut": False}
    part = [
        msgspec.json.decode(line)
        for line in (await operator.get(path, params={"from": "start", "limit": 4})).content.splitlines()
    ]
    assert len(part) == 5
    assert part[-1]["is_incomplete"] is True
    rest = await operator.get(path, params={"after": part[-1]["next_cursor"]})
    assert len(rest.content.splitlines()) == 15
    assert f"downloaded at most 4 records of {orders} from start" in await command_rows(administrator)


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({"partition": 9}, 404, None),
        ({"partition": 0, "from": "99"}, 422, "from"),
        ({"from": "5"}, 422, "from"),
        ({"from": "yesterday"}, 422, "from"),
        ({"from": "2026-01-31T09:00:00"}, 422, "from"),
        ({"after": "WyJhIl0"}, 422, "after"),
        ({"state": "marker"}, 422, "state"),
    ],
)
async def test_a_mistake_is_a_problem_document_with_its_field(
    as_role: AsRole, orders: str, query: dict[str, Any], status: int, field: str | None
) -> None:
    operator = await as_role(Role.OPERATOR)
    for path in ("records", "records/download"):
        response = await operator.get(f"{CLUSTER}/topics/{orders}/{path}", params=query)
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert field is None or field in response.text


async def test_what_does_not_exist_is_not_found(as_role: AsRole, orders: str) -> None:
    operator = await as_role(Role.OPERATOR)
    for path in ("topics/no-such-topic", "topics/no-such-topic/records", "topics/no-such-topic/records/download"):
        assert (await operator.get(f"{CLUSTER}/{path}")).status_code == 404, path
    assert (await operator.get(f"/api/v1/clusters/none/topics/{orders}/records")).status_code == 404
