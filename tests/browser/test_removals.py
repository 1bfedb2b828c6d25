"""A user who removes the object of the open page: the browser ends on the list, in every order of events."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.products import PARTS
from tests.support.browser import visitor_of
from tests.support.control_plane import ControlPlane
from tests.support.databases import create_database, drop_database
from tests.support.live_application import LiveApplication, live_application
from tests.support.observing import hear, observed_cluster, publish, state_of, transaction_batch
from tests.support.odd_names import EVIL, in_bash


@pytest.fixture(scope="module")
def live(postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveApplication]:
    """A server with the pipelines `one`, `two` and `three`, that has read an id of odd characters."""
    database_url = create_database(postgres_server_url)
    database = Database(database_url, parts=PARTS)

    async def begin(wiring: Wiring) -> None:
        plane = ControlPlane(database, now=wiring.clock.now())
        for name in ("one", "two", "three"):
            await plane.pipeline(name)
        followed = await observed_cluster(wiring)
        hear(followed, transaction_batch(EVIL, state_of(), at=2))
        publish(wiring, followed)

    async def close(_: Wiring) -> None:
        await database.close()

    try:
        with live_application(database_url, tmp_path_factory.mktemp("removals")) as made:
            made.do(begin)
            try:
                yield made
            finally:
                made.do(close)
    finally:
        drop_database(postgres_server_url, database_url)


@contextmanager
def window(browser: Browser, live: LiveApplication) -> Generator[Page]:
    with visitor_of(browser, live.url) as visitor:
        page = visitor.new_page()
        page.goto("/login")
        page.get_by_label("Token").fill(live.token)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{live.url}/")
        yield page


def open_delete(page: Page, name: str) -> None:
    page.goto(f"/pipelines/{name}")
    expect(page.locator("html")).to_have_attribute("data-stream", "up")
    page.get_by_role("link", name="More", exact=True).click()
    page.get_by_text("Delete…").click()


def expect_the_list(page: Page, sentence: str) -> None:
    page.wait_for_url(re.compile(r"/pipelines(\?said=[a-z-]+)?$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Pipelines")
    expect(page.locator("[data-said]")).to_contain_text(sentence)


@pytest.mark.parametrize(("name", "clicks"), [("two", 1), ("three", 2)])
def test_deleting_a_pipeline_on_its_page_ends_on_the_list(
    live: LiveApplication, browser: Browser, name: str, clicks: int
) -> None:
    with window(browser, live) as page:
        open_delete(page, name)
        page.get_by_role("button", name="Delete", exact=True).click(click_count=clicks)
        expect_the_list(page, "Deleted." if clicks == 1 else "")


def test_stream_that_says_gone_does_not_cancel_a_form_on_its_way(live: LiveApplication, browser: Browser) -> None:
    """A reload would, and it would ask for the page of what the form has just removed."""
    with window(browser, live) as page:
        page.goto("/pipelines/one")
        expect(page.locator("html")).to_have_attribute("data-stream", "up")
        page.evaluate(
            "() => { window.isTheSame = true;"
            " document.querySelector('form[method=post]').dispatchEvent(new Event('submit', { bubbles: true }));"
            " document.dispatchEvent(new Event('gone')); }"
        )
        # Behind the events: a reload has begun by then, and this fails.
        page.evaluate("() => new Promise((done) => setTimeout(done, 100))")
        assert page.evaluate("() => window.isTheSame === true")


@pytest.mark.parametrize("has_permission", [True, False])
def test_the_copy_button_gives_one_harmless_word_of_a_shell(
    live: LiveApplication, browser: Browser, has_permission: bool
) -> None:
    """Without permission the button selects, and Ctrl+C gives the same."""
    with window(browser, live) as page:
        page.goto("/transactions?search=id")
        row = page.locator("#transactions tbody tr", has_text="[2J")
        if has_permission:
            page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        else:
            page.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error('denied'); }; }")
        row.locator("button.copy").first.click()
        if not has_permission:
            expect(page.locator("#status")).to_contain_text("press Ctrl+C")
            page.keyboard.press("Control+c")
        page.get_by_label("Search").fill("")
        page.get_by_label("Search").press("Control+v")
        pasted = page.get_by_label("Search").input_value()
        assert in_bash([pasted], "C.UTF-8") == [EVIL.encode()]
