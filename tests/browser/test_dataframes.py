"""A pipeline of kind dataframe: its form with errors, batches that appear, a watermark that moves, its drain."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, WIDE, Site, assert_accessible, assert_fits
from tests.support.quiet import QUIET
from tests.support.topics import unique_name

REPORT_NOTE = """
() => new MutationObserver(() => console.log(document.querySelector(".form-foot [role=status]")?.textContent))
  .observe(document.body, {childList: true, subtree: true, characterData: true})
"""
NOTE = re.compile("Spark makes the plan of the query, [1-9][0-9]* s")
PLANNED_WITHIN_MS = 120_000
STARTED_WITHIN_MS = 240_000
SQL = "SELECT carrier AS key, window.start AS start, count(*) AS n FROM flights GROUP BY window(at, '2 seconds'), {}"


class Events:
    """A topic whose flights have the present moment as event time, from `start` on."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **QUIET})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(30)

    def _send(self) -> None:
        for number in itertools.count():
            if self._stop.wait(0.05):
                break
            value = {"carrier": "AABBCD"[number % 5 : number % 5 + 2], "at": datetime.now(UTC).isoformat()}
            self._producer.produce(self.topic, value=json.dumps(value).encode())
            self._producer.poll(0)
        self._producer.flush(10)


@pytest.fixture
def events(site: Site, make_topic: MakeTopic) -> Generator[Events]:
    made = Events(site.bootstrap_servers, make_topic(partitions=1, prefix="flights"))
    yield made
    made.stop()


def fill_in(page: Page, name: str, *, source: str, sink: str, checkpoint: Path) -> None:
    """All of the form but the query itself."""
    page.goto("/new-pipeline")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Source topics").fill(source)
    page.get_by_label("Sink topic").fill(sink)
    page.get_by_label("Transform").select_option("dataframe")
    stream = page.locator("#stream-0")
    expect(stream.get_by_label("Topic")).to_have_value(source, timeout=30_000)
    stream.get_by_label("Stream 1").fill("flights")
    stream.get_by_label("Schema").fill("carrier STRING, at TIMESTAMP")
    stream.get_by_label("Event time").fill("at")
    stream.get_by_label("Watermark (ms)").fill("1000")
    page.get_by_label("Checkpoint").fill(checkpoint.as_uri())
    page.get_by_label("Records per batch").fill("10000")


def test_form_names_problems_of_streams_and_of_code_at_their_fields(
    site: Site, page: Page, make_topic: MakeTopic, tmp_path: Path
) -> None:
    fill_in(page, unique_name("query"), source=make_topic(), sink=make_topic(), checkpoint=tmp_path)
    expect(page.get_by_label("Transaction timeout")).to_have_value("60000")
    page.locator("#stream-0").get_by_label("Stream 1").fill("my flights")
    page.get_by_role("button", name="Create the pipeline").click()
    expect(page.get_by_role("alert")).to_contain_text("2 fields below need a change")
    expect(page.locator("#stream-0 .problem")).to_contain_text("my flights is not a name of a view")
    expect(page.locator(".field", has=page.get_by_label("SQL", exact=True)).locator(".problem")).to_contain_text(
        "Write a query"
    )
    assert_accessible(page, what="a query with errors")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="a query with errors on a phone")
    page.set_viewport_size(WIDE)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers


@pytest.mark.slow
def test_a_query_is_created_by_sql_started_watched_and_drained_without_a_reload(
    site: Site, page: Page, events: Events, make_topic: MakeTopic, tmp_path: Path
) -> None:
    name = unique_name("flights-per-carrier")
    checkpoint = tmp_path / "checkpoint"
    fill_in(page, name, source=events.topic, sink=make_topic(partitions=1, prefix="per-carrier"), checkpoint=checkpoint)
    sql = page.get_by_label("SQL", exact=True)
    sql.fill(SQL.format("carier"))
    # Playwright looks into no page that waits for the next one, so the page itself reports the note.
    page.evaluate(REPORT_NOTE)
    with page.expect_console_message(lambda message: NOTE.search(message.text) is not None):
        page.get_by_role("button", name="Check without saving").evaluate("button => setTimeout(() => button.click())")
    problem = page.locator(".field", has=sql).locator(".problem")
    expect(problem).to_contain_text("carier", timeout=PLANNED_WITHIN_MS)
    expect(sql).to_have_attribute("aria-invalid", "true")
    assert_accessible(page, what="a query with an unknown column")
    sql.fill(SQL.format("carrier"))
    page.get_by_role("button", name="Create the pipeline").click(timeout=PLANNED_WITHIN_MS)
    page.wait_for_url(re.compile(f"/pipelines/{name}"), timeout=PLANNED_WITHIN_MS)
    expect(page.locator(".flow")).to_contain_text("SQL query")
    assert_accessible(page, what="a query that never ran")

    page.get_by_text("Start…").click()
    page.locator("#act-start").get_by_label("Reason").fill("the browser test")
    with page.expect_event("load"):  # the answer to the form is a new document
        page.get_by_role("button", name="Start", exact=True).click()
    events.start()
    with page.expect_event("load"):
        page.get_by_role("link", name="Batches", exact=True).first.click()
    page.evaluate("window.untouched = true")
    newest = page.locator("#batches tbody tr").first
    expect(newest.locator("td[data-label=Watermark] time")).to_be_visible(timeout=STARTED_WITHIN_MS)
    batch = newest.get_attribute("id") or ""
    watermark = newest.locator("td[data-label=Watermark]").inner_text()
    expect(newest).not_to_have_id(batch, timeout=60_000)
    expect(newest.locator("td[data-label=Watermark]")).not_to_have_text(watermark, timeout=60_000)
    expect(page.locator("dl.stat", has_text="Rows out per second").locator("dd").first).not_to_have_text("–")
    expect(page.locator("svg.phases[role=img] g").nth(1)).to_be_attached()
    assert page.evaluate("window.untouched") is True, "the page was reloaded"
    assert_accessible(page, what="batches of a running query")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_fits(page, what="batches of a running query, on a phone")
    page.set_viewport_size(WIDE)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers

    page.goto(f"/pipelines/{name}")
    expect(page.locator(".title .pill")).to_have_text("running")
    assert_accessible(page, what="a running query")
    page.get_by_text("Drain…").click()
    page.locator("#act-drain").get_by_label("Reason").fill("seen enough")
    with page.expect_event("load"):
        page.get_by_role("button", name="Drain", exact=True).click()
    page.evaluate("window.untouched = true")
    expect(page.locator(".title .pill")).to_have_text("stopped", timeout=60_000)
    assert page.evaluate("window.untouched") is True, "the page was reloaded"
