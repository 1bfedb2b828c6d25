"""Where a browser lands after it took away what its page shows: on a page that is there, with what was done."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import httpx
import pytest

from app.db.database import Database
from app.domain.access import Role
from app.web.dependencies import Wiring
from tests.support.control_plane import ControlPlane
from tests.support.wiring import browser_of, token_of


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser_of(wiring, Role.ADMINISTRATOR) as made:
        yield made


async def test_deleting_a_pipeline_ends_on_the_list_and_its_stream_says_that_it_is_gone(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    await ControlPlane(database, now=wiring.clock.now()).pipeline("flights")
    assert "Delete…" in (await browser.get("/pipelines/flights")).text
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


async def test_ending_ones_own_session_ends_on_the_login(browser: httpx.AsyncClient) -> None:
    own = next(one for one in (await browser.get("/api/v1/sessions")).json()["items"])
    landed = await browser.post(f"/sessions/{own['id']}/end", follow_redirects=True)
    assert (landed.status_code, landed.url.path) == (200, "/login")
