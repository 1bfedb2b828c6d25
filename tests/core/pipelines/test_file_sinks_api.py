"""A pipeline of files over REST: accepted, answered as it was sent, compared and described."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from app.core.pipelines.definition_schema import DateColumn, FieldColumn, FileSink, HourColumn
from app.edges.embedded.kafka import KafkaCluster
from tests.support.api_samples import create_pipeline, definition_on, register

FILES: dict[str, Any] = {
    "root": "s3://flights/files",
    "partition_by": [{"of": "field", "name": "carrier", "field": "carrier"}, {"of": "hour", "name": "hour"}],
    "event_time": "scheduled_departure",
    "codec": "deflate",
    "rotate_ms": 10_000,
    "max_file_mb": 16,
    "upload_timeout_ms": 30_000,
    "conflict": "bad_record",
    "schema": {"type": "record", "name": "flight", "fields": [{"name": "carrier", "type": ["null", "string"]}]},
    "id_field": "flight_id",
    "verifies": True,
}


@pytest.fixture
async def client(administrator: httpx.AsyncClient, kafka: KafkaCluster) -> httpx.AsyncClient:
    await register(administrator, kafka.bootstrap_servers)
    return administrator


async def test_a_sink_of_files_is_answered_as_it_was_sent(client: httpx.AsyncClient, kafka: KafkaCluster) -> None:
    created = await create_pipeline(client, "flights", definition_on(kafka.bootstrap_servers, files=FILES))
    assert created["definition"]["files"] == FILES
    again = await client.get("/api/v1/pipelines/flights")
    assert again.json()["definition"]["files"] == FILES
    sent = {"definition": again.json()["definition"]}
    changed = await client.put("/api/v1/pipelines/flights", json=sent)
    assert changed.json()["is_changed"] is False, changed.text
    validated = await client.post("/api/v1/pipelines/flights/validate", json=sent)
    assert [one for one in validated.json()["problems"] if not one["is_warning"]] == []


async def test_missing_field_has_its_default_and_records_have_no_files(
    client: httpx.AsyncClient, kafka: KafkaCluster
) -> None:
    files = await create_pipeline(client, "a", definition_on(kafka.bootstrap_servers, files={"root": "file:///d"}))
    assert files["definition"]["files"]["rotate_ms"] == 30_000
    records = await create_pipeline(client, "b", definition_on(kafka.bootstrap_servers))
    assert records["definition"]["files"] is None


async def test_a_topic_that_loses_references_is_a_warning_for_files_alone(
    client: httpx.AsyncClient, kafka: KafkaCluster
) -> None:
    definition = definition_on(kafka.bootstrap_servers)
    for more, is_warned in (({}, False), ({"files": {"root": "file:///d"}}, True)):
        answer = await client.post("/api/v1/pipelines/a/validate", json={"definition": {**definition, **more}})
        warned = [one["message"] for one in answer.json()["problems"] if one["field"] == "files"]
        assert any("retention.ms=604800000" in message for message in warned) is is_warned, answer.text


async def test_revisions_are_compared_field_by_field(client: httpx.AsyncClient, kafka: KafkaCluster) -> None:
    definition = definition_on(kafka.bootstrap_servers, files=FILES)
    await create_pipeline(client, "flights", definition)
    changed = {**FILES, "partition_by": FILES["partition_by"][:1], "schema": None}
    await client.put("/api/v1/pipelines/flights", json={"definition": {**definition, "files": changed}})
    answer = await client.get("/api/v1/pipelines/flights/diff?from=1&to=2")
    assert {one["field"] for one in answer.json()["changes"]} == {"files.partition_by", "files.schema"}


@pytest.mark.parametrize("model", [FileSink, FieldColumn, DateColumn, HourColumn])
def test_every_field_says_what_it_is_and_has_the_name_that_is_sent(model: type[BaseModel]) -> None:
    described = model.model_json_schema()
    assert described["description"]
    for name, field in described["properties"].items():
        assert not name.endswith("_")
        # A value may be described where its list is.
        listed = described.get("$defs", {}).get(field.get("$ref", "").rpartition("/")[2], {})
        assert field.get("description") or listed.get("description") or name == "of", name
