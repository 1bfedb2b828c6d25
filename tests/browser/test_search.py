"""Ctrl-K finds a pipeline from any page, by keyboard alone; without JavaScript there is a page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible, assert_fits
from tests.support.topics import unique_name


def make_pipeline(site: Site, make_topic: MakeTopic) -> str:
    name = unique_name("sought")
    definition = {
        "cluster": site.cluster,
        "source_topics": [make_topic()],
        "group_id": name,
        "sink_topic": make_topic(),
        "transform": {"kind": "identity"},
    }
    site.server.create_pipeline(name, definition)
    return name


def test_a_pipeline_is_found_from_any_page_by_keyboard(site: Site, page: Page, make_topic: MakeTopic) -> None:
    name = make_pipeline(site, make_topic)
    page.goto("/commands")
    page.keyboard.press("Control+k")
    page.keyboard.type(name[:-1])
    expect(page.locator("#finder .results a").first).to_have_text(name)
    assert_accessible(page, what="the search")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#finder .results a").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#finder")).to_be_hidden()
    page.keyboard.press("Control+k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/pipelines/{name}")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    page.get_by_role("link", name="Search").click()
    page.keyboard.type(name)
    expect(page.locator("#finder .results a").first).to_have_text(name)
    assert_fits(page, what="the search on a phone")


def test_without_javascript_search_is_a_page(site: Site, make_topic: MakeTopic, logged_in: Any) -> None:
    name = make_pipeline(site, make_topic)
    with site.visitor(storage=logged_in, has_javascript=False) as visitor:
        page = visitor.new_page()
        page.goto("/")
        page.get_by_role("link", name="Search").click()
        page.locator("#q").fill(name)
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".results a").first).to_have_text(name)
        page.locator("#q").fill("no such name")
        page.get_by_role("button", name="Search").click()
        expect(page.locator("#results")).to_contain_text("Nothing has this name")
