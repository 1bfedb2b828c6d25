"""The plan of a query, which takes Spark up to two minutes, is made before the command's transaction."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from msgspec.structs import replace
from sqlalchemy.engine import make_url

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.service import validation
from app.edges.db.database import Database
from app.kit.access import Role
from app.kit.errors import Problem
from tests.support.control_plane import ControlPlane, definition
from tests.support.fixtures import AsRole
from tests.support.queries import QUERY

QUERIES = "/api/v1/pipelines"
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state = 'idle in transaction'"


class PlayedPlan:
    """In the place of Spark: it counts the transactions that are open while the plan is made."""

    def __init__(self, database_url: str) -> None:
        self._url = make_url(database_url)
        self.problems: list[Problem] = []
        self.open: list[int] = []

    async def check_plan(self, definition: PipelineDefinition, **_: Any) -> list[Problem]:
        plain = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain) as connection:
            row = connection.execute(OPEN, (self._url.database,)).fetchone()
        assert row is not None
        self.open.append(row[0])
        return self.problems


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, database_url: str) -> PlayedPlan:
    made = PlayedPlan(database_url)
    monkeypatch.setattr(validation, "check_plan", made.check_plan)
    return made


@pytest.fixture
async def author(database: Database, as_role: AsRole) -> httpx.AsyncClient:
    await ControlPlane(database).cluster()
    return await as_role(Role.AUTHOR)


def body(**fields: Any) -> dict[str, Any]:
    query = definition(transform=QUERY, transaction_timeout_ms=60_000, source_topics=("in",), tasks_per_instance=1)
    found: dict[str, Any] = msgspec.to_builtins(replace(query, **fields))
    return {"definition": found}


async def test_no_transaction_is_open_while_the_plan_is_made(author: httpx.AsyncClient, played: PlayedPlan) -> None:
    checked = await author.post(f"{QUERIES}/flights/validate", json=body())
    assert checked.json()["is_valid"], checked.text
    created = await author.post(QUERIES, json={"name": "flights", **body()}, headers={"Idempotency-Key": "one"})
    assert created.status_code == 201, created.text
    changed = await author.put(f"{QUERIES}/flights", json=body(session_timeout_ms=20_000))
    assert changed.status_code == 200, changed.text
    assert played.open == [0, 0, 0]


async def test_command_is_carried_out_once_though_its_transaction_ended_for_the_plan(
    author: httpx.AsyncClient, played: PlayedPlan
) -> None:
    given, key = {"name": "flights", **body()}, {"Idempotency-Key": "one"}
    first = await author.post(QUERIES, json=given, headers=key)
    again = await author.post(QUERIES, json=given, headers=key)
    assert (first.status_code, again.status_code) == (201, 201), again.text
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(played.open) == 1


async def test_problem_of_the_plan_refuses_the_command_at_its_field(
    author: httpx.AsyncClient, played: PlayedPlan
) -> None:
    played.problems = [Problem(field="transform.sql", message="no column carier")]
    refused = await author.post(QUERIES, json={"name": "flights", **body()})
    assert refused.status_code == 422
    assert "no column carier" in refused.text
    assert (await author.get(f"{QUERIES}/flights")).status_code == 404
