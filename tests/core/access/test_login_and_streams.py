"""Logins and their targets; an event stream shows the content of a reload, and ends with its session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.core.access.service import tokens
from app.core.wiring import Wiring
from app.kit.access import COMMAND_LINE, Principal, Role
from app.kit.changes import Changes, Subscription
from tests.support.wiring import browser_of, token_of


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser_of(wiring, None) as stranger:
        yield stranger


async def link_of(wiring: Wiring) -> str:
    async with wiring.unit_of_work() as uow:
        secret = await tokens.create_one_time_link(
            uow,
            principal=Principal(name="ada", role=Role.ADMINISTRATOR),
            lifetime=timedelta(minutes=5),
            by=COMMAND_LINE,
            now=datetime.now(UTC),
        )
        await uow.commit()
    return f"/login/{secret}"


async def test_page_without_login_leads_to_the_login_form_and_back(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    sent = await browser.get("/commands?target=pipeline:x&said=logged-out")
    assert sent.status_code == 303
    assert parse_qs(urlsplit(sent.headers["location"]).query) == {"next": ["/commands?target=pipeline%3Ax"]}
    token = await token_of(wiring, Role.VIEWER)
    logged_in = await browser.post("/login", data={"token": token, "next": "/commands?target=pipeline:x"})
    assert (logged_in.status_code, logged_in.headers["location"]) == (303, "/commands?target=pipeline:x")
    cookie = logged_in.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert token.lower() not in cookie
    assert (await browser.get("/commands")).status_code == 200


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "https://evil.example/",
        "javascript:alert(1)",
        "//[",
        "",
    ],
)
async def test_the_login_never_leads_elsewhere(wiring: Wiring, browser: httpx.AsyncClient, wanted: str) -> None:
    token = await token_of(wiring, Role.VIEWER)
    logged_in = await browser.post("/login", data={"token": token, "next": wanted})
    assert (logged_in.status_code, logged_in.headers["location"]) == (303, "/")


async def test_looking_at_a_link_does_not_use_it_up_and_using_it_does(
    wiring: Wiring, browser: httpx.AsyncClient
) -> None:
    link = await link_of(wiring)
    for _ in range(2):
        assert (await browser.get(link)).status_code == 200
    assert (await browser.post(link)).status_code == 303
    browser.cookies.clear()
    again = await browser.post(link)
    assert again.status_code == 401
    assert "used already" in again.text


async def test_guessing_is_slowed_down(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    for _ in range(wiring.settings.login_failures_per_minute):
        assert (await browser.post("/login", data={"token": "guess"})).status_code == 401
    assert (await browser.post("/login", data={"token": "guess"})).status_code == 429
    token = await token_of(wiring, Role.VIEWER)
    assert (await browser.post("/login", data={"token": token})).status_code == 429


async def test_an_error_is_a_page_with_its_status(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    await browser.post(await link_of(wiring))
    missing = await browser.get("/pipelines/nobody")
    assert missing.status_code == 404
    assert missing.headers["content-type"].startswith("text/html")
    assert "nobody" in missing.text


async def test_refusal_of_a_viewer_names_the_role(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    await browser.post("/login", data={"token": await token_of(wiring, Role.VIEWER)})
    refused = await browser.get("/new-pipeline")
    assert refused.status_code == 403
    assert "author" in refused.text


async def test_the_stream_sends_what_a_reload_shows(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    await browser.post(await link_of(wiring))
    page = await browser.get("/commands")
    asyncio.get_running_loop().call_later(0.3, wiring.stopping.set)
    events = await browser.get("/commands/stream", headers={"accept": "text/event-stream"})
    first = events.text.replace("\r\n", "\n").split("\n\n")[0]
    streamed = "\n".join(line.removeprefix("data: ").removeprefix("data:") for line in first.split("\n"))
    live = re.search(r'<div id="live"[^>]*>\n(.*?)      </div>\n', page.text, re.DOTALL)
    assert live is not None
    assert without_times(streamed) == without_times(live[1])
    # Nothing has changed since, so nothing more was sent.
    assert events.text.count('id="commands"') == 1


class AnnouncedChanges:
    """The change feed, and a message when a stream has begun to listen to it."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self.has_subscriber = asyncio.Event()

    @asynccontextmanager
    async def subscribe(self, wants: Callable[[str], bool] = lambda _: True) -> AsyncGenerator[Subscription]:
        async with self._changes.subscribe(wants) as subscription:
            self.has_subscriber.set()
            yield subscription


async def test_stream_ends_with_a_message_when_the_session_is_revoked(wiring: Wiring) -> None:
    changes = AnnouncedChanges(wiring.changes)
    token = await token_of(wiring, Role.VIEWER, name="reader")
    async with asyncio.timeout(20), browser_of(replace(wiring, changes=changes), None) as browser:
        await browser.post("/login", data={"token": token})
        streaming = asyncio.create_task(browser.get("/stream", headers={"accept": "text/event-stream"}))
        await changes.has_subscriber.wait()
        async with wiring.unit_of_work() as uow:
            await tokens.revoke_token(uow, name="reader", by=COMMAND_LINE, why=None, now=datetime.now(UTC))
            await uow.commit()
        events = await streaming
    assert "event: session-ended" in events.text


@pytest.mark.parametrize("way", ["page", "rest"])
async def test_session_of_a_link_is_listed_and_ended_with_its_streams(wiring: Wiring, way: str) -> None:
    changes = AnnouncedChanges(wiring.changes)
    watched = replace(wiring, changes=changes)
    async with (
        asyncio.timeout(60),
        browser_of(watched, None) as browser,
        browser_of(wiring, Role.ADMINISTRATOR) as administrator,
    ):
        await browser.post(await link_of(wiring))
        streaming = asyncio.create_task(browser.get("/stream", headers={"accept": "text/event-stream"}))
        await changes.has_subscriber.wait()
        listed = (await administrator.get("/api/v1/sessions")).json()["items"]
        session = next(one for one in listed if one["token"] is None)
        assert session["link_created_by"] == COMMAND_LINE.name
        page = await administrator.get("/tokens")
        assert f"a one-time link of {COMMAND_LINE.name}" in page.text
        if way == "page":
            ended = await administrator.post(f"/sessions/{session['id']}/end")
        else:
            ended = await administrator.delete(f"/api/v1/sessions/{session['id']}")
        assert ended.status_code == (303 if way == "page" else 204)
        assert "event: session-ended" in (await streaming).text
        assert (await browser.get("/api/v1/me")).status_code == 401
        assert session["id"] not in (await administrator.get("/tokens")).text


async def test_a_stream_says_when_what_it_shows_is_gone(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    await browser.post(await link_of(wiring))
    events = await browser.get("/pipelines/nobody/stream", headers={"accept": "text/event-stream"})
    assert "event: gone" in events.text


async def test_an_asset_is_kept_for_ever_when_it_is_asked_for_by_content(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/login")
    address = re.search(r'href="(/static/css/base\.css\?v=\w+)"', page.text)
    assert address is not None
    by_content = await browser.get(address[1])
    assert by_content.status_code == 200
    assert "immutable" in by_content.headers["cache-control"]
    assert (await browser.get("/static/css/base.css")).headers["cache-control"] == "no-cache"


def without_times(html: str) -> list[str]:
    """Lines without what a second changes, and without the blanks between them."""
    plain = re.sub(r"(<time[^>]*>)[^<]*", r"\1", html)
    return [line.strip() for line in plain.splitlines() if line.strip()]
