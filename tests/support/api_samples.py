"""Rows that the API needs before anything can be asked of it: a cluster on the real broker, topics, a pipeline."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.topics import create_topic, unique_name


def definition_on(bootstrap_servers: str, *, cluster: str = "local", **more: Any) -> dict[str, Any]:
    """A definition whose topics exist, with a group of its own."""
    source, sink = unique_name("api-in"), unique_name("api-out")
    for topic in (source, sink):
        create_topic(bootstrap_servers, topic, partitions=2)
    return {"cluster": cluster, "source_topics": [source], "sink_topic": sink, "group_id": source, **more}


async def register(client: httpx.AsyncClient, bootstrap_servers: str, *, name: str = "local") -> None:
    """Register the cluster. Raises AssertionError with the server's words when it refuses."""
    body = {"name": name, "bootstrap_servers": bootstrap_servers}
    response = await client.post("/api/v1/clusters", json=body)
    assert response.status_code == 201, response.text


async def create_pipeline(client: httpx.AsyncClient, name: str, definition: dict[str, Any]) -> dict[str, Any]:
    response = await client.post("/api/v1/pipelines", json={"name": name, "definition": definition})
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()["pipeline"]
    return created
