"""The partition log in a browser: a takeover as it lies in the log, found, read, and looked into."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible
from tests.support.topics import unique_name
from tests.support.transactions import producer, send, take_over


def test_a_takeover_is_read_from_the_log(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic, name = make_topic(), unique_name("payments")
    connection = {"bootstrap.servers": site.bootstrap_servers}
    send(producer(connection, **{"compression.type": "zstd"}), topic, "x" * 500, "<img src=x onerror=alert(1)>")
    clients = take_over(connection, topic, name)

    page.goto("/clusters")
    page.locator(f"#cluster-{site.cluster}").get_by_role("link", name="Logs").click()
    page.get_by_label("Topic").fill(topic)
    assert_accessible(page, what="the choice of a partition")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile(f"/clusters/{site.cluster}/log/{topic}/0"))

    waiting = page.locator("dl.stat", has_text="Blocked").locator("dd").first
    expect(waiting).to_have_text("1")
    expect(page.locator("#at-2 td[data-label=State]")).to_have_text("aborted")
    expect(page.locator("#at-3 td[data-label=State]")).to_have_text("ABORT")
    expect(page.locator("#at-3")).to_contain_text("aborted at the next epoch: by the coordinator")
    expect(page.locator("#at-4 td[data-label=State]")).to_have_text("open")
    expect(page.locator("#at-4")).to_contain_text(name)
    # One producer's rows light up together, and no others.
    page.locator("#at-2").hover()
    expect(page.locator("tr.lit")).to_have_count(3)
    page.locator("#at-3").get_by_role("link", name="2", exact=True).click()
    expect(page.locator("#at-2")).to_be_in_viewport()
    assert_accessible(page, what="the log of a takeover")
    site.picture(page, "partition-log", height=1_000)

    page.get_by_role("link", name="First open").click()
    expect(page.locator("#batches tbody tr")).to_have_count(1)
    page.get_by_label("From").fill("start")
    page.get_by_label("values and headers").check()
    page.get_by_role("button", name="Show").click()
    # Text, for any content of a record.
    expect(page.locator("#batches")).to_contain_text("<img src=x onerror=alert(1)>")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="the log with its records, on a phone")
    site.picture(page, "partition-log-phone", height=3_000)
    page.emulate_media(color_scheme="dark")
    site.picture(page, "partition-log-dark", height=1_400)
    page.goto("/commands")
    expect(page.locator("#commands")).to_contain_text(f"saw values of {topic}-0")
    del clients


def test_a_missing_offset_names_the_next_step(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic = make_topic()
    page.goto(f"/clusters/{site.cluster}/log/{topic}/0")
    expect(page.get_by_text("The partition is empty")).to_be_visible()
    page.get_by_label("From").fill("12")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("offset 12 is out of range")
    expect(page.get_by_label("From")).to_have_value("12")
    assert_accessible(page, what="an offset that is not there")
    page.goto(f"/clusters/{site.cluster}/log/no-such-topic/0")
    expect(page.get_by_role("alert")).to_contain_text("no topic no-such-topic")
    assert_accessible(page, what="a topic that is not there")
