"""A form that asks brokers counts the seconds until their answer is there."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.kit.web.pages.assets import STATIC_DIR
from tests.browser.test_names_and_screens import whole

_CONTEXT: dict[str, Any] = {
    "clusters": [],
    "values": {"name": "far", "bootstrap_servers": "h:1"},
    "problems": {},
    "probe": None,
}


@pytest.fixture
def page(browser: Browser) -> Generator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_form_that_asks_brokers_counts_seconds_until_the_answer(page: Page) -> None:
    def serve(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path.startswith("/static/"):
            route.fulfill(path=STATIC_DIR / path.removeprefix("/static/"))
        else:
            route.fulfill(body=whole("clusters/list", _CONTEXT, path="/clusters"), content_type="text/html")

    page.route("**/*", serve)
    page.goto("http://fenceline.test/clusters")
    told = page.get_by_text("Waiting for the brokers")
    expect(told).to_have_count(0)
    # The answer never comes: Playwright waits for one that is under way.
    page.evaluate("() => document.addEventListener('submit', (event) => event.preventDefault())")
    page.get_by_role("button", name="Register").click()
    expect(told).to_have_text(re.compile("^Waiting for the brokers, [1-9][0-9]* s"))
    expect(told).to_have_attribute("role", "status")
    # A morph of the form removes the note and each attribute that the server did not send.
    page.evaluate("""() => {
        const [note] = document.querySelectorAll("form [role=status]"), form = note.closest("form");
        note.remove();
        for (const name of Object.keys(form.dataset)) delete form.dataset[name];
    }""")
    expect(told).to_have_text(re.compile("^Waiting for the brokers, [1-9][0-9]* s"))
    # Back from the answer, by the browser's own copy of the page.
    page.evaluate("() => dispatchEvent(new Event('pageshow'))")
    expect(told).to_have_count(0)
