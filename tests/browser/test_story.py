"""From the empty form to a drained pipeline, on a screen that is never reloaded."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, expect

from app.products.demo.feed import Feed
from app.products.demo.flights import read_flights
from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible, assert_fits
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

UP_WITHIN_MS = 120_000
NUMBER = re.compile(r"[\d,]*[1-9][\d,]*")


class Flights:
    """A topic of two partitions into which flights come from `start` on."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self._feed = Feed(bootstrap_servers=bootstrap_servers, topic=topic, partitions=2)
        self._stop = threading.Event()
        endless = zip(itertools.count(1), itertools.cycle(read_flights(limit=5_000)))
        self._feeding = threading.Thread(
            target=self._feed.send_steadily,
            args=(endless,),
            kwargs={"rate_per_s": 500, "stop": self._stop},
            daemon=True,
        )

    def start(self) -> None:
        self._feeding.start()

    def stop(self) -> None:
        self._stop.set()
        if self._feeding.ident is not None:
            self._feeding.join(30)


@pytest.fixture
def flights(site: Site, make_topic: MakeTopic) -> Generator[Flights]:
    made = Flights(site.bootstrap_servers, make_topic(partitions=2, prefix="flights"))
    yield made
    made.stop()


@pytest.mark.core
def test_a_pipeline_is_created_started_watched_and_drained_without_a_reload(
    site: Site, page: Page, flights: Flights, make_topic: MakeTopic
) -> None:
    sink = make_topic(partitions=2, prefix="late")

    # The form: a mistake is shown beside its field while the rest is still being filled in.
    page.goto("/pipelines")
    page.get_by_role("link", name="New pipeline").click()
    page.get_by_label("Name", exact=True).fill("delayed-flights")
    page.get_by_label("Source topics").fill(flights.topic)
    sink_field = page.get_by_label("Sink topic")
    sink_field.fill(flights.topic)
    sink_field.press("Tab")
    problem = page.locator(".field", has=sink_field).locator(".problem:not(.is-warning)")
    expect(problem).to_be_visible()
    expect(sink_field).to_have_attribute("aria-invalid", "true")
    assert_accessible(page, what="the form with a mistake")
    sink_field.fill(sink)
    sink_field.press("Tab")
    expect(problem).to_have_count(0)

    page.get_by_label("Transform").select_option("steps")
    page.get_by_role("button", name="Add a step").click()
    page.locator("#step-0").get_by_label("Field").fill("arrival_delay_min")
    page.locator("#step-0").get_by_label("Operator").select_option("ge")
    page.locator("#step-0").get_by_label("Value").fill("15")
    page.get_by_role("button", name="Add a step").click()
    page.locator("#step-1").get_by_label("Step 2").select_option("project")
    page.locator("#step-1").get_by_label("Fields").fill("flight_id, carrier, arrival_delay_min")
    page.get_by_role("button", name="Check without saving").click()
    expect(page.get_by_role("status").get_by_text("Checked")).to_be_visible()
    site.picture(page, "form")
    page.get_by_role("button", name="Create the pipeline").click()
    page.wait_for_url(re.compile("/pipelines/delayed-flights"))
    expect(page.get_by_text("keep if arrival_delay_min ≥ 15")).to_be_visible()
    assert_accessible(page, what="a pipeline that never ran")

    # Started: from here on nothing is reloaded.
    page.get_by_text("Start…").click()
    page.locator("#act-start").get_by_label("Reason").fill("the browser test")
    with page.expect_event("load"):  # the answer to the form is a new document
        page.get_by_role("button", name="Start", exact=True).click()
    page.evaluate("window.untouched = true")
    expect(page.locator(".title .pill")).to_have_text("running", timeout=UP_WITHIN_MS)
    flights.start()
    rate = page.locator("dl.stat", has_text="Records in per second").locator("dd").first
    expect(rate).to_have_text(NUMBER, timeout=UP_WITHIN_MS)
    expect(page.locator("#mapping-" + flights.topic + "-0")).to_contain_text("task 0.0", timeout=UP_WITHIN_MS)
    committed = page.locator("#mapping-" + flights.topic + "-0 td[data-label=Committed]")
    before = committed.inner_text()
    expect(committed).not_to_have_text(before, timeout=20_000)
    expect(page.locator("rate-chart canvas")).to_be_visible()

    # Opened elements and typed text stay while the page changes under them.
    page.get_by_text("Drain…").click()
    why = page.locator("#act-drain").get_by_label("Reason")
    why.fill("seen enough")
    before = committed.inner_text()
    expect(committed).not_to_have_text(before, timeout=20_000)
    expect(why).to_have_value("seen enough")
    assert page.evaluate("window.untouched") is True, "the page was reloaded"
    page.keyboard.press("Escape")
    assert_accessible(page, what="a pipeline that runs")
    page.evaluate("window.scrollTo(0, 0)")
    if site.shots is not None:
        # For a picture, a chart with something in it.
        seconds = "JSON.parse(document.querySelector('rate-chart').dataset.series).data[0].length"
        wait_for(lambda: page.evaluate(seconds) > 45, 120, "45 seconds on the chart")
    site.picture(page, "pipeline", height=1290)
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    # A chart is drawn for the earlier width; its observer gets the new one a moment later.
    page.evaluate("document.querySelector('rate-chart').plot.setSize({ width: 1200, height: 240 })")
    assert_fits(page, what="a pipeline that runs, on a phone")
    site.picture(page, "phone")
    page.set_viewport_size({"width": 1280, "height": 900})

    # The run: its instance, and the tail of its Spark log, as text.
    page.get_by_role("link", name="Instances, Spark and logs").click()
    page.get_by_role("link", name="Log of instance 0").click()
    expect(page.locator("#log-text")).to_contain_text("workers.spark")
    assert_accessible(page, what="a run with its log")

    page.goto("/")
    expect(page.locator("#pipeline-delayed-flights")).to_contain_text("running")
    assert_accessible(page, what="the overview of something that runs")
    site.picture(page, "overview")
    page.goto("/pipelines/delayed-flights")
    page.get_by_text("Drain…").click()
    page.locator("#act-drain").get_by_label("Reason").fill("seen enough")
    with page.expect_event("load"):  # the answer to the form is a new document
        page.get_by_role("button", name="Drain", exact=True).click()
    page.evaluate("window.untouched = true")
    expect(page.locator(".title .pill")).to_have_text("stopped", timeout=60_000)
    assert page.evaluate("window.untouched") is True, "the page was reloaded"
    page.get_by_role("link", name="Definition", exact=True).click()
    expect(page.locator("#commands")).to_contain_text("seen enough")
    assert_accessible(page, what="a pipeline that has stopped")
