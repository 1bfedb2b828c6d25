"""A server that a proxy shows below a path: every link, asset, form, redirect, stream and cookie stays below it."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import MakeDatabase
from tests.support.browser import visitor_of
from tests.support.live_application import LiveApplication, live_application
from tests.support.path_proxy import PathProxy, path_proxy

BASE = "/ops/fenceline"
_ADDRESS = re.compile(r'(?:href|src|action|connect)="([^"#]*)')
STRIPS = pytest.mark.parametrize("strips", [True, False], ids=["stripped", "kept"])


@contextmanager
def shown_below(
    database_url: str, folder: Path, *, strips: bool, is_told: bool = True
) -> Generator[tuple[LiveApplication, PathProxy]]:
    """is_told: whether the server knows of its path."""
    with path_proxy(BASE, strips=strips) as proxy:
        public_url = proxy.url if is_told else proxy.url.removesuffix(BASE)
        with live_application(database_url, folder, public_url=public_url) as live:
            address = urlsplit(live.url)
            proxy.upstream = (str(address.hostname), int(address.port or 0))
            yield live, proxy


def crawl(live: LiveApplication, proxy: PathProxy) -> dict[str, int]:
    """The status of every address that pages name, from the overview on, asked of the proxy as a browser would."""
    origin = proxy.url.removesuffix(BASE)
    found: dict[str, int] = {}
    headers = {"Authorization": f"Bearer {live.token}", "Accept": "text/html"}
    with httpx.Client(base_url=origin, headers=headers, timeout=30, trust_env=False) as client:
        ahead = [f"{BASE}/"]
        while ahead:
            path = ahead.pop()
            if path in found or path.endswith("/stream") or "/stream?" in path:
                continue
            response = client.get(path)
            found[path] = response.status_code
            if response.is_redirect:
                ahead.append(response.headers["location"])
            elif "text/html" in response.headers.get("content-type", ""):
                ahead += [address for address in _ADDRESS.findall(response.text) if address.startswith("/")]
    return found


@STRIPS
def test_every_address_of_every_page_stays_below_the_path(
    strips: bool, make_database: MakeDatabase, tmp_path: Path
) -> None:
    database = make_database()
    with shown_below(database, tmp_path, strips=strips) as (live, proxy):
        found = crawl(live, proxy)
        assert proxy.outside == []
        # Forms answer to POST alone.
        assert {path: status for path, status in found.items() if status not in (200, 303, 405)} == {}
        assert {f"{BASE}/pipelines", f"{BASE}/transactions", f"{BASE}/tokens"} <= set(found)


def test_a_server_without_its_path_setting_leads_out_of_it(make_database: MakeDatabase, tmp_path: Path) -> None:
    """The control."""
    database = make_database()
    with shown_below(database, tmp_path, strips=True, is_told=False) as (live, proxy):
        crawl(live, proxy)
        assert "GET /pipelines" in proxy.outside


@STRIPS
def test_a_person_logs_in_looks_around_and_changes_something(
    strips: bool, make_database: MakeDatabase, tmp_path: Path, browser: Browser
) -> None:
    database = make_database()
    with (
        shown_below(database, tmp_path, strips=strips) as (live, proxy),
        visitor_of(browser, proxy.url) as visitor,
    ):
        page = visitor.new_page()
        page.goto(f"{proxy.url}/commands")
        page.get_by_label("Token").fill(live.token)
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{proxy.url}/commands")
        (cookie,) = visitor.cookies()
        assert cookie.get("path") == BASE
        page.get_by_role("link", name="Pipelines").click()
        expect(page).to_have_url(f"{proxy.url}/pipelines")
        expect(page.locator("html")).to_have_attribute("data-stream", "up", timeout=20_000)
        page.get_by_role("link", name="Admin").click()
        page.get_by_role("link", name="Access").click()
        expect(page).to_have_url(f"{proxy.url}/tokens")
        page.get_by_label("Name").fill("alice")
        page.get_by_role("button", name="Create the token").click()
        expect(page.get_by_text("alice").first).to_be_visible()
        page.goto(f"{proxy.url}/tokens")
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page).to_have_url(f"{proxy.url}/transactions")
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(re.compile(f"{proxy.url}/login"))
        assert visitor.cookies() == []
        assert [asked for asked in proxy.outside if asked != "GET /favicon.ico"] == []
