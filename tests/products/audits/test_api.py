"""Audits over REST: requested, observed, stopped; ids of records require an operator."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from app.core.wiring import Wiring
from app.kit.access import Role
from app.kit.db.unit_of_work import UnitOfWork
from app.products.audits.audit import AuditState
from app.products.audits.service import carrying_out
from app.products.audits.store import AuditStore
from app.products.audits.wire import (
    CLAIM_PATH,
    OUTCOME_PATH,
    PROGRESS_PATH,
    AuditAnswer,
    AuditClaim,
    AuditEnd,
    AuditOutcome,
    AuditProgressReport,
    AuditStage,
)
from tests.support.audit_samples import broken_result
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import AsRole

NOW = datetime.now(UTC)
LAST_HOUR = {"kind": "time", "start": (NOW - timedelta(hours=1)).isoformat(), "end": NOW.isoformat()}
BY_ID = {"kind": "json", "path": "order.id"}


@pytest.fixture
async def pipeline(api_wiring: Wiring) -> str:
    """A pipeline without a broker."""

    class _Plane(ControlPlane):
        def uow(self) -> UnitOfWork:
            made = api_wiring.unit_of_work()
            assert isinstance(made, UnitOfWork)
            return made

    return (await _Plane(database=None).pipeline("flights")).name  # pyright: ignore[reportArgumentType]


async def ask(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post(
        "/api/v1/pipelines/flights/audits", json={"window": LAST_HOUR, "id_place": BY_ID, **fields}
    )


async def test_audit_from_request_to_verdict(
    api_wiring: Wiring, pipeline: str, as_role: AsRole, workers_client: httpx.AsyncClient
) -> None:
    operator, viewer = await as_role(Role.OPERATOR), await as_role(Role.VIEWER)
    response = await ask(operator)
    assert response.status_code == 201, response.text
    asked = response.json()
    assert (asked["state"], asked["sentence"], asked["padding_s"]) == ("pending", "Waiting.", 300)
    again = await ask(operator)
    assert again.status_code == 409
    async with api_wiring.unit_of_work() as uow:
        order = await carrying_out.begin_submission(
            uow, asked["id"], host="w1", cores=2, fenceline_version="1", server_urls=(), now=NOW
        )
        await uow.commit()
    told: dict[str, Any] = {"audit_id": asked["id"], "application_id": "app-1"}
    claim = AuditClaim(
        **told,
        fenceline_version="1",
        python_version="3.11",
        host="w1",
        jvm_pid=1,
        python_pid=2,
        process_started_at_ms=3,
    )
    headers = {"Authorization": f"Bearer {order.token}"}

    async def post(path: str, message: msgspec.Struct, headers: dict[str, str] = headers) -> httpx.Response:
        """Post, and repeat like a driver while Postgres exceeds the listener's time limit."""
        deadline = time.monotonic() + 30
        while True:
            answer = await workers_client.post(path, content=msgspec.json.encode(message), headers=headers)
            if answer.status_code != 503 or time.monotonic() > deadline:
                return answer

    assert (await post(CLAIM_PATH, claim, headers={"Authorization": "Bearer guessed"})).status_code == 401
    assert (await post(CLAIM_PATH, msgspec.structs.replace(claim, audit_id="another"))).status_code == 403
    assert (await post(CLAIM_PATH, claim)).status_code == 200
    assert (await post(CLAIM_PATH, msgspec.structs.replace(claim, application_id="app-2"))).status_code == 409
    progress = AuditProgressReport(**told, sent_at_ms=1, stage=AuditStage.READING, tasks_done=1, tasks=4, offsets=900)
    heard = await post(PROGRESS_PATH, progress)
    assert msgspec.json.decode(heard.content, type=AuditAnswer).is_wanted
    shown = (await viewer.get(f"/api/v1/audits/{asked['id']}")).json()
    assert (shown["state"], shown["progress"]["tasks_done"]) == ("running", 1)
    outcome = AuditOutcome(**told, kind=AuditEnd.DONE, result=broken_result(asked["id"]))
    assert (await post(OUTCOME_PATH, outcome)).status_code == 200
    done = (await viewer.get(f"/api/v1/audits/{asked['id']}")).json()
    assert (done["state"], done["verdict"]) == ("done", "broken")
    assert done["result"]["counts"]["lost"] == {"ids": 1, "records": 2}
    assert done["result"]["examples"][0]["inputs"][0]["offset"] == 41
    listed = (await viewer.get("/api/v1/audits", params={"pipeline": "flights"})).json()["items"]
    assert [one["verdict"] for one in listed] == ["broken"]
    assert listed[0]["result"]["examples"] == []
    metrics = (await viewer.get("/metrics")).text
    assert 'fenceline_audits_total{end="broken",pipeline="flights"} 1.0' in metrics
    assert 'fenceline_audits_total{end="clean",pipeline="flights"} 0.0' in metrics
    assert 'fenceline_audited_outputs_total{finding="lost",pipeline="flights"} 2.0' in metrics


