"""The API in memory, on a database of the test's own, with a client for each role."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

import httpx
import pytest
from fastapi import FastAPI

from app.domain.access import Role
from app.web.application import create_users_app
from app.web.dependencies import Wiring
from app.web.workers import create_workers_app
from tests.support.wiring import WORKERS_URL, client_of, settings_for_test, token_of, wired


@pytest.fixture
async def wiring(database_url: str, tmp_path: Path) -> AsyncGenerator[Wiring]:
    settings = settings_for_test(tmp_path, python_transforms=True)
    async with wired(database_url, settings) as made:
        yield made


@pytest.fixture
def app(wiring: Wiring) -> FastAPI:
    return create_users_app(wiring)


@pytest.fixture
def workers_app(wiring: Wiring) -> FastAPI:
    return create_workers_app(wiring)


class AsRole(Protocol):
    async def __call__(self, role: Role | None) -> httpx.AsyncClient:
        """A client with a token of that role; None: without a token."""
        ...


@pytest.fixture
async def as_role(app: FastAPI, wiring: Wiring) -> AsyncGenerator[AsRole]:
    made: dict[Role | None, httpx.AsyncClient] = {}

    async def make(role: Role | None) -> httpx.AsyncClient:
        if role not in made:
            made[role] = client_of(app, token=None if role is None else await token_of(wiring, role))
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
