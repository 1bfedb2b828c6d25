"""The server against its own OpenAPI: no 5xx, and no answer that the description does not know.

The examples are drawn by the run's seed (`pytest --seed N` repeats them).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from app.edges.embedded.kafka import KafkaCluster
from tests.support.live_application import LiveApplication, live_application
from tests.support.topics import create_topic, unique_name

EXAMPLES = 10
STATEFUL_S = 600
LONGEST_LINE = 400
SEEDED = "seeded"
# It does not know that a body may be refused for its size alone (413), whatever is wrong in it.
REFUSALS = ("[checks.negative_data_rejection]", 'expected-statuses = ["4xx"]')


@pytest.fixture
def live(
    database_url: str, kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Generator[LiveApplication]:
    """The application with a cluster, a pipeline of three revisions, and a run of it.

    One for each test: what may be asked for also ends runs, revokes tokens and deletes pipelines.
    """
    with live_application(database_url, tmp_path_factory.mktemp("live"), python_transforms=True) as made:
        _seed(made, kafka.bootstrap_servers)
        yield made


def _seed(live: LiveApplication, bootstrap_servers: str) -> None:
    source, sink = unique_name("api"), unique_name("api")
    for topic in (source, sink):
        create_topic(bootstrap_servers, topic, partitions=2)
    definition = {"cluster": SEEDED, "source_topics": [source], "sink_topic": sink, "group_id": source}
    with live.client() as client:
        for method, path, body in (
            ("POST", "/clusters", {"name": SEEDED, "bootstrap_servers": bootstrap_servers}),
            ("POST", "/pipelines", {"name": SEEDED, "definition": definition}),
            ("PUT", f"/pipelines/{SEEDED}", {"definition": {**definition, "commit_interval_ms": 200}}),
            ("PUT", f"/pipelines/{SEEDED}", {"definition": {**definition, "tasks_per_instance": 2}}),
            ("POST", f"/pipelines/{SEEDED}/runs", {}),
        ):
            response = client.request(method, f"/api/v1{path}", json=body)
            assert response.is_success, f"{method} {path}: {response.text}"


def _check(
    live: LiveApplication,
    seed: int,
    folder: Path,
    *arguments: str,
    parameters: dict[str, str] | None = None,
    seconds: int | None = None,
) -> None:
    """Run schemathesis with all of its checks over every operation. Raises AssertionError with what it found.

    `seconds`: repeat until they are spent.
    """
    configuration = folder / "schemathesis.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in (parameters or {}).items()]
    configuration.write_text("\n".join(["[parameters]", *lines, *REFUSALS]) + "\n")
    # As a process: its pytest plugin does not know pytest 9.2 yet.
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    options = ["run", f"{live.url}/api/v1/openapi.json", "--max-examples", str(EXAMPLES), "--seed", str(seed)]
    if seconds is not None:
        options += ["--max-time", str(seconds)]
    ended = subprocess.run(
        [
            *(*command, "--config-file", str(configuration), "--no-color", *options, *arguments),
            *("--continue-on-failure", "--warnings", "off", "--header", f"Authorization: Bearer {live.token}"),
            # What only the rules, other rows or the brokers refuse, no schema can tell beforehand.
            *("--exclude-checks", "positive_data_acceptance"),
        ],
        cwd=folder,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300 + (seconds or 0),
        check=False,
    )
    # Long bodies would else push out which operation it was.
    said = "\n".join(line[:LONGEST_LINE] for line in ended.stdout.splitlines())
    print(said[-2_000:])  # noqa: T201 - shown by pytest -rP: how much was tried
    assert ended.returncode == 0, f"schemathesis with --seed {seed}:\n{said[-12_000:]}{ended.stderr[-2_000:]}"


def test_every_operation_says_in_words_what_it_does_under_a_name_of_its_own(live: LiveApplication) -> None:
    with live.client() as client:
        described = client.get("/api/v1/openapi.json").json()
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    tags = {tag["name"] for tag in described["tags"] if tag["description"]}
    for operation in operations:
        name = operation["operationId"]
        assert operation.get("summary"), name
        assert operation.get("description"), name
        assert len(operation["tags"]) == 1, name
        assert set(operation["tags"]) <= tags, name
        assert "ProblemDocument" in str(operation["responses"]["422"]), name
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert "drain_run" in names


def test_no_two_classes_share_the_name_of_a_schema(live: LiveApplication) -> None:
    """Pydantic puts the path of the module into the names of both."""
    with live.client() as client:
        schemas = client.get("/api/v1/openapi.json").json()["components"]["schemas"]
    assert [name for name in schemas if "__" in name] == []
    assert "AuditVerdict" in schemas


@pytest.mark.slow
def test_any_request_is_answered_as_described(live: LiveApplication, seed: int, tmp_path: Path) -> None:
    _check(live, seed, tmp_path, "--phases", "examples,coverage,fuzzing")


@pytest.mark.core
@pytest.mark.slow
def test_existing_resources_are_answered_as_described(live: LiveApplication, seed: int, tmp_path: Path) -> None:
    """Questions only, about what was seeded: so their answers have something in them."""
    with live.client() as client:
        run_id = client.get(f"/api/v1/pipelines/{SEEDED}").json()["current_run"]["id"]
    seeded = {"path.name": SEEDED, "path.run_id": run_id}
    _check(live, seed, tmp_path, "--include-method", "GET", "--phases", "fuzzing", parameters=seeded)


@pytest.mark.slow
def test_requests_that_follow_from_answers_are_answered_as_described(
    live: LiveApplication, seed: int, tmp_path: Path, everything: bool
) -> None:
    """A request is about what an earlier answer named: made, changed, ended and removed in any order."""
    _check(live, seed, tmp_path, "--phases", "stateful", seconds=STATEFUL_S if everything else None)
