"""The demo's pipeline is set up over REST so that a drill of it ends with an audit, which finds a core."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pydantic

from app.embedded.demo import pipeline
from app.embedded.demo.once import start_pipeline
from app.embedded.demo.server import DemoServer
from app.embedded.demo.stage import Stage
from app.embedded.processes import ChildProcess
from app.web.api.schemas.audits import AuditPlanGiven


def test_its_audits_are_planned_before_it_runs() -> None:
    asked: list[tuple[str, str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(201, json={"id": "r1", "state": "starting"})

    http = httpx.Client(base_url="http://demo/api/v1", transport=httpx.MockTransport(answer))
    server = DemoServer(cast(ChildProcess, None), "http://demo", None, http)
    stage = cast(Stage, SimpleNamespace(server=server, spark=SimpleNamespace(master_url="spark://127.0.0.1:7077")))
    assert start_pipeline(stage).id == "r1"
    assert [(method, path) for method, path, _ in asked] == [
        ("POST", "/api/v1/pipelines"),
        ("PUT", f"/api/v1/pipelines/{pipeline.NAME}/audit-plan"),
        ("POST", f"/api/v1/pipelines/{pipeline.NAME}/runs"),
    ]
    assert asked[0][2]["definition"]["allows_drills"]
    plan = pydantic.TypeAdapter(AuditPlanGiven).validate_json(json.dumps(asked[1][2]))
    assert plan.id_place.kind == "json"
    (project,) = (step for step in asked[0][2]["definition"]["transform"]["steps"] if step["op"] == "project")
    assert plan.id_place.path in project["fields"], "an output without its id could not be told from another"


def test_an_audit_finds_a_core_while_all_instances_run() -> None:
    assert pipeline.CORES > pipeline.INSTANCES
