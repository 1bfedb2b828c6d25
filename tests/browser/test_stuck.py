"""On call: find the transaction that blocks consumers, and end it."""

from __future__ import annotations

from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible, assert_fits
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

_DEADLINE_S = 20.0


def leave_open(bootstrap_servers: str, topic: str) -> tuple[str, Producer]:
    """A producer that has written, and neither commits nor aborts for a long time."""
    name = unique_name("tx")
    settings = {"transactional.id": name, "transaction.timeout.ms": 600_000, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **QUIET, **settings})
    initialise(producer)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0)
    assert producer.flush(_DEADLINE_S) == 0
    return name, producer


def test_a_producer_left_open_is_named_and_fenced(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    name, producer = leave_open(site.bootstrap_servers, topic)
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Clusters").click()
    page.get_by_role("navigation", name="Clusters").get_by_role("link", name="Blocked readers").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Blocked readers")
    page.get_by_label("Group, topic or topic:partition").fill(f"{topic}:0")
    page.get_by_role("button", name="Check", exact=True).click()
    card = page.locator(f"#stuck-{topic}-0")
    expect(card.get_by_role("heading")).to_contain_text(
        f"read_committed consumers of {topic}-0 are blocked at offset 0."
    )
    expect(card).to_contain_text(f"which is {name}, ongoing for")
    expect(card).to_contain_text("whose owner is not a Fenceline task")
    expect(card.locator(".pill")).to_have_text("blocked by an open transaction")
    assert_accessible(page, what="the chain")
    site.picture(page, "stuck")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="the chain on a phone")
    page.set_viewport_size({"width": 1280, "height": 900})

    card.get_by_role("link", name="Fence…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Fence {name}?")
    expect(page.get_by_text("Losses")).to_be_visible()
    assert_accessible(page, what="what would be done")

    def is_old_enough() -> bool:
        """A fence of a transaction younger than 10 s requires a reason and a confirmation."""
        page.reload()
        return page.get_by_label("Override the objections").count() == 0

    wait_for(is_old_enough, 60, "no objection")
    page.get_by_label("Reason").fill("its host is gone")
    page.get_by_role("button", name="Fence", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Fenced.")).to_be_visible()
    expect(card.locator(".pill")).to_have_text("not blocked")
    page.goto("/commands")
    row = page.locator("#commands tbody tr").first
    expect(row).to_contain_text("fence transaction")
    expect(row).to_contain_text("its host is gone")
    del producer


def test_a_blocker_is_found_on_the_overview_and_fenced(site: Site, page: Page, make_topic: MakeTopic) -> None:
    """The question of a person on call: who is blocked, by whom, and what to do. Three clicks and a reason."""
    topic = make_topic(partitions=1)
    name, producer = leave_open(site.bootstrap_servers, topic)
    page.goto("/")
    row = page.locator("#problems tbody tr", has_text=name)
    expect(row).to_contain_text(f"{topic}-0: 1 record blocked by {name}", timeout=40_000)
    expect(row.locator(".pill")).to_have_text("blocked readers")
    assert_accessible(page, what="the overview with blocked readers")
    site.picture(page, "blocked-readers")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_fits(page, what="blocked readers on a phone")
    page.set_viewport_size({"width": 1280, "height": 900})
    row.get_by_role("link", name="Fence…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Fence {name}?")
    page.get_by_label("Reason").fill("its host is gone")
    page.get_by_role("button", name="Fence", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Fenced.")).to_be_visible()
    page.goto("/")
    expect(row).to_have_count(0, timeout=20_000)
    del producer


def test_the_page_follows_the_brokers(site: Site, page: Page, make_topic: MakeTopic) -> None:
    topic = make_topic()
    _, producer = leave_open(site.bootstrap_servers, topic)
    page.goto(f"/stuck?cluster={site.cluster}&target={topic}:0")
    card = page.locator(f"#stuck-{topic}-0")
    expect(card.locator(".pill")).to_have_text("blocked by an open transaction")
    producer.commit_transaction(_DEADLINE_S)
    expect(card.locator(".pill")).to_have_text("not blocked")
    page.goto(f"/stuck?cluster={site.cluster}&target=no-such-name")
    expect(page.get_by_role("alert")).to_contain_text("no group and no topic no-such-name exists")
