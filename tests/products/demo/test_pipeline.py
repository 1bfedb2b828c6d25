"""The demo's pipelines are set up over REST: drills of the first end with an audit, the second waits for its start."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pydantic

from app.core.allow_lists.options import AllowedOptions
from app.core.pipelines.definition import decode_definition
from app.core.pipelines.file_partitions import FilePartitions
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_checks import check
from app.edges.embedded.processes import ChildProcess
from app.products.audits.schemas import AuditPlanGiven
from app.products.audits.specification import JsonField
from app.products.demo import file_pipeline, pipeline
from app.products.demo.flights import read_flights
from app.products.demo.server import DemoServer
from app.products.demo.stage import DemoStage
from app.products.demo.starting import CORES, create_file_pipeline, start_pipeline

Asked = list[tuple[str, str, Any]]


def stage_that_notes(asked: Asked, *, root: Path = Path("/files")) -> DemoStage:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(201, json={"id": "r1", "state": "starting"})

    http = httpx.Client(base_url="http://demo/api/v1", transport=httpx.MockTransport(answer))
    server = DemoServer(cast(ChildProcess, None), "http://demo", None, http)
    spark = SimpleNamespace(master_url="spark://127.0.0.1:7077")
    return cast(DemoStage, SimpleNamespace(server=server, spark=spark, files_root=root))


def test_its_audits_are_planned_before_it_runs() -> None:
    asked: Asked = []
    assert start_pipeline(stage_that_notes(asked)).id == "r1"
    assert [(method, path) for method, path, _ in asked] == [
        ("POST", "/api/v1/pipelines"),
        ("PUT", f"/api/v1/pipelines/{pipeline.NAME}/audit-plan"),
        ("POST", f"/api/v1/pipelines/{pipeline.NAME}/runs"),
    ]
    assert asked[0][2]["definition"]["allows_drills"]
    plan = pydantic.TypeAdapter(AuditPlanGiven).validate_json(json.dumps(asked[1][2]))
    assert isinstance(plan.id_place, JsonField)
    (project,) = (step for step in asked[0][2]["definition"]["transform"]["steps"] if step["op"] == "project")
    assert plan.id_place.path in project["fields"], "an output without its id could not be told from another"


def test_the_second_pipeline_is_as_the_form_would_have_it_and_is_not_started(tmp_path: Path) -> None:
    asked: Asked = []
    create_file_pipeline(stage_that_notes(asked, root=tmp_path / "files"))
    ((method, path, body),) = asked
    assert (method, path, body["name"]) == ("POST", "/api/v1/pipelines", file_pipeline.NAME)
    definition = decode_definition(body["definition"])
    assert isinstance(definition, PipelineDefinition), definition
    assert not check(definition, name=file_pipeline.NAME, facts=None, others=(), allowed=AllowedOptions())
    assert definition.files is not None
    partitions = FilePartitions(definition.files.partition_by, event_time=definition.files.event_time)
    (flight,) = read_flights(limit=1)
    assert partitions.folder(partitions.values(flight.fields(), None)) == "carrier=UA/date=2013-01-01"


def test_an_audit_finds_a_core_while_all_instances_of_both_run() -> None:
    of_files = file_pipeline.definition(cluster="demo", spark_master="local", root=Path("/files"))
    assert pipeline.INSTANCES + of_files["instances"] < CORES
