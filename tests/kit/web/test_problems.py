"""Bad input gets a problem document that names the field, and nothing half done."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.kit.web.errors import field_path

DEFINITION: dict[str, Any] = {"cluster": "c", "source_topics": ["a"], "group_id": "g", "sink_topic": "b"}


def _fields(response: httpx.Response) -> set[str]:
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return {problem["field"] for problem in response.json()["problems"]}


async def _validate(client: httpx.AsyncClient, **changes: Any) -> httpx.Response:
    return await client.post("/api/v1/pipelines/p/validate", json={"definition": {**DEFINITION, **changes}})


async def test_invalid_json_is_a_400_with_its_place(administrator: httpx.AsyncClient) -> None:
    response = await administrator.post(
        "/api/v1/pipelines", content=b'{"name": ', headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert "not JSON" in response.json()["detail"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sink_topic": 7}, "sink_topic"),
        ({"instances": "2"}, "instances"),
        ({"instances": 2**40}, "instances"),
        ({"nonsense": 1}, "nonsense"),
        ({"processing_guarantee": "twice"}, "processing_guarantee"),
        ({"errors": {"policy": "ignore"}}, "errors.policy"),
        ({"spark": {"conf": {"spark.x": 1}}}, "spark.conf.spark.x"),
        ({"transform": {"kind": "magic"}}, "transform"),
        ({"transform": {"kind": "steps", "steps": [{"op": "project", "fields": [1]}]}}, "transform.steps.0.fields.0"),
        (
            {"transform": {"kind": "steps", "steps": [{"op": "filter", "field": "a", "operator": "like"}]}},
            "transform.steps.0.operator",
        ),
        ({"files": {}}, "files.root"),
        ({"files": {"root": "file:///d", "rotate_ms": "soon"}}, "files.rotate_ms"),
        ({"files": {"root": "file:///d", "schema": "record"}}, "files.schema"),
        ({"files": {"root": "file:///d", "schema_": {}}}, "files.schema_"),
        (
            {"files": {"root": "file:///d", "partition_by": [{"of": "date", "name": "d"}, {"of": "field", "name": 1}]}},
            "files.partition_by.1.name",
        ),
    ],
)
async def test_a_mistake_is_named_at_its_field(
    administrator: httpx.AsyncClient, changes: dict[str, Any], field: str
) -> None:
    assert field in _fields(await _validate(administrator, **changes))


async def test_contradictions_of_a_file_sink_are_named_at_their_fields(administrator: httpx.AsyncClient) -> None:
    columns = [{"of": "date", "name": "date"}, {"of": "field", "name": "a b", "field": "a..b"}]
    files = {"root": "gs://bucket", "partition_by": columns, "rotate_ms": 1, "upload_timeout_ms": 300_000}
    response = await _validate(administrator, files=files, processing_guarantee="at_least_once")
    assert response.status_code == 200
    found = {problem["field"] for problem in response.json()["problems"]}
    assert found >= {
        "processing_guarantee",
        "files.root",
        "files.partition_by.1.name",
        "files.partition_by.1.field",
        "files.rotate_ms",
        "files.upload_timeout_ms",
    }


async def test_all_mistakes_are_named_at_once(administrator: httpx.AsyncClient) -> None:
    response = await _validate(administrator, sink_topic=1, group_id=2, instances="x")
    assert {"sink_topic", "group_id", "instances"} <= _fields(response)


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", 2**70, float("nan"), float("inf")])
async def test_values_that_the_database_cannot_hold_are_refused(administrator: httpx.AsyncClient, value: Any) -> None:
    step = {"op": "set", "field": "a", "value": {"deep": [value]}}
    body = json.dumps({"definition": {**DEFINITION, "transform": {"kind": "steps", "steps": [step]}}})
    response = await administrator.post(
        "/api/v1/pipelines/p/validate", content=body.encode(), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422, response.text


async def test_deep_nesting_is_no_crash(administrator: httpx.AsyncClient) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    response = await administrator.post(
        "/api/v1/pipelines", content=b'{"name": ' + deep + b"}", headers={"Content-Type": "application/json"}
    )
    assert response.status_code in (400, 422), response.text[:200]


async def test_a_body_beyond_the_limit_is_a_413(administrator: httpx.AsyncClient) -> None:
    body = b'{"name": "' + b"x" * (2 * 1024 * 1024) + b'"}'
    response = await administrator.post("/api/v1/pipelines", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert "request_limit_kib" in response.json()["detail"]


async def test_a_body_without_a_length_is_counted_as_it_comes(administrator: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"name": "'
        for _ in range(40):
            yield b"x" * 65_536

    headers = {"Content-Type": "application/json"}
    response = await administrator.post("/api/v1/pipelines", content=chunks(), headers=headers)
    assert response.status_code == 413
    assert response.headers["content-type"] == "application/problem+json"


async def test_another_method_is_a_405_that_lists_all_that_are_possible(administrator: httpx.AsyncClient) -> None:
    response = await administrator.patch("/api/v1/pipelines/p")
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == {"GET", "PUT", "DELETE"}


async def test_nothing_there_is_a_problem_document_for_programs_and_a_page_for_people(
    administrator: httpx.AsyncClient,
) -> None:
    for_program = await administrator.get("/nothing")
    for_person = await administrator.get("/nothing", headers={"Accept": "text/html"})
    assert for_program.headers["content-type"] == "application/problem+json"
    assert for_person.headers["content-type"].startswith("text/html")
    assert for_program.status_code == for_person.status_code == 404


@pytest.mark.parametrize(
    "path", ["pipelines/none", "clusters/none", "pipelines/none/revisions", "pipelines/none/mappings"]
)
async def test_missing_resources_are_named(administrator: httpx.AsyncClient, path: str) -> None:
    response = await administrator.get(f"/api/v1/{path}")
    assert response.status_code == 404
    assert "none" in response.json()["detail"]


@pytest.mark.parametrize(("name", "value"), [("limit", "0"), ("limit", "501"), ("limit", "x"), ("after", "%00")])
async def test_a_bad_page_is_named(administrator: httpx.AsyncClient, name: str, value: str) -> None:
    assert _fields(await administrator.get(f"/api/v1/pipelines?{name}={value}")) == {name}


async def test_a_cursor_that_is_not_ours_is_named(administrator: httpx.AsyncClient) -> None:
    assert _fields(await administrator.get("/api/v1/pipelines?after=abcd")) == {"after"}


@pytest.mark.parametrize(
    ("loc", "path"),
    [
        (("body", "definition", "transform", "steps", "steps", 2, "filter", "value"), "transform.steps.2.value"),
        (("body", "definition", "sink_topic"), "sink_topic"),
        (("body", "definition", "files", "partition_by", 1, "field", "name"), "files.partition_by.1.name"),
        (("body", "name"), "name"),
        (("body", "definition"), "definition"),
        (("query", "limit"), "limit"),
        (("body",), ""),
    ],
)
def test_a_path_is_as_a_person_would_write_it(loc: tuple[int | str, ...], path: str) -> None:
    assert field_path(loc) == path
