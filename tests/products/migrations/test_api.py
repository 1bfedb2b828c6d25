"""Migrations by REST: their state, missing conditions and evidence, and the permissions."""

from __future__ import annotations

from typing import Any, cast

import httpx
import pytest

from app.core.runs.mode import Mode
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import AsRole
from tests.support.migrating import Migrating, played


class _Databases:
    """The wiring's database, for the plane."""

    def __init__(self, wiring: Wiring) -> None:
        self.unit_of_work = wiring.unit_of_work


@pytest.fixture
async def migrating(api_wiring: Wiring) -> Migrating:
    played = Migrating(
        ControlPlane(cast("Database", _Databases(api_wiring)), now=api_wiring.clock.now()), api_wiring.observations
    )
    await played.running()
    return played


@pytest.fixture
async def operator(as_role: AsRole) -> httpx.AsyncClient:
    return await as_role(Role.OPERATOR)


async def get(client: httpx.AsyncClient, path: str) -> Any:
    response = await client.get(f"/api/v1{path}")
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_migration_has_its_steps_its_gate_and_its_evidence(
    migrating: Migrating, operator: httpx.AsyncClient
) -> None:
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: len(seen.steps) == 1)
    base = f"/migrations/{migration.id}"
    one = await get(operator, base)
    assert (one["stage"], one["state"], one["goal"]) == ("first_bounce", "active", "v2")
    (step,) = one["steps"]
    assert (step["kind"], step["ordinal"], step["lease"], step["to"]) == ("bounce", 0, 1, "generation")
    assert [clause["name"] for clause in (await get(operator, f"{base}/gate"))["clauses"]] == ["moved", "drained"]
    evidence = (await get(operator, f"{base}/evidence"))["items"]
    assert [row["sentence"] for row in evidence] == ["on to first bounce", "began: bounce instance 0 to generation"]
    assert evidence[1]["look"]["ids"]["fl.p.flights-group.in.0"]["producer_epoch"] == 0
    assert (await get(operator, f"{base}/alarms"))["items"] == []
    assert [row["id"] for row in (await get(operator, "/migrations?pipeline=flights"))["items"]] == [migration.id]


async def test_a_plan_has_its_preflight_its_steps_and_their_usual_time(
    api_wiring: Wiring, migrating: Migrating, operator: httpx.AsyncClient
) -> None:
    played(api_wiring, migrating)
    run = await migrating.run()
    migrating.publish()
    plan = await get(operator, "/pipelines/flights/migrations/plan?goal=v2")
    assert (plan["pipeline"], plan["goal"], plan["measured"]) == ("flights", "v2", False)
    assert {one["name"] for one in plan["preflight"]} >= {"brokers", "all_run", "offsets"}
    bounces = [step for step in plan["steps"] if step["kind"] == "bounce"]
    assert len(bounces) == 2 * len(run.instances)
    assert plan["usually_s"] == sum(step["usually_s"] or 0 for step in plan["steps"]) > 0


async def test_it_is_paused_resumed_turned_round_and_aborted(migrating: Migrating, operator: httpx.AsyncClient) -> None:
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: len(seen.steps) == 1)
    base = f"/api/v1/migrations/{migration.id}"
    for what, body, state in (
        ("pause", {"why": "lunch"}, "paused"),
        ("resume", {}, "active"),
        ("rollback", {"to": "group_only"}, "active"),
        ("abort", {}, "aborted"),
    ):
        response = await operator.post(f"{base}/{what}", json=body)
        assert response.status_code == 200, response.text
        assert response.json()["state"] == state
    assert (await operator.post(f"{base}/resume", json={})).status_code == 409
    commands = (await get(operator, "/commands?target=pipeline:flights"))["items"]
    assert [row["verb"] for row in commands][:4] == [
        "abort_migration",
        "roll_back_migration",
        "resume_migration",
        "pause_migration",
    ]


async def test_impossible_requests_are_refused_with_the_reason(
    migrating: Migrating, operator: httpx.AsyncClient
) -> None:
    migration = await migrating.start()
    again = await operator.post("/api/v1/pipelines/flights/migrations", json={"goal": "v2"})
    assert again.status_code == 409
    assert "its migration is active in stage preflight" in again.json()["detail"]
    run = await migrating.run()
    for path in (f"/api/v1/runs/{run.id}/restart",):
        response = await operator.post(path, json={"rolling": True})
        assert response.status_code == 409, response.text
        assert "migrates to v2" in response.json()["detail"]
    forward = await operator.post(f"/api/v1/migrations/{migration.id}/rollback", json={"to": Mode.V2})
    assert forward.status_code == 422
    fence = await operator.post(f"/api/v1/migrations/{migration.id}/fence", json={"transactional_id": "x"})
    assert fence.status_code == 409


async def test_a_condition_that_cannot_be_waived_is_refused(migrating: Migrating, operator: httpx.AsyncClient) -> None:
    await migrating.run()
    body = {"goal": "v2", "waived": {"ids_taken_over": "we are in a hurry"}}
    response = await operator.post("/api/v1/pipelines/flights/migrations", json=body)
    assert response.status_code == 422
    assert "transaction_timeout" in response.json()["detail"]
