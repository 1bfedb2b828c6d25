"""A query that leaves its checkpoint, on a real broker with a local Spark: its output is what the plan said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from app.core.runs.cli import ENDED
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support import verifier
from tests.support.fixtures import Fenceline, json_of
from tests.support.quiet import QUIET
from tests.support.serving import Serving
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

UP_WITHIN_S = "240"
DOWN_WITHIN_S = "90"
RECORDS, MORE, LAST = range(300), range(300, 350), range(350, 360)


@pytest.fixture
def definition(cluster: str, make_topic: MakeTopic, tmp_path: Path) -> dict[str, Any]:
    source = make_topic(partitions=2)
    return {
        "cluster": cluster,
        "source_topics": [source],
        "group_id": unique_name("group"),
        "sink_topic": make_topic(partitions=1),
        "transaction_timeout_ms": 60_000,
        "session_timeout_ms": 6_000,
        "spark": {"master": "local[2]"},
        "transform": {
            "kind": "dataframe",
            "streams": [{"name": "numbers", "topic": source, "schema": "n INT"}],
            "sql": "SELECT cast(n AS STRING) AS value FROM numbers",
            "checkpoint": f"file://{tmp_path}/checkpoint",
            "max_offsets_per_trigger": 100,
            "trigger_ms": 500,
        },
    }


@pytest.fixture
def pipeline(served: Serving, definition: dict[str, Any]) -> Generator[str]:
    """No run of it is left."""
    name = unique_name("query")
    with served.client() as client:
        created = client.post("/api/v1/pipelines", json={"name": name, "definition": definition}, timeout=120)
        assert created.status_code == 201, created.text
        yield name

        def run() -> Any:
            return client.get(f"/api/v1/pipelines/{name}").json()["current_run"]

        if (current := run()) is not None and current["state"] not in ENDED:
            client.post(f"/api/v1/runs/{current['id']}/kill", json={})
            wait_for(lambda: run()["state"] in ENDED, 60, lambda: f"the end of {run()}")


def test_output_after_a_new_checkpoint_is_what_its_plan_said(
    fenceline: Fenceline, served: Serving, pipeline: str, definition: dict[str, Any], kafka: KafkaCluster
) -> None:
    def feed(numbers: Iterable[int]) -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
        for number in numbers:
            value = json.dumps({"n": number}).encode()
            producer.produce(definition["source_topics"][0], value=value, partition=number % 2)
        assert producer.flush(30) == 0

    def written() -> Counter[int]:
        found = verifier.read_all(kafka.bootstrap_servers, definition["sink_topic"])
        return Counter(int(record.value or b"") for record in found)

    def state() -> str:
        with served.client() as client:
            run: Any = client.get(f"/api/v1/pipelines/{pipeline}").json()["current_run"]
        return f"{run['state']}: {run['end_reason']}, {[one['reason'] for one in run['instances']]}"

    def run_until_written(count: int) -> None:
        started = fenceline("runs", "start", pipeline)
        assert started.returncode == 0, started.stdout + started.stderr
        wait_for(lambda: written().total() >= count, float(UP_WITHIN_S), lambda: f"{count} rows; {state()}")
        drained = json_of(fenceline("runs", "drain", pipeline, "--wait", DOWN_WITHIN_S, "--json"))
        assert drained["instances"][0]["outcome"]["kind"] == "drained"

    def plan(*options: str) -> Any:
        found: Any = None

        def is_possible() -> bool:
            nonlocal found
            found = json_of(fenceline("new-checkpoint", pipeline, *options, "--json"))["plan"]
            return found["refusals"] == []

        wait_for(is_possible, 60, lambda: f"the end of the driver's membership: {found['refusals']}")
        return found

    def leave(*options: str) -> Any:
        asked = (pipeline, *options, "--execute", "--why", "the disk is lost", "--json")
        done = json_of(fenceline("new-checkpoint", *asked))
        assert done["executed"]
        return done["plan"]

    old = definition["transform"]["checkpoint"]
    feed(RECORDS)
    run_until_written(len(RECORDS))
    assert written() == Counter(RECORDS)

    # Negative control: another folder without the command.
    with served.client() as client:
        other = {**definition, "transform": {**definition["transform"], "checkpoint": f"{old}-saved"}}
        saved = client.put(f"/api/v1/pipelines/{pipeline}", json={"definition": other}, timeout=120)
        assert saved.status_code == 200, saved.text
        assert "fenceline new-checkpoint" in saved.text
    refused = fenceline("runs", "start", pipeline, "--wait", UP_WITHIN_S)
    assert refused.returncode == 1
    said = " ".join(refused.stderr.split())
    assert "is new or was deleted, but" in said
    assert "start over: fenceline new-checkpoint" in said
    fenceline("runs", "kill", pipeline, "--yes", "--wait", DOWN_WITHIN_S)
    assert written() == Counter(RECORDS)

    # Without state, it goes on where it ended.
    without = fenceline("new-checkpoint", pipeline, "--execute")
    assert without.returncode != 0
    assert "--execute needs a reason" in " ".join(without.stderr.split())
    shown = plan()
    assert (shown["left"], shown["checkpoint"]) == (old, f"{old}-r3")
    assert (shown["begin"], shown["has_state"]) == ("committed", False)
    assert (shown["read_again"], shown["never_read"]) == (0, 0)
    assert leave() == shown
    feed(MORE)
    run_until_written(len(RECORDS) + len(MORE))
    assert written() == Counter([*RECORDS, *MORE])

    # At the start position, it reads as many records again as the plan said.
    shown = plan("--begin", "start_position")
    assert (shown["left"], shown["checkpoint"]) == (f"{old}-r3", f"{old}-r4")
    assert shown["read_again"] == len(RECORDS) + len(MORE)
    assert f"At most {shown['read_again']} records are read again." in shown["effects"]
    assert leave("--begin", "start_position") == shown
    before = written().total()
    feed(LAST)
    run_until_written(before + shown["read_again"] + len(LAST))
    assert written() == Counter([*RECORDS, *MORE] * 2 + [*LAST])

    # The checkpoint that was left is refused, too.
    with served.client() as client:
        back = client.put(f"/api/v1/pipelines/{pipeline}", json={"definition": definition}, timeout=120)
        assert back.status_code == 200, back.text
    refused = fenceline("runs", "start", pipeline, "--wait", UP_WITHIN_S)
    assert refused.returncode == 1
    assert "is of query" in " ".join(refused.stderr.split())
    assert written().total() == before + shown["read_again"] + len(LAST)
