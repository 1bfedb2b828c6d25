"""Mappings over REST: owners over time, the registry of ids, and their import."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.core.ids.imported import MAX_CSV_CHARACTERS, MAX_LINES
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane, task_heartbeat
from tests.support.fixtures import AsRole
from tests.support.observing import ODD, hear, observed_cluster, publish, state_of, transaction_batch

CSV = "topic,partition,transactional_id\nin,0,app-0_0\nin,1,app-0_1\n"
IMPORTED = "/api/v1/pipelines/flights/imported-ids"


@pytest.fixture
async def plane(api_wiring: Wiring) -> ControlPlane:
    return ControlPlane(
        cast(Database, SimpleNamespace(unit_of_work=api_wiring.unit_of_work)),
        now=datetime.now(UTC).replace(microsecond=0),
    )


async def test_owner_of_a_moment_is_answered_by_pipeline_and_by_cluster(plane: ControlPlane, as_role: AsRole) -> None:
    viewer = await as_role(Role.VIEWER)
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0), ("in", 1)], generation=1))
    before = plane.now
    moved = plane.pass_time(60)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 1)], generation=2))

    async def owners(path: str, **query: object) -> list[tuple[int, int]]:
        answer = await viewer.get(f"/api/v1/{path}/mappings/history", params=cast(Any, query))
        assert answer.status_code == 200, answer.text
        return sorted((one["partition"], one["owner"]["task"]) for one in answer.json()["items"])

    for path in ("pipelines/flights", "clusters/test"):
        assert await owners(path, at=before.isoformat()) == [(0, 0), (1, 0)]
        assert await owners(path, at=moved.isoformat(), topic="in", partition=1) == [(1, 1)]
        assert await owners(path, at=(before - timedelta(days=1)).isoformat()) == []
        assert await owners(path, since=moved.isoformat(), partition=1) == [(1, 1)]
    assert await owners("clusters/test", group="another") == []
    assert await owners("clusters/test", transactional_id="fl.t.flights.0.1") == [(1, 1)]
    current = (await viewer.get("/api/v1/clusters/test/mappings")).json()["items"]
    assert [(one["partition"], one["pipeline"], one["assigned_id"]) for one in current] == [
        (0, "flights", None),
        (1, "flights", None),
    ]
    for at in ("14:03", "1795375654", "-3.5e-258"):
        refused = await viewer.get("/api/v1/clusters/test/mappings/history", params={"at": at})
        assert refused.status_code == 422, "no time that is written out"
    turned = {"since": moved.isoformat(), "until": before.isoformat()}
    refused = await viewer.get("/api/v1/pipelines/flights/mappings/history", params=turned)
    assert (refused.status_code, refused.json()["problems"][0]["field"]) == (422, "until")
    assert (await viewer.get("/api/v1/clusters/nobody/mappings")).status_code == 404


async def test_history_goes_on_where_a_page_ends(plane: ControlPlane, as_role: AsRole) -> None:
    viewer = await as_role(Role.VIEWER)
    run = await plane.running()
    for generation in (1, 2, 3):
        await plane.beat(task_heartbeat(run.id, sequence=generation, partitions=[("in", 0)], generation=generation))
        plane.pass_time(1)
    path = "/api/v1/pipelines/flights/mappings/history"
    first = (await viewer.get(path, params={"limit": 2})).json()
    assert [one["generation"] for one in first["items"]] == [3, 2]
    rest = (await viewer.get(path, params={"limit": 2, "after": first["next_cursor"]})).json()
    assert ([one["generation"] for one in rest["items"]], rest["next_cursor"]) == ([1], None)


@pytest.mark.slow
async def test_import_is_previewed_then_done_once_then_removed(plane: ControlPlane, as_role: AsRole) -> None:
    await plane.pipeline()
    author = await as_role(Role.AUTHOR)
    plan = (await author.post(f"{IMPORTED}/preview", json={"csv": CSV})).json()
    assert (plan["is_valid"], plan["problems"]) == (True, [])
    assert [(line["number"], line["transactional_id"]) for line in plan["lines"]] == [(2, "app-0_0"), (3, "app-0_1")]
    assert "not checked" in plan["warnings"][0], "no broker answers here"
    owned = "/api/v1/pipelines/flights/transactional-ids"
    assert (await author.get(owned)).json()["items"] == []
    key = {"Idempotency-Key": "once"}
    for _ in range(2):
        done = await author.post(IMPORTED, json={"csv": CSV, "why": "it moves"}, headers=key)
        assert done.status_code == 201, done.text
    assert [
        (one["transactional_id"], one["kind"], one["task"]) for one in (await author.get(owned)).json()["items"]
    ] == [
        ("app-0_0", "imported", None),
        ("app-0_1", "imported", None),
    ]
    gone = await author.delete(IMPORTED, params={"why": "a mistake"})
    assert gone.json() == {"items": ["app-0_0", "app-0_1"]}
    assert (await author.get(owned)).json()["items"] == []


@pytest.mark.slow
async def test_import_with_a_problem_is_refused_with_each_at_its_line(plane: ControlPlane, as_role: AsRole) -> None:
    await plane.pipeline()
    author = await as_role(Role.AUTHOR)
    body = {"csv": "nowhere,0,a\nin,x,b\n"}
    plan = (await author.post(f"{IMPORTED}/preview", json=body)).json()
    assert [one["field"] for one in plan["problems"]] == ["lines.1", "lines.2"]
    refused = await author.post(IMPORTED, json=body)
    assert refused.status_code == 422
    assert [one["field"] for one in refused.json()["problems"]] == ["lines.1", "lines.2"]
    nothing = await author.post(IMPORTED, json={})
    assert nothing.json()["problems"][0]["field"] == "csv"


async def test_csv_of_the_longest_that_is_described_is_read_and_a_longer_body_refused_by_its_size(
    plane: ControlPlane, as_role: AsRole
) -> None:
    await plane.pipeline()
    author = await as_role(Role.AUTHOR)
    line = "in,0," + "x" * (MAX_CSV_CHARACTERS // MAX_LINES - 6) + "\n"
    longest = line * MAX_LINES
    assert len(longest) == MAX_CSV_CHARACTERS
    read = await author.post(f"{IMPORTED}/preview", json={"csv": longest})
    assert (read.status_code, len(read.json()["lines"])) == (200, MAX_LINES)
    longer = await author.post(f"{IMPORTED}/preview", json={"csv": longest + "x"})
    assert (longer.status_code, longer.json()["problems"][0]["field"]) == (422, "csv")
    too_large = await author.post(f"{IMPORTED}/preview", json={"csv": "ã" * MAX_CSV_CHARACTERS})
    assert (too_large.status_code, too_large.headers["content-type"]) == (413, "application/problem+json")


async def test_formulas_are_listed_with_their_values(as_role: AsRole) -> None:
    items = (await (await as_role(Role.VIEWER)).get("/api/v1/id-formulas")).json()["items"]
    by_name = {one["name"]: one for one in items}
    assert by_name["kafka-streams"]["pattern"] == "{application_id}-{subtopology}_{partition}"
    assert {name for name, one in by_name.items() if one["counts"]} == {"kafka-streams-v2", "spring-kafka-v2"}


async def test_registry_has_the_owner_of_each_id(api_wiring: Wiring, plane: ControlPlane, as_role: AsRole) -> None:
    viewer = await as_role(Role.VIEWER)
    live = await observed_cluster(api_wiring)
    now_ms = int(api_wiring.clock.now().timestamp() * 1000)
    began = state_of(producer_id=9, start_ms=now_ms - 60_000, changed_ms=now_ms - 60_000)
    hear(live, transaction_batch(ODD, began, at=2, at_ms=now_ms - 60_000), now_ms=now_ms)
    publish(api_wiring, live)
    await plane.pipeline("flights", cluster="c")
    async with api_wiring.unit_of_work() as uow:
        await uow.of(TransactionalIdStore).claim(
            pipeline="flights", kafka_cluster_id="kafka-1", ids=[(ODD, 0, 0), ("fl.t.flights.0.0", 0, 0)]
        )
        await uow.commit()
    answer = await viewer.get("/api/v1/clusters/c/id-registry")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    by_id = {one["transactional_id"]: one for one in found["items"]}
    assert {name: (one["standing"], one["orphan"], one["state"]) for name, one in by_id.items()} == {
        ODD: ("orphaned", "no_task", "Ongoing"),
        "done": ("foreign", None, "CompleteCommit"),
        "fl.t.flights.0.0": ("ours", None, None),
    }
    assert found["tally"] == {
        "ids": 2,
        "ours": 1,
        "foreign": 1,
        "orphaned": 1,
        "archived": 0,
        "unseen": 1,
        "contested": 1,
    }
    assert "which no task of flights has reported" in by_id[ODD]["contested"]
    assert (found["expiration_ms"], by_id["done"]["expires_at"]) == (None, None)
    assert "127.0.0.1:1" in found["expiration_problem"]
    only = (await viewer.get("/api/v1/clusters/c/id-registry", params={"only": "unseen"})).json()
    assert [one["transactional_id"] for one in only["items"]] == ["fl.t.flights.0.0"]
    assert (await viewer.get("/api/v1/clusters/c/id-growth")).json() == {"items": []}
    assert (await viewer.get("/api/v1/clusters/nobody/id-registry")).status_code == 404
