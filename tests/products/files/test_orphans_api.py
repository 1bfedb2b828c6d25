"""Orphans over HTTP: asked for, told, collected, refused."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from app.products.files.orphan_findings import Amount, Collected, OrphanFindings
from app.products.files.orphan_look import OrphanResult
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import AsRole
from tests.support.orphans import begun, ended, findings, get, looked, open_transaction
from tests.support.written_files import SINK

BASE = "/api/v1/pipelines/flights/files/orphans"


@pytest.fixture
async def plane(api_wiring: Wiring) -> ControlPlane:
    made = ControlPlane(
        cast(Database, SimpleNamespace(unit_of_work=api_wiring.unit_of_work)),
        now=datetime.now(UTC).replace(microsecond=0),
    )
    await made.pipeline("flights", files=SINK)
    await made.pipeline("records", sink_topic="elsewhere")
    return made


@pytest.fixture
async def operator(plane: ControlPlane, as_role: AsRole) -> httpx.AsyncClient:
    del plane
    return await as_role(Role.OPERATOR)


async def test_before_anybody_looked_nothing_is_known(operator: httpx.AsyncClient) -> None:
    assert (await operator.get(BASE)).json() == {"newest": None, "judged": None, "collected": None}


async def test_a_look_is_asked_for_once(operator: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "one"}
    first = await operator.post(BASE, json={"why": "the bucket is full"}, headers=key)
    assert first.status_code == 201
    assert (first.json()["act"], first.json()["state"]) == ("look", "asked")
    again = await operator.post(BASE, json={"why": "the bucket is full"}, headers=key)
    assert again.json()["id"] == first.json()["id"]
    refused = await operator.post(BASE)
    assert refused.status_code == 409
    assert (await operator.get(BASE)).json()["newest"]["id"] == first.json()["id"]
    commands = (await operator.get("/api/v1/commands", params={"target": "pipeline:flights"})).json()["items"]
    assert [(one["verb"], one["who"], one["why"]) for one in commands] == [
        ("look_for_orphans", "a-operator", "the bucket is full")
    ]


async def test_what_was_found_is_told_and_collected(operator: httpx.AsyncClient, plane: ControlPlane) -> None:
    look = await looked(plane, OrphanResult(findings=findings(plane.now, orphans=30, missing=1)))
    told = (await operator.get(BASE)).json()
    found = told["judged"]["findings"]
    assert told["newest"] == told["judged"]
    assert found["orphans"] == found["roots"][0]["orphans"] == {"files": 30, "size_bytes": 465 * 12_345}
    assert len(found["oldest"]) == 25
    assert found["dangling"][0]["place"] == "out-0@0"
    wrong = await operator.post(f"{BASE}/collect", json={"look": "00000000-0000-0000-0000-000000000000"})
    assert wrong.status_code == 409
    asked = await operator.post(f"{BASE}/collect", json={"look": look.id, "why": "the bucket is full"})
    assert asked.status_code == 201
    assert asked.json()["confirmed"]["orphans"]["files"] == 30
    begun_at = await begun(plane, await get(plane, asked.json()["id"]))
    assert begun_at is not None
    outcome = Collected(deleted=Amount(files=30, size_bytes=5), aborted_uploads=0)
    assert await ended(plane, begun_at[0], OrphanResult(findings=findings(plane.now), collected=outcome))
    told = (await operator.get(BASE)).json()
    assert told["collected"]["collected"]["deleted"] == {"files": 30, "size_bytes": 5}
    assert told["judged"]["id"] == asked.json()["id"]


async def test_an_open_transaction_and_a_reason_are_told(operator: httpx.AsyncClient, plane: ControlPlane) -> None:
    await looked(plane, OrphanResult(findings=OrphanFindings(blocked=(open_transaction(plane.now),))))
    told = (await operator.get(BASE)).json()
    assert told["judged"] is None
    assert told["newest"]["findings"]["blocked"][0]["transactional_id"] == "fl.t.flights.0.0"
    await looked(plane, OrphanResult(reason="no Kafka broker answers"))
    newest = (await operator.get(BASE)).json()["newest"]
    assert (newest["state"], newest["reason"]) == ("failed", "no Kafka broker answers")


async def test_refusals(operator: httpx.AsyncClient, as_role: AsRole) -> None:
    viewer = await as_role(Role.VIEWER)
    assert (await viewer.get(BASE)).status_code == 200
    assert (await viewer.post(BASE)).status_code == 403
    assert (await viewer.post(f"{BASE}/collect", json={"look": "x"})).status_code == 403
    assert (await operator.post(f"{BASE}/collect", json={"look": "x"})).status_code == 422
    assert (await operator.post("/api/v1/pipelines/records/files/orphans")).status_code == 404
    assert (await operator.get("/api/v1/pipelines/nobody/files/orphans")).status_code == 404


async def test_metrics_are_of_the_newest_that_judged(operator: httpx.AsyncClient, plane: ControlPlane) -> None:
    before = (await operator.get("/metrics")).text
    assert "fenceline_files_orphans" not in before
    await looked(plane, OrphanResult(findings=findings(plane.now, orphans=2, missing=1)))
    await looked(plane, OrphanResult(reason="no Kafka broker answers"))
    lines = (await operator.get("/metrics")).text.splitlines()
    assert 'fenceline_files_orphans{pipeline="flights"} 2.0' in lines
    assert 'fenceline_files_orphans_bytes{pipeline="flights"} 37035.0' in lines
    assert 'fenceline_files_dangling_references{pipeline="flights"} 1.0' in lines
    at = f"{plane.now.timestamp()}"
    looked_at = next(line for line in lines if line.startswith("fenceline_files_orphans_looked_timestamp_seconds"))
    assert float(looked_at.split()[-1]) == float(at)
