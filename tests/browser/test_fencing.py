"""A user on call: which client fenced my producer?"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible
from tests.support.topics import unique_name
from tests.support.transactions import take_over

_OBSERVED_MS = 30_000


@pytest.mark.core
def test_a_takeover_appears_on_the_open_page_and_is_explained(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic, name = make_topic(), unique_name("taken")
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Clusters").click()
    page.get_by_role("link", name="Fencing").click()
    expect(page.get_by_role("heading", name="Fencing", level=1)).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-stream", "up")
    assert_accessible(page, what="the feed of fencing events")
    page.evaluate("window.untouched = true")
    row = page.locator("#fencing tbody tr", has_text=name)
    expect(row).to_have_count(0)
    clients = take_over({"bootstrap.servers": site.bootstrap_servers}, topic, name)
    expect(row).to_have_count(1, timeout=_OBSERVED_MS)
    expect(row.locator(".pill")).to_have_text("takeover")
    expect(row).to_contain_text(f"A new producer took {name}")
    expect(row).to_contain_text("foreign")
    assert page.evaluate("window.untouched") is True, "the page was reloaded"
    assert_accessible(page, what="a takeover in the feed")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="a takeover in the feed on a phone")
    page.set_viewport_size({"width": 1280, "height": 900})

    row.get_by_role("link", name=re.compile("A new producer took")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Takeover")
    expect(page.get_by_role("group", name=re.compile("was ended; producer"))).to_be_visible()
    expect(page.locator(".runbook li")).to_have_count(3)
    expect(page.locator("#evidence tbody tr").first).to_contain_text(f"had a transaction open at epoch 0 in {topic}-0")
    expect(page.get_by_role("link", name=f"{topic}-0")).to_be_visible()
    assert_accessible(page, what="a fencing event")
    site.picture(page, "fencing")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="a fencing event on a phone")
    del clients


def test_the_feed_is_filtered_by_a_form_and_its_address(site: Site, page: Page) -> None:
    page.goto("/fencing")
    page.get_by_label("Cause").select_option("hanging_ended")
    page.get_by_label("Time").select_option("hour")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url(re.compile(r"cause=hanging_ended&within=hour$"))
    expect(page.get_by_label("Cause")).to_have_value("hanging_ended")
    expect(page.get_by_text("No events in the last hour")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    page.wait_for_url(re.compile("/fencing$"))