async def test_ids_are_contents_of_records(api_wiring: Wiring, pipeline: str, as_role: AsRole) -> None:
    operator, viewer = await as_role(Role.OPERATOR), await as_role(Role.VIEWER)
    audit_id = (await ask(operator)).json()["id"]
    async with api_wiring.unit_of_work() as uow:
        audit = await uow.of(AuditStore).get(audit_id)
        await uow.of(AuditStore).save(
            msgspec.structs.replace(audit, state=AuditState.DONE, result=broken_result(audit_id), ended_at=NOW)
        )
        await uow.commit()
    path = f"/api/v1/audits/{audit_id}"
    assert (await viewer.get(path, params={"with_ids": "true"})).status_code == 403
    assert [one["id"] for one in (await viewer.get(path)).json()["result"]["examples"]] == [None, None]
    with_ids = (await operator.get(path, params={"with_ids": "true"})).json()
    assert [one["id"] for one in with_ids["result"]["examples"]] == ["order-7", "order-9"]
    log = (await viewer.get("/api/v1/commands", params={"target": "pipeline:flights"})).json()["items"]
    assert (log[0]["verb"], log[0]["outcome"]) == ("read_records", f"read the ids in audit {audit_id}")


async def test_pending_audit_is_stopped_at_once(pipeline: str, as_role: AsRole) -> None:
    operator = await as_role(Role.OPERATOR)
    audit_id = (await ask(operator)).json()["id"]
    stopped = (await operator.post(f"/api/v1/audits/{audit_id}/stop", json={"why": "a typing error"})).json()
    assert (stopped["state"], stopped["reason"]) == ("stopped", "stopped by a-operator: a typing error")
    assert (await operator.post(f"/api/v1/audits/{audit_id}/stop")).status_code == 409


async def test_problem_of_a_request_names_its_field(pipeline: str, as_role: AsRole) -> None:
    operator = await as_role(Role.OPERATOR)
    without_id = await ask(operator, id_place=None)
    assert without_id.status_code == 422
    assert [one["field"] for one in without_id.json()["problems"]] == ["id_place"]
    future = (NOW + timedelta(hours=1)).isoformat()
    wrong = await ask(
        operator, window={**LAST_HOUR, "end": future}, id_place={"kind": "json", "path": "a..b"}, padding_s=10**6
    )
    assert [one["field"] for one in wrong.json()["problems"]] == ["window.end", "padding_s", "id_place.path"]


async def test_plan_has_the_defaults_of_audits(pipeline: str, as_role: AsRole) -> None:
    author, operator = await as_role(Role.AUTHOR), await as_role(Role.OPERATOR)
    path = "/api/v1/pipelines/flights/audit-plan"
    assert (await operator.get(path)).status_code == 404
    body = {"id_place": BY_ID, "every_s": 3600, "padding_s": 60}
    assert (await operator.put(path, json=body)).status_code == 403
    plan = (await author.put(path, json=body)).json()
    assert (plan["every_s"], plan["tolerance_s"], plan["changed_by"]) == (3600, 1800, "a-author")
    asked = (await ask(operator, id_place=None)).json()
    assert (asked["id_place"], asked["padding_s"]) == (BY_ID, 60)
    assert (await author.delete(path)).status_code == 204
    assert (await operator.get(path)).status_code == 404


COMPARISON = {"baseline": {"of": "topic", "topic": "old"}, "ignored_fields": ["at"], "tolerance": 0.5}


async def test_comparison_is_requested_and_planned(pipeline: str, as_role: AsRole) -> None:
    author, operator = await as_role(Role.AUTHOR), await as_role(Role.OPERATOR)
    path = "/api/v1/pipelines/flights"
    body = {"window": LAST_HOUR, "id_place": BY_ID, "comparison": COMPARISON}
    assert (await operator.post(f"{path}/comparisons", json=body)).status_code == 403
    assert (await author.get(f"{path}/comparison-plan")).status_code == 404
    saved = await author.put(
        f"{path}/comparison-plan", json={"id_place": BY_ID, "comparison": COMPARISON, "every_s": 3600}
    )
    assert saved.status_code == 200, saved.text
    assert (saved.json()["comparison"]["baseline"], saved.json()["every_s"]) == (COMPARISON["baseline"], 3600)
    asked = await operator.post(f"{path}/comparisons", json={"window": LAST_HOUR})
    assert asked.status_code == 201, asked.text
    assert asked.json()["comparison"]["ignored_fields"] == ["at"], "as in the plan"
    listed = (await operator.get("/api/v1/audits")).json()["items"]
    assert [one["comparison"]["tolerance"] for one in listed] == [0.5]
    assert (await author.delete(f"{path}/comparison-plan")).status_code == 204
    assert (await author.get(f"{path}/comparison-plan")).status_code == 404


async def test_secret_of_a_table_is_refused_unless_it_is_a_reference(pipeline: str, as_role: AsRole) -> None:
    author = await as_role(Role.AUTHOR)
    table = {"of": "table", "url": "jdbc:postgresql://db/old", "table": "old", "password": "hunter2"}
    comparison = {"baseline": table, "baseline_time_field": "at"}
    body = {"window": LAST_HOUR, "id_place": BY_ID, "comparison": comparison}
    refused = await author.post("/api/v1/pipelines/flights/comparisons", json=body)
    assert refused.status_code == 422
    fields = {one["field"] for one in refused.json()["problems"]}
    assert {"comparison.baseline.url", "comparison.baseline.password"} <= fields
    assert "hunter2" not in refused.text
