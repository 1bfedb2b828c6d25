"""A group's lag on the screen: live, sorted with and without JavaScript, accessible and narrow."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, WIDE, Site, assert_accessible
from tests.support.kafka_clients import write
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

_SEEN_MS = 45_000
"""Samples are 15 s apart, and the first may find the topics unknown."""


@contextmanager
def reader_of(bootstrap_servers: str, group: str, topic: str) -> Generator[Consumer]:
    """A member with every partition, which commits what the test tells it."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, **QUIET, "group.id": group, "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    try:
        wait_for(lambda: (consumer.poll(0.1), consumer.assignment())[1], 30, f"partitions of {topic}")
        yield consumer
    finally:
        consumer.close()


def test_lag_is_on_the_screen_as_it_changes(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic, group, other = make_topic(partitions=3), unique_name("lag-readers"), unique_name("lag-readers")
    connection = {"bootstrap.servers": site.bootstrap_servers}
    write(connection, topic, records=500)
    with (
        reader_of(site.bootstrap_servers, group, topic) as consumer,
        reader_of(site.bootstrap_servers, other, topic) as done,
    ):
        begins = [TopicPartition(topic, number, 0) for number in (1, 2)]
        consumer.commit(offsets=[TopicPartition(topic, 0, 30), *begins], asynchronous=False)
        done.commit(offsets=[TopicPartition(topic, 0, 499), *begins], asynchronous=False)
        page.goto(f"/groups?cluster={site.cluster}&search=lag-readers")
        row = page.locator(f"[id='group-{group}']")
        expect(row.locator("[data-label='Lag']")).to_have_text("470", timeout=_SEEN_MS)
        expect(page.locator("#groups tbody tr").first).to_contain_text(min(group, other))
        with site.visitor(storage=page.context.storage_state(), has_javascript=False) as visitor:
            plain = visitor.new_page()
            plain.goto(f"/groups?cluster={site.cluster}&search=lag-readers")
            plain.get_by_role("link", name="Lag", exact=True).click()
            expect(plain.locator("#groups tbody tr").first).to_contain_text(group)
            expect(plain.locator("th[aria-sort='descending']")).to_have_text("Lag")

        row.get_by_role("link", name=group).click()
        lag = page.locator(".stat", has=page.locator("dt", has_text=re.compile("^Lag$")))
        expect(lag.locator("dd").first).to_have_text("470", timeout=_SEEN_MS)
        expect(page.locator("#lag tbody tr")).to_have_count(2, timeout=_SEEN_MS)
        expect(page.locator("html")).to_have_attribute("data-stream", "up")
        page.evaluate("window.untouched = true")
        consumer.commit(offsets=[TopicPartition(topic, 0, 500)], asynchronous=False)
        expect(lag.locator("dd").first).to_have_text("0", timeout=_SEEN_MS)
        expect(page.locator("#lag tbody tr")).to_have_count(1, timeout=_SEEN_MS)
        assert page.evaluate("window.untouched"), "the page was reloaded"
        site.picture(page, "lag")
        for viewport in (WIDE, NARROW):
            page.set_viewport_size(cast(Any, viewport))
            assert_accessible(page, what=f"lag of a group, {viewport['width']} px wide")
        page.set_viewport_size(cast(Any, WIDE))
        page.goto(f"/groups?cluster={site.cluster}&search=lag-readers&sort=lag_state")
        assert_accessible(page, what="groups by state")
