"""One server and one broker for all commands; commands run as processes, as a person types them."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

import orjson
import pytest

from app.embedded.kafka import KafkaCluster
from tests.support.serving import Serving
from tests.support.webhook_receiver import OTHER_SECRET, SECRET

WEBHOOK_SECRETS = {"ONE": SECRET, "TWO": OTHER_SECRET}
"""By their names, which the server knows as env:FENCELINE_SECRET_…"""


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    """A server with its own Postgres; its reconciler is as in production: who starts a run ends it."""
    settings = {
        "python_transforms": "true",
        "allowed_webhook_hosts": "127.0.0.1",
        "allowed_webhook_networks": "127.0.0.1",
        "alert_transaction_open_s": "1",
        **{f"secret_{name}": secret for name, secret in WEBHOOK_SECRETS.items()},
    }
    with Serving.start(tmp_path_factory.mktemp("cli"), settings=settings) as server:
        server.wait_until_announced()
        yield server


class Fenceline(Protocol):
    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, whatever its exit code."""
        ...


@pytest.fixture
def fenceline(served: Serving, tmp_path: Path) -> Fenceline:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return served.run(*arguments, folder=tmp_path, **environment)

    return run


@pytest.fixture
def cluster(served: Serving, kafka: KafkaCluster) -> str:
    """The broker, registered as `local`."""
    with served.client() as client:
        body = {"name": "local", "bootstrap_servers": kafka.bootstrap_servers}
        response = client.post("/api/v1/clusters", json=body)
        assert response.status_code in (201, 409), response.text
    return "local"


def json_of(ended: subprocess.CompletedProcess[str]) -> Any:
    """The one JSON document on standard output."""
    assert ended.returncode == 0, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
    return orjson.loads(ended.stdout)
