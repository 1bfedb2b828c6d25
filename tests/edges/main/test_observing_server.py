"""The observer of a real server: a registered cluster is known, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.edges.kafka.test_raw_fetch import produce
from tests.support.serving import Serving
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
_TIMEOUT_S = 30.0


def until(client: httpx.Client, path: str, condition: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
    """The first answer that is as the condition wants it."""
    seen: list[dict[str, Any]] = [{}]

    def holds() -> bool:
        answer = client.get(f"/api/v1/clusters/local{path}")
        seen[0] = answer.json()
        return answer.is_success and bool(condition(seen[0]))

    wait_for(holds, 60, lambda: f"{what}: {seen[0]}")
    return seen[0]


def test_foreign_transaction_is_known_before_and_after_a_restart(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, name = make_topic(), unique_name("stranger/")
    still_open = produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=name)
    with Serving.start(tmp_path) as server, server.client() as client:
        body = {"name": "local", "bootstrap_servers": kafka.bootstrap_servers}
        assert client.post("/api/v1/clusters", json=body).is_success
        found = until(client, f"/transactional-ids/{name}", lambda one: one["is_open"], "the stranger's transaction")
        assert found["owner"] is None
        assert found["topics"] == [{"topic": topic, "partitions": [0]}]
        still_open.commit_transaction(_TIMEOUT_S)
        until(client, f"/transactional-ids/{name}", lambda one: one["state"] == "CompleteCommit", "its commit")
        until(client, "/observer", lambda one: one["transactions"]["phase"] == "live", "the journal is read")
        assert 'fenceline_journal_phase{cluster="local",phase="live",topic="__transaction_state"} 1.0' in (
            client.get("/metrics").text
        )
        assert server.terminate() == 0
    (saved,) = (server.state_dir / "journals").iterdir()
    assert saved.suffix == ".journals"
    with Serving.start(tmp_path) as server, server.client() as client:
        after = until(client, "/observer", lambda one: one["transactions"]["phase"] == "live", "the journal again")
        assert client.get(f"/api/v1/clusters/local/transactional-ids/{name}").json()["commits"] == 1
        assert after["note"] == ""
