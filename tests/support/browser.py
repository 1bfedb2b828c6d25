"""A real browser on a real server: where they are started, and what every page is held to."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from app.edges.embedded.doctor import find_chromium
from app.products.demo.server import DemoServer

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 375, "height": 812}
WCAG = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]
# As root there is no sandbox to be had; nothing is asked of the network beside our own server.
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]


@contextmanager
def chromium() -> Generator[Browser]:
    """The machine's Chromium, driven by Playwright; fails with the line to type where there is none."""
    path = find_chromium(os.environ)
    if path is None:
        pytest.fail("no Chromium on PATH: run `make setup`, or as root `apt-get install chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(path), args=_FLAGS)
        yield browser
        browser.close()


@contextmanager
def visitor_of(
    browser: Browser,
    url: str,
    *,
    storage: Any = None,
    has_javascript: bool = True,
    viewport: dict[str, int] | None = None,
) -> Generator[BrowserContext]:
    """A browser profile of its own. A script error or a refused resource in it fails the test."""
    context = browser.new_context(
        base_url=url,
        storage_state=storage,
        java_script_enabled=has_javascript,
        viewport=cast(Any, viewport or WIDE),
    )
    context.set_default_timeout(20_000)
    wrong: list[str] = []
    context.on("weberror", lambda error: wrong.append(f"script error: {error.error}"))
    context.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
    try:
        yield context
    finally:
        context.close()
    assert not wrong, wrong


@dataclass
class Site:
    """A running server with a cluster registered, and its browser."""

    server: DemoServer
    browser: Browser
    bootstrap_servers: str
    cluster: str
    shots: Path | None

    @property
    def url(self) -> str:
        return self.server.users_url

    def visitor(
        self, *, storage: Any = None, has_javascript: bool = True, viewport: dict[str, int] | None = None
    ) -> AbstractContextManager[BrowserContext]:
        """`visitor_of` this server."""
        return visitor_of(self.browser, self.url, storage=storage, has_javascript=has_javascript, viewport=viewport)

    def picture(self, page: Page, name: str, *, height: int | None = None) -> None:
        """Keep a picture of the window for the README where FENCELINE_TEST_SCREENSHOTS names a folder."""
        if self.shots is None:
            return
        before = page.viewport_size
        assert before is not None
        if height is not None:
            page.set_viewport_size({"width": before["width"], "height": height})
        page.screenshot(path=self.shots / f"{name}.png")
        page.set_viewport_size(before)


def assert_accessible(page: Page, *, what: str) -> None:
    """No violation of WCAG 2.0 to 2.2, A and AA, that axe-core can find, light and dark; and no sideways scrolling."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        # Its annotations leave everything open.
        found = cast(dict[str, Any], cast(Any, Axe()).run(page, options={"runOnly": WCAG}).response)
        violations = [
            f"{item['id']}: {item['help']}: {[node['html'][:200] for node in item['nodes'][:3]]}"
            for item in found["violations"]
        ]
        assert not violations, f"{what}, {scheme}: " + "\n".join(violations)
    page.emulate_media(color_scheme="light")
    assert_fits(page, what=what)


def assert_fits(page: Page, *, what: str) -> None:
    """Nothing makes the page itself scroll sideways."""
    too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert too_wide <= 0, f"{what} is {too_wide} px wider than the window of {page.viewport_size}"
