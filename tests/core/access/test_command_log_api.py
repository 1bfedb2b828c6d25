"""Commands: optimistic locking, keys that make a repetition safe, and one row in the command log for each."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from tests.support.api_samples import create_pipeline, definition_on, register
from tests.support.fixtures import AsRole

P = "/api/v1/pipelines"


@pytest.fixture
async def definition(administrator: httpx.AsyncClient, kafka: KafkaCluster) -> dict[str, Any]:
    await register(administrator, kafka.bootstrap_servers)
    return definition_on(kafka.bootstrap_servers)


@pytest.fixture
async def pipeline(administrator: httpx.AsyncClient, definition: dict[str, Any]) -> dict[str, Any]:
    return await create_pipeline(administrator, "flights", definition)


async def _log(client: httpx.AsyncClient, target: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get("/api/v1/commands", params={"target": target})).json()["items"]
    return found


async def test_a_pipeline_lives_from_creation_to_deletion(
    administrator: httpx.AsyncClient, definition: dict[str, Any]
) -> None:
    created = await administrator.post(P, json={"name": "flights", "definition": definition, "note": "n", "why": "w"})
    assert created.status_code == 201, created.text
    read = await administrator.get(f"{P}/flights")
    assert read.headers["etag"] == '"1"'
    assert read.json()["definition"]["sink_topic"] == definition["sink_topic"]
    changed = await administrator.put(
        f"{P}/flights", json={"definition": {**definition, "commit_interval_ms": 250}}, headers={"If-Match": '"1"'}
    )
    assert changed.json()["pipeline"]["current_revision"] == 2, changed.text
    diff = (await administrator.get(f"{P}/flights/diff?from=1&to=2")).json()
    assert [change["field"] for change in diff["changes"]] == ["commit_interval_ms"]
    revisions = (await administrator.get(f"{P}/flights/revisions")).json()["items"]
    assert [(revision["number"], revision["note"]) for revision in revisions] == [(2, None), (1, "n")]
    assert (await administrator.delete(f"{P}/flights", params={"why": "over"})).status_code == 204
    assert (await administrator.get(f"{P}/flights")).status_code == 404
    log = await _log(administrator, "pipeline:flights")
    assert [(row["verb"], row["why"]) for row in log] == [
        ("delete_pipeline", "over"),
        ("change_pipeline", None),
        ("create_pipeline", "w"),
    ]


@pytest.mark.parametrize("how", ["header", "body"])
async def test_a_change_from_an_old_revision_is_refused(
    administrator: httpx.AsyncClient, pipeline: dict[str, Any], how: str
) -> None:
    definition = pipeline["definition"]
    await administrator.put(f"{P}/flights", json={"definition": {**definition, "commit_interval_ms": 200}})
    body: dict[str, Any] = {"definition": {**definition, "commit_interval_ms": 300}}
    headers = {"If-Match": '"1"'} if how == "header" else {}
    refused = await administrator.put(
        f"{P}/flights", json={**body, "expected_revision": 1} if how == "body" else body, headers=headers
    )
    assert refused.status_code == 412
    assert "revision 2" in refused.json()["detail"]
    assert (await administrator.get(f"{P}/flights")).json()["current_revision"] == 2


async def test_a_repeated_command_is_answered_the_same_and_done_once(
    administrator: httpx.AsyncClient, definition: dict[str, Any]
) -> None:
    body = {"name": "flights", "definition": definition}
    first = await administrator.post(P, json=body, headers={"Idempotency-Key": "k1"})
    again = await administrator.post(P, json=body, headers={"Idempotency-Key": "k1"})
    without = await administrator.post(P, json=body)
    assert (first.status_code, again.status_code, without.status_code) == (201, 201, 409)
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert len(await _log(administrator, "pipeline:flights")) == 1


async def test_a_key_used_for_another_request_is_refused(
    administrator: httpx.AsyncClient, pipeline: dict[str, Any]
) -> None:
    headers = {"Idempotency-Key": "k2"}
    first = await administrator.post(f"{P}/flights/runs", json={"why": "a"}, headers=headers)
    other = await administrator.post(f"{P}/flights/runs", json={"why": "b"}, headers=headers)
    assert first.status_code == 201, first.text
    assert other.status_code == 422
    assert "k2" in other.json()["detail"]


async def test_one_of_two_equal_concurrent_commands_is_done(
    administrator: httpx.AsyncClient, pipeline: dict[str, Any]
) -> None:
    headers = {"Idempotency-Key": "k3"}
    both = await asyncio.gather(*(administrator.post(f"{P}/flights/runs", json={}, headers=headers) for _ in range(2)))
    assert [response.status_code for response in both] == [201, 201], [response.text for response in both]
    assert both[0].json()["id"] == both[1].json()["id"]
    assert len((await administrator.get("/api/v1/runs")).json()["items"]) == 1


async def test_a_refused_command_leaves_its_key_free(
    administrator: httpx.AsyncClient, definition: dict[str, Any]
) -> None:
    headers = {"Idempotency-Key": "k4"}
    refused = await administrator.post(f"{P}/flights/runs", json={}, headers=headers)
    await create_pipeline(administrator, "flights", definition)
    taken = await administrator.post(f"{P}/flights/runs", json={}, headers=headers)
    assert (refused.status_code, taken.status_code) == (404, 201)


async def test_two_principals_do_not_share_keys(
    administrator: httpx.AsyncClient, as_role: AsRole, pipeline: dict[str, Any]
) -> None:
    operator = await as_role(Role.OPERATOR)
    headers = {"Idempotency-Key": "k5"}
    first = await administrator.post(f"{P}/flights/runs", json={}, headers=headers)
    other = await operator.post(f"{P}/flights/runs", json={}, headers=headers)
    assert (first.status_code, other.status_code) == (201, 409)


async def test_a_run_is_started_paused_resumed_and_drained(
    administrator: httpx.AsyncClient, pipeline: dict[str, Any]
) -> None:
    run = (await administrator.post(f"{P}/flights/runs")).json()
    assert (run["state"], len(run["instances"])) == ("pending", 1)
    desired: list[str] = []
    for verb in ("pause", "resume", "drain"):
        response = await administrator.post(f"/api/v1/runs/{run['id']}/{verb}", json={"why": verb})
        assert response.status_code == 200, response.text
        desired.append(response.json()["desired"])
    assert desired == ["pause", "run", "drain"]
    # No instance was submitted, as no reconciler runs here: the drain is over at once.
    assert (await administrator.get(f"/api/v1/runs/{run['id']}")).json()["state"] == "stopped"
    late = await administrator.post(f"/api/v1/runs/{run['id']}/resume")
    assert late.status_code == 409
    log = await _log(administrator, "pipeline:flights")
    assert {"start_run", "pause_run", "resume_run", "drain_run"} <= {row["verb"] for row in log}


async def test_offsets_are_previewed_and_moved_only_while_nothing_runs(
    administrator: httpx.AsyncClient, pipeline: dict[str, Any]
) -> None:
    preview = await administrator.post(f"{P}/flights/offsets/preview", json={"kind": "earliest"})
    assert [change["target"] for change in preview.json()["items"]] == [0, 0], preview.text
    run = (await administrator.post(f"{P}/flights/runs")).json()
    refused = await administrator.post(f"{P}/flights/offsets/reset", json={"kind": "earliest", "why": "again"})
    assert refused.status_code == 409
    await administrator.post(f"/api/v1/runs/{run['id']}/drain")
    expected = [{**change, "target": None} for change in preview.json()["items"]]
    body = {
        "kind": "earliest",
        "expected": [{key: change[key] for key in ("topic", "partition", "committed")} for change in expected],
        "why": "again",
    }
    done = await administrator.post(f"{P}/flights/offsets/reset", json=body)
    assert done.status_code == 200, done.text
    moved = await administrator.post(f"{P}/flights/offsets/reset", json=body)
    assert moved.status_code == 412


async def test_offsets_are_not_set_without_a_reason(administrator: httpx.AsyncClient, pipeline: dict[str, Any]) -> None:
    topic = pipeline["definition"]["source_topics"][0]
    for target in (
        {"kind": "earliest"},
        {"kind": "latest", "why": None},
        {"kind": "recorded", "why": ""},
        {"kind": "timestamp", "timestamp": "2026-01-31T12:00:00Z", "why": " \t"},
        {"kind": "offsets", "offsets": [{"topic": topic, "partition": 0, "offset": 0}]},
    ):
        refused = await administrator.post(f"{P}/flights/offsets/reset", json=target)
        assert refused.status_code == 422, target
        assert "a reset of the offsets of flights needs a reason" in refused.text
    assert "reset_offsets" not in {row["verb"] for row in await _log(administrator, "pipeline:flights")}


async def test_pages_of_a_list_have_every_item_once(
    administrator: httpx.AsyncClient, kafka: KafkaCluster, definition: dict[str, Any]
) -> None:
    for index in range(5):
        await create_pipeline(
            administrator, f"p{index}", {**definition, "group_id": f"{definition['group_id']}-{index}"}
        )
    seen: list[str] = []
    after: str | None = None
    while True:
        page = (await administrator.get(P, params={"limit": 2, **({"after": after} if after else {})})).json()
        seen += [item["name"] for item in page["items"]]
        after = page["next_cursor"]
        if after is None:
            break
    assert seen == [f"p{index}" for index in range(5)]


async def test_an_unreachable_broker_is_named_with_its_address_and_how_long_it_was_tried(
    administrator: httpx.AsyncClient,
) -> None:
    body = {"name": "away", "bootstrap_servers": "127.0.0.1:1"}
    response = await administrator.post("/api/v1/clusters", json=body)
    assert response.status_code == 503
    assert response.headers["retry-after"]
    detail = response.json()["detail"]
    assert "127.0.0.1:1" in detail
    assert "tried for" in detail
    assert (await administrator.get("/api/v1/clusters")).json()["items"] == []


async def test_an_uploaded_file_is_kept_by_its_hash(administrator: httpx.AsyncClient) -> None:
    source = "def f(record):\n    return record\n"
    sent = await administrator.post(
        "/api/v1/transform-sources", content=source.encode(), headers={"Content-Type": "text/x-python"}
    )
    assert sent.status_code == 201, sent.text
    read = await administrator.get(f"/api/v1/transform-sources/{sent.json()['sha256']}")
    assert read.text == source
    assert read.headers["content-type"].startswith("text/plain")
    other = await administrator.post(
        "/api/v1/transform-sources", content=b"x", headers={"Content-Type": "application/json"}
    )
    assert other.status_code == 415
