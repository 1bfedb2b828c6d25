"""Looks for orphans on a server that is killed, and on one that is asked to stop."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.products.files.reader.conftest import Sink
from tests.support.databases import create_database, drop_database
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

PATH = "/pipelines/flights/files/orphans"
_DEADLINE_S = 60.0
_ENDS_WITHIN_S = 15.0


@pytest.fixture
def sink(kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> Generator[Sink]:
    made = Sink(kafka.bootstrap_servers, make_topic(prefix="files", retention_ms="-1"), tmp_path / "lake")
    made.now_ms = int(time.time() * 1000)
    yield made
    made.close()


@pytest.fixture
def server(postgres_server_url: str, sink: Sink, make_topic: MakeTopic, tmp_path: Path) -> Generator[ServerProcess]:
    """With a pipeline in whose sink topic a transaction is open, so that a look waits for a minute."""
    database_url = create_database(postgres_server_url)
    made = ServerProcess(tmp_path / "state", tmp_path / "cache", database_url)
    try:
        made.start()
        made.post("/clusters", {"name": "real", "bootstrap_servers": sink.bootstrap_servers})
        definition = {
            "cluster": "real",
            "source_topics": [make_topic()],
            "sink_topic": sink.topic,
            "group_id": sink.topic,
            "files": {
                "root": f"file://{sink.root}",
                "partition_by": [{"of": "field", "name": "day", "field": "day"}],
            },
        }
        made.post("/pipelines", {"name": "flights", "definition": definition})
        sink.commit(sink.upload(1))
        sink.producer.begin_transaction()
        sink.write(sink.upload(2))
        yield made
    finally:
        made.terminate()
        drop_database(postgres_server_url, database_url)


def waits(server: ServerProcess) -> dict[str, Any]:
    """The look, as soon as it waits for the transaction."""

    def found() -> dict[str, Any] | None:
        newest = server.get(PATH)["newest"]
        return newest if "waiting for open" in newest["told"] else None

    look = wait_for(found, _DEADLINE_S, "a look that waits for the transaction")
    assert look is not None
    return look


def over(server: ServerProcess) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        newest = server.get(PATH)["newest"]
        return newest if newest["ended_at"] is not None else None

    look = wait_for(found, _DEADLINE_S, "the end of the look")
    assert look is not None
    return look


def test_a_look_is_taken_up_by_the_server_that_comes_after_a_killed_one(server: ServerProcess, sink: Sink) -> None:
    server.post(PATH, {})
    assert waits(server)["attempt"] == 1
    server.kill()
    server.start()
    look = waits(server)
    assert (look["state"], look["attempt"]) == ("running", 2)
    sink.end(commits=True)
    look = over(server)
    assert (look["state"], look["reason"]) == ("done", None)
    assert look["findings"]["roots"][0]["referenced"]["files"] == 2
    assert look["findings"]["roots"][0]["missing"] == 0


def test_a_server_that_is_asked_to_stop_does_not_wait_for_a_look(server: ServerProcess, sink: Sink) -> None:
    server.post(PATH, {})
    waits(server)
    begun = time.monotonic()
    server.terminate()
    assert time.monotonic() - begun < _ENDS_WITHIN_S
    sink.end(commits=False)
    server.start()
    look = over(server)
    assert (look["state"], look["attempt"]) == ("done", 2)
