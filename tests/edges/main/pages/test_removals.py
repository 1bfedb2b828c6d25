"""After a removal, the browser gets an existing page with a message."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.wiring import browser_of, settings_for_test, token_of, wired


@pytest.fixture
async def wiring(database: Database, tmp_path: Path) -> AsyncGenerator[Wiring]:
    async with wired(database.url, settings_for_test(tmp_path, allowed_webhook_hosts="hooks.example.com")) as made:
        yield made


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser_of(wiring, Role.ADMINISTRATOR) as made:
        yield made


async def test_deleting_a_pipeline_ends_on_the_list_and_its_stream_says_that_it_is_gone(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    await ControlPlane(database, now=wiring.clock.now()).pipeline("flights")
    assert "Delete…" in (await browser.get("/pipelines/flights/more")).text
    landed = await browser.post("/pipelines/flights/delete", data={"why": "enough"}, follow_redirects=True)
    assert (landed.status_code, landed.url.path) == (200, "/pipelines")
    assert "Deleted." in landed.text
    assert "flights" not in re.sub(r"(?s)<head>.*</head>", "", landed.text)
    assert (await browser.get("/pipelines/flights")).status_code == 404
    events = await browser.get("/pipelines/flights/stream", headers={"accept": "text/event-stream"})
    assert "event: gone" in events.text


async def test_revoking_a_token_ends_on_the_list_of_those_that_are_left(
    wiring: Wiring, browser: httpx.AsyncClient
) -> None:
    await token_of(wiring, Role.VIEWER, name="grafana")
    landed = await browser.post("/tokens/grafana/revoke", data={"why": "leaked"}, follow_redirects=True)
    assert (landed.status_code, landed.url.path) == (200, "/tokens")


async def test_removing_a_cluster_or_a_webhook_ends_on_the_list_that_says_so(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    await ControlPlane(database, now=wiring.clock.now()).cluster("spare")
    hook = {"name": "pager", "url": "https://hooks.example.com/x", "secrets": "env:FENCELINE_SECRET_PAGER"}
    assert (await browser.post("/webhooks", data=hook)).status_code == 303
    for place, name in (("clusters", "spare"), ("webhooks", "pager")):
        landed = await browser.post(f"/{place}/{name}/remove", data={"why": "enough"}, follow_redirects=True)
        assert (landed.status_code, landed.url.path) == (200, f"/{place}")
        assert "Removed." in landed.text


async def test_a_cluster_that_a_pipeline_names_stays_and_the_page_says_why(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    await ControlPlane(database, now=wiring.clock.now()).pipeline("flights")
    refused = await browser.post("/clusters/test/remove")
    assert refused.status_code == 409
    assert "delete its pipelines first, or change their cluster" in refused.text
    assert (await browser.get("/clusters/test")).status_code == 200


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/pipelines/flights/delete", "/pipelines"),
        ("/clusters/spare/remove", "/clusters"),
        ("/webhooks/pager/remove", "/webhooks"),
        ("/tokens/grafana/revoke", "/tokens"),
        ("/sessions/0a4d39a4-26a0-4e77-9c2b-b4a0f0a3f0ce/end", "/tokens"),
    ],
)
async def test_a_second_click_ends_on_the_list_too(browser: httpx.AsyncClient, path: str, place: str) -> None:
    landed = await browser.post(path, follow_redirects=True)
    assert (landed.status_code, landed.url.path) == (200, place)
    assert "It was removed already" in landed.text


async def test_ending_ones_own_session_ends_on_the_login(browser: httpx.AsyncClient) -> None:
    own = next(one for one in (await browser.get("/api/v1/sessions")).json()["items"])
    landed = await browser.post(f"/sessions/{own['id']}/end", follow_redirects=True)
    assert (landed.status_code, landed.url.path) == (200, "/login")
