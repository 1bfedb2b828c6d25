"""Fixtures of tests in several folders: a plugin that tests/conftest.py names.

A folder's own fixtures stay in its conftest.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, Protocol

import httpx
import orjson
import pytest
from fastapi import FastAPI

from app.core.clusters.brokers import Connection
from app.core.runs.workers_api import create_workers_app
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.serving import Serving
from tests.support.webhook_receiver import OTHER_SECRET, SECRET
from tests.support.wiring import WORKERS_URL, client_of, settings_for_test, token_of, wired

WEBHOOK_SECRETS = {"ONE": SECRET, "TWO": OTHER_SECRET}
"""Secrets of the server of `served` by name; it reads them as env:FENCELINE_SECRET_…"""


@pytest.fixture
def plane(database: Database) -> ControlPlane:
    """A control plane on a database of the test's own."""
    return ControlPlane(database)


@pytest.fixture
def connection(kafka: KafkaCluster) -> Connection:
    """The client settings with which a client reaches the shared broker."""
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture(scope="session")
def worker_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package for executors is built, once a run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
async def wiring(database: Database, tmp_path: Path) -> AsyncGenerator[Wiring]:
    """The wiring of the pages: without Python transforms."""
    async with wired(database.url, settings_for_test(tmp_path)) as made:
        yield made


@pytest.fixture
async def api_wiring(database_url: str, tmp_path: Path) -> AsyncGenerator[Wiring]:
    """The wiring of the API: with Python transforms."""
    async with wired(database_url, settings_for_test(tmp_path, python_transforms=True)) as made:
        yield made


@pytest.fixture
def app(api_wiring: Wiring) -> FastAPI:
    """The application of users, in memory, on a database of the test's own."""
    return create_users_app(api_wiring)


@pytest.fixture
def workers_app(api_wiring: Wiring) -> FastAPI:
    """The application of workers, on the same database as `app`."""
    return create_workers_app(api_wiring)


class AsRole(Protocol):
    async def __call__(self, role: Role | None) -> httpx.AsyncClient:
        """Return a client of `app` with a token of that role; None: without a token."""
        ...


@pytest.fixture
async def as_role(app: FastAPI, api_wiring: Wiring) -> AsyncGenerator[AsRole]:
    made: dict[Role | None, httpx.AsyncClient] = {}

    async def make(role: Role | None) -> httpx.AsyncClient:
        if role not in made:
            made[role] = client_of(app, token=None if role is None else await token_of(api_wiring, role))
        return made[role]

    yield make
    for client in made.values():
        await client.aclose()


@pytest.fixture
async def administrator(as_role: AsRole) -> httpx.AsyncClient:
    return await as_role(Role.ADMINISTRATOR)


@pytest.fixture
def workers_client(workers_app: FastAPI) -> httpx.AsyncClient:
    return client_of(workers_app, url=WORKERS_URL)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    """One server for all commands, with its own Postgres and its reconciler at work: a test ends the runs it starts."""
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
        """Run the command to its end, with any exit code."""
        ...


@pytest.fixture
def fenceline(served: Serving, tmp_path: Path) -> Fenceline:
    """Runs commands against `served`, each as a process of its own."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return served.run(*arguments, folder=tmp_path, **environment)

    return run


@pytest.fixture
def cluster(served: Serving, kafka: KafkaCluster) -> str:
    """The shared broker, registered at `served` as `local`."""
    with served.client() as client:
        body = {"name": "local", "bootstrap_servers": kafka.bootstrap_servers}
        response = client.post("/api/v1/clusters", json=body)
        assert response.status_code in (201, 409), response.text
    return "local"


def json_of(ended: subprocess.CompletedProcess[str]) -> Any:
    """Return the one JSON document on standard output."""
    assert ended.returncode == 0, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
    return orjson.loads(ended.stdout)
