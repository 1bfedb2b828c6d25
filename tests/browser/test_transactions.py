"""A live page: a real producer's transaction opens, commits and stays in the id's past, without a reload."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, WIDE, Site, assert_accessible
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

_DEADLINE_S = 20.0
_SEEN_MS = 10_000
ODD = "wéird/ <b>&?#% id"


@pytest.fixture
def watched(page: Page) -> Generator[Page]:
    """The administrator's window, which must not be reloaded between `page.goto`s of the test itself."""
    yield page
    assert page.evaluate("window.untouched"), "the page was reloaded"


def producer_of(bootstrap_servers: str, name: str) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": 600_000, "linger.ms": 0}
    return Producer({"bootstrap.servers": bootstrap_servers, **QUIET, **settings})


def write(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(_DEADLINE_S) == 0


def go_and_watch(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("html")).to_have_attribute("data-stream", "up")
    page.evaluate("window.untouched = true")


@pytest.mark.core
def test_a_transaction_is_seen_opening_and_committing(site: Site, watched: Page, make_topic: MakeTopic) -> None:
    page, topic, name = watched, make_topic(), unique_name(ODD)
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Clusters").click()
    page.get_by_role("link", name="Transactions", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Transactions")
    page.get_by_label("Search").fill(name)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("No matching id")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-stream", "up")
    page.evaluate("window.untouched = true")

    producer = producer_of(site.bootstrap_servers, name)
    producer.init_transactions(_DEADLINE_S)
    row = page.locator("#transactions tbody tr")
    expect(row).to_have_count(1, timeout=_SEEN_MS)
    expect(row.locator(".pill")).to_have_text("Empty")
    write(producer, topic)
    expect(row.locator(".pill")).to_have_text("Ongoing", timeout=_SEEN_MS)
    expect(row.locator("[data-label='Owner']")).to_have_text("foreign")
    producer.commit_transaction(_DEADLINE_S)
    expect(row.locator(".pill")).to_have_text("CompleteCommit", timeout=_SEEN_MS)
    expect(row.locator("[data-label='Commits']")).to_have_text("1")


def test_one_id_is_followed_from_its_own_page(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic, name, group = make_topic(), unique_name(ODD), unique_name("copier")
    producer = producer_of(site.bootstrap_servers, name)
    producer.init_transactions(_DEADLINE_S)
    write(producer, topic)
    page.goto(f"/transactions?cluster={site.cluster}&state=open")
    page.locator("#transactions").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.locator(".title .pill")).to_have_text("Ongoing")
    expect(page.locator("#partitions")).to_contain_text(f"{topic}-0")
    page.evaluate("window.untouched = true")
    # The next producer with the same id is the next step of its timeline.
    producer = producer_of(site.bootstrap_servers, name)
    producer.init_transactions(_DEADLINE_S)
    write(producer, topic)
    expect(page.locator("#past tbody tr").filter(has_text="initialised")).to_have_count(2, timeout=_SEEN_MS)
    expect(page.locator(".timeline rect")).to_have_count(3)
    consumer = Consumer({"bootstrap.servers": site.bootstrap_servers, "group.id": group, **QUIET})
    consumer.subscribe([topic])
    wait_for(lambda: consumer.poll(0.5) is not None or consumer.assignment(), _DEADLINE_S, lambda: "not assigned")
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], metadata, _DEADLINE_S)
    expect(page.locator("#pending")).to_contain_text(group, timeout=_SEEN_MS)
    assert_accessible(page, what="a transaction")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="a transaction on a phone")
    page.set_viewport_size(WIDE)  # pyright: ignore[reportArgumentType] - as above
    site.picture(page, "transaction", height=1000)

    # The group's page says the same from its own side.
    page.locator("#pending").get_by_role("link", name=group).click()
    expect(page.locator("#offsets tbody tr")).to_have_count(1)
    expect(page.locator("#offsets")).to_contain_text("pending")
    page.evaluate("window.untouched = true")
    expect(page.locator("#members tbody tr")).to_have_count(1)
    expect(page.locator(".timeline rect").first).to_be_attached()
    assert_accessible(page, what="a group")
    site.picture(page, "group", height=1200)
    producer.commit_transaction(_DEADLINE_S)
    expect(page.locator("#offsets .pill")).to_have_text("committed", timeout=_SEEN_MS)
    assert page.evaluate("window.untouched"), "the page was reloaded"
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - as above
    assert_accessible(page, what="a group on a phone")
    consumer.close()


@pytest.mark.parametrize("path", ["/transactions", "/groups"])
def test_the_lists_are_accessible_with_their_content(site: Site, page: Page, make_topic: MakeTopic, path: str) -> None:
    topic, name = make_topic(), unique_name("listed")
    producer = producer_of(site.bootstrap_servers, name)
    producer.init_transactions(_DEADLINE_S)
    write(producer, topic)
    consumer = Consumer({"bootstrap.servers": site.bootstrap_servers, "group.id": name, **QUIET})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    go_and_watch(page, f"{path}?cluster={site.cluster}&search={name}")
    expect(page.locator(f"{path.replace('/', '#')} tbody tr")).to_have_count(1, timeout=_SEEN_MS)
    assert_accessible(page, what=path)
    site.picture(page, path[1:])
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - as above
    assert_accessible(page, what=f"{path} on a phone")
    producer.abort_transaction(_DEADLINE_S)
    consumer.close()
