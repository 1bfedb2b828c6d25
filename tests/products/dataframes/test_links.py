"""What only tasks of a pipeline have is neither offered nor allowed for a query."""

from __future__ import annotations

import httpx
import pytest

from app.core.pipelines.pages.tabs import links_within
from app.edges.db.database import Database
from app.edges.main import page_routes
from app.kit.access import Role
from tests.support.control_plane import ControlPlane, definition
from tests.support.fixtures import AsRole
from tests.support.queries import QUERY

OF_TASKS = {"Migrate", "Imported ids"}


def test_page_of_a_query_has_no_links_for_modes_and_ids_of_tasks() -> None:
    assert page_routes.router.routes, "the products have registered their links"
    of_tasks = {link.title for link in links_within(definition(), "more")}
    of_query = {link.title for link in links_within(definition(transform=QUERY), "more")}
    assert of_tasks >= OF_TASKS
    assert not of_query & OF_TASKS


@pytest.mark.parametrize("goal", ["v2", "generation"])
async def test_query_cannot_be_migrated(database: Database, as_role: AsRole, goal: str) -> None:
    plane = ControlPlane(database)
    await plane.running(transform=QUERY, transaction_timeout_ms=60_000)
    operator: httpx.AsyncClient = await as_role(Role.OPERATOR)
    refused = await operator.post("/api/v1/pipelines/flights/migrations", json={"goal": goal})
    assert refused.status_code == 409, refused.text
    assert "is a query of Spark: there is nothing to migrate" in refused.json()["detail"]
