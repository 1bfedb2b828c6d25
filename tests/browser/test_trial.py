"""The author's form in a browser: a trial shows a bad field, which is corrected before the pipeline is created."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible, assert_fits
from tests.support.topics import unique_name
from tests.support.transactions import producer

TRIED_WITHIN_MS = 150_000
"""The limits of the start of Spark and of the trial."""
HOSTILE = "<img src=x onerror=alert(1)>"


def test_pipeline_is_created_after_a_trial_has_shown_its_bad_field(
    site: Site, page: Page, make_topic: MakeTopic
) -> None:
    source, sink, name = make_topic(prefix="flights"), make_topic(prefix="late"), unique_name("late")
    writer = producer({"bootstrap.servers": site.bootstrap_servers})
    for delay in (20, 90, 3):
        writer.produce(source, json.dumps({"arr_delay": delay, "note": HOSTILE}))
    assert writer.flush(30) == 0

    page.goto("/new-pipeline")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Source topics").fill(source[:-2])
    # The server suggests topics by what is typed.
    expect(page.locator(f'#topics-source_topics option[value="{source}"]')).to_have_count(1)
    page.get_by_label("Source topics").fill(source)
    page.get_by_label("Sink topic").fill(sink)
    # Enter checks; nothing is created.
    with page.expect_event("load"):
        page.get_by_label("Sink topic").press("Enter")
    expect(page.get_by_role("status").get_by_text("Checked")).to_be_visible()
    expect(page).to_have_url(re.compile("/new-pipeline"))

    page.get_by_label("Transform").select_option("steps")
    page.get_by_role("button", name="Add a step").click()
    page.locator("#step-0").get_by_label("Field").fill("arr_dealy")
    page.locator("#step-0").get_by_label("Operator").select_option("ge")
    page.locator("#step-0").get_by_label("Value").fill("15")
    page.get_by_role("button", name="Try the transform").click()
    records = page.locator("#records")
    expect(records).to_contain_text("3 tried: 0 written (0 outputs, 0 routed), 3 dropped, 0 bad")
    expect(records).to_contain_text("did you mean arr_delay?")
    expect(records).to_contain_text(HOSTILE)

    page.locator("#step-0").get_by_label("Field").fill("arr_delay")
    page.get_by_role("button", name="Try the transform").click()
    expect(records).to_contain_text("3 tried: 2 written (2 outputs, 0 routed), 1 dropped, 0 bad")
    assert_accessible(page, what="the form with a trial")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_fits(page, what="the form with a trial")
    page.get_by_role("button", name="Create the pipeline").click()
    page.wait_for_url(re.compile(f"/pipelines/{name}"))
    expect(page.get_by_text("keep if arr_delay ≥ 15")).to_be_visible()


def test_text_that_is_typed_while_a_step_is_added_stays(site: Site, page: Page) -> None:
    page.goto("/new-pipeline")
    page.get_by_label("Transform").select_option("steps")
    page.get_by_role("button", name="Add a step").wait_for()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/new-pipeline", hold)
    with page.expect_request("**/new-pipeline"):
        page.get_by_role("button", name="Add a step").click()
    # The check that the text causes is answered before the step is there, or after: neither takes the other away.
    with page.expect_response("**/new-pipeline"):
        page.get_by_label("Name", exact=True).fill("typed-meanwhile")
    held[0].continue_()
    expect(page.locator("#step-0")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed-meanwhile")


@pytest.mark.slow
def test_query_is_tried_on_its_topics_and_samples_are_of_the_chosen_one(
    site: Site, page: Page, make_topic: MakeTopic
) -> None:
    flights, weather, sink = make_topic(prefix="flights"), make_topic(prefix="weather"), make_topic(prefix="late")
    writer = producer({"bootstrap.servers": site.bootstrap_servers})
    for delay in (20, 90):
        writer.produce(flights, json.dumps({"carrier": HOSTILE, "delay": delay}))
    writer.produce(weather, json.dumps({"carrier": HOSTILE, "wind": 7}))
    assert writer.flush(30) == 0

    page.goto("/new-pipeline")
    records = page.locator("#records")
    page.get_by_label("Name", exact=True).fill(unique_name("late"))
    page.get_by_label("Sink topic").fill(sink)
    expect(records.get_by_label("Topic")).to_have_count(0)
    page.get_by_label("Source topics").fill(f"{flights}, {weather}")
    # The choice appears as soon as there is one, without a reload.
    expect(records.get_by_label("Topic").get_by_role("option")).to_have_text([flights, weather])
    page.get_by_label("Transform").select_option("dataframe")
    page.locator("#stream-0").get_by_label("Stream 1").fill("flights")
    page.locator("#stream-0").get_by_label("Schema").fill("carrier STRING, delay INT")
    page.locator("#stream-1").get_by_label("Stream 2").fill("weather")
    page.locator("#stream-1").get_by_label("Schema").fill("carrier STRING, wind INT")
    records.get_by_label("Samples of").select_option(weather)
    page.get_by_role("button", name="Show samples").click()
    expect(records).to_contain_text(f"Samples of {weather}")
    expect(records.get_by_label("Samples of")).to_have_value(weather)

    sql = "SELECT f.carrier AS key, delay, wind FROM flights f JOIN weather w ON f.carrier = w.carrier"
    page.get_by_label("SQL", exact=True).fill(f"{sql} WHERE delay > 50")
    page.get_by_role("button", name="Try the transform").click()
    expect(records.get_by_text("Spark runs the query")).to_be_visible()
    expect(records).to_contain_text("3 tried: 1 row.", timeout=TRIED_WITHIN_MS)
    expect(records.get_by_text("Spark runs the query")).to_be_hidden()
    expect(records.locator("#tried-rows > li")).to_have_count(1)
    expect(records.locator("#tried-rows")).to_contain_text(HOSTILE)
    expect(records.locator("#tried-rows")).to_contain_text('"wind":7')
    records.get_by_text(f"Stream flights: 2 records of {flights}").click()
    expect(records.locator("details").first).to_contain_text('"delay": 90')
    assert_accessible(page, what="the form with a trial of a query")
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="the form with a trial of a query on a phone")
    assert_fits(page, what="the form with a trial of a query")
