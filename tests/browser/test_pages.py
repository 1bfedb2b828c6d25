"""Every page by itself: accessible in light and dark, on a phone, by keyboard, and without scripts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible, assert_fits
from tests.support.topics import delete_topics, unique_name
from tests.support.waiting import wait_for

PAGES = (
    "/",
    "/pipelines",
    "/new-pipeline",
    "/mappings",
    "/mappings/ids",
    "/transactions",
    "/groups",
    "/stuck",
    "/fencing",
    "/clusters",
    "/clusters/demo",
    "/clusters/demo/settings",
    "/commands",
    "/search?q=demo",
    "/webhooks",
    "/tokens",
    "/nothing-here",
    "/pipelines/nobody",
)


@pytest.fixture
def pipeline(site: Site, make_topic: MakeTopic) -> str:
    """A pipeline that has never run, at revision 1."""
    name = unique_name("quiet")
    site.server.create_pipeline(
        name,
        {
            "cluster": site.cluster,
            "source_topics": [make_topic()],
            "group_id": name,
            "sink_topic": make_topic(),
            "transform": {"kind": "identity"},
        },
    )
    return name


@pytest.mark.core
@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_accessible_and_fits_a_phone(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("h1").first).to_be_attached()
    assert_accessible(page, what=path)
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what=f"{path} on a phone")


def test_the_login_form_is_accessible_and_names_the_problem_of_a_token(site: Site) -> None:
    with site.visitor() as visitor:
        page = visitor.new_page()
        page.goto("/pipelines")
        page.wait_for_url(re.compile(r"/login\?next=%2Fpipelines"))
        page.get_by_label("Token").fill("not-a-token")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not valid")
        assert_accessible(page, what="the login form")


def test_a_token_is_shown_once_lets_its_owner_in_and_its_end_ends_the_session_on_screen(site: Site, page: Page) -> None:
    name = unique_name("reader")
    page.goto("/tokens")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Role").select_option("viewer")
    page.get_by_role("button", name="Create the token").click()
    secret = page.locator("[data-copy^='flt_'], .notice .id span").first.inner_text()
    # A column of buttons has nothing to sort by, and its head stays for screen readers.
    expect(page.locator("#tokens th .visually-hidden")).to_have_text("Actions")
    page.goto("/tokens")
    expect(page.get_by_text(secret)).to_have_count(0)

    with site.visitor() as visitor:
        reader = visitor.new_page()
        reader.goto("/login?next=/commands")
        reader.get_by_label("Token").fill(secret)
        reader.get_by_role("button", name="Log in").click()
        reader.wait_for_url(f"{site.url}/commands")
        expect(reader.get_by_role("link", name="Access")).to_have_count(0)
        page.locator("tr", has_text=name).get_by_role("button", name="Revoke").click()
        # The open page notices by itself: its stream ends, and it asks who it is.
        reader.wait_for_url(re.compile("/login"), timeout=15_000)


@pytest.mark.core
def test_keys_open_the_help_and_lead_to_the_pages(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url(re.compile("/pipelines$"))
    page.keyboard.press("n")
    page.wait_for_url(re.compile("/new-pipeline$"))


def test_keys_are_letters_while_the_user_types(page: Page) -> None:
    page.goto("/new-pipeline")
    page.get_by_label("Name", exact=True).press_sequentially("gp?n")
    expect(page.get_by_label("Name", exact=True)).to_have_value("gp?n")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.url.endswith("/new-pipeline")


def test_the_form_keeps_what_is_typed_while_an_answer_is_under_way(page: Page) -> None:
    page.goto("/new-pipeline")
    held: list[Route] = []
    page.route("**/new-pipeline", lambda route: held.append(route))
    name, interval = page.get_by_label("Name", exact=True), page.get_by_label("Commit interval")
    guarantee = page.get_by_label("Guarantee")
    for label in ("Source topics", "Sink topic"):
        page.get_by_label(label).fill("flights")
    name.fill("first")
    interval.focus()
    wait_for(lambda: page.evaluate("1") and held, 10, lambda: "the form is sent")
    # Without an event: the next one sends the form again, and cancels the answer that this test is about.
    name.evaluate("field => { field.value = 'second'; }")
    guarantee.evaluate("field => { field.selectedIndex = 1; }")
    chosen = guarantee.input_value()
    with page.expect_response("**/new-pipeline"):
        held.pop().continue_()
    expect(page.locator("#form.htmx-request")).to_have_count(0)
    expect(name).to_have_attribute("value", "first")
    expect(name).to_have_value("second")
    expect(guarantee).to_have_value(chosen)
    name.dispatch_event("change")
    wait_for(lambda: page.evaluate("1") and held, 10, lambda: "the form is sent again")
    assert "second" in (held[0].request.post_data or "")


def test_the_first_tab_leads_past_the_navigation(page: Page) -> None:
    page.goto("/pipelines")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_each_tab_of_a_pipeline_is_accessible_and_fits_a_phone(page: Page, pipeline: str) -> None:
    page.goto(f"/pipelines/{pipeline}")
    tabs = page.get_by_role("navigation", name=pipeline).get_by_role("link")
    names = tabs.all_inner_texts()
    assert names == ["Status", "Runs", "Events", "Definition", "Offsets", "Audits", "More"]
    for name in names:
        tab = page.get_by_role("navigation", name=pipeline).get_by_role("link", name=name, exact=True)
        tab.click()
        expect(tab).to_have_attribute("aria-current", "page")
        assert_accessible(page, what=name)
        page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
        assert_fits(page, what=f"{name} on a phone")
        page.set_viewport_size({"width": 1280, "height": 900})


def test_another_window_sees_a_new_revision_without_a_reload(
    site: Site, page: Page, pipeline: str, logged_in: Any
) -> None:
    page.goto(f"/pipelines/{pipeline}/definition")
    page.evaluate("window.untouched = true")
    expect(page.locator("html")).to_have_attribute("data-stream", "up")
    with site.visitor(storage=logged_in) as visitor:
        editor = visitor.new_page()
        editor.goto(f"/pipelines/{pipeline}/edit")
        editor.get_by_label("Commit interval").fill("250")
        editor.get_by_label("Note on this revision").fill("calmer")
        editor.get_by_role("button", name="Save as a new revision").click()
        editor.wait_for_url(re.compile(f"/pipelines/{pipeline}"))
        editor.get_by_role("link", name="Definition", exact=True).click()
        editor.get_by_role("link", name="since 1").click()
        expect(editor.locator("table.diff")).to_contain_text("250")
        assert_accessible(editor, what="a diff")
    expect(page.locator("#revision-2")).to_contain_text("calmer", timeout=3_000)
    assert page.evaluate("window.untouched") is True, "the page was reloaded"


def test_a_change_from_an_old_revision_is_refused_and_nothing_typed_is_lost(
    site: Site, page: Page, pipeline: str, logged_in: Any
) -> None:
    page.goto(f"/pipelines/{pipeline}/edit")
    with site.visitor(storage=logged_in) as visitor:
        other = visitor.new_page()
        other.goto(f"/pipelines/{pipeline}/edit")
        other.get_by_label("Commit interval").fill("300")
        other.get_by_role("button", name="Save as a new revision").click()
        other.wait_for_url(re.compile(f"/pipelines/{pipeline}"))
    page.get_by_label("Commit interval").fill("400")
    page.get_by_role("button", name="Save as a new revision").click()
    expect(page.get_by_role("alert")).to_contain_text("revision 2")
    expect(page.get_by_label("Commit interval")).to_have_value("400")


def test_a_stream_that_could_not_begin_is_tried_again_and_the_page_says_that_it_is_not_live(page: Page) -> None:
    refused: list[str] = []

    def refuse_twice(route: Route) -> None:
        if len(refused) < 2:
            refused.append(route.request.url)
            route.fulfill(status=503, body="<p>not now</p>", content_type="text/html")
        else:
            route.continue_()

    page.route("**/pipelines/stream", refuse_twice)
    page.goto("/pipelines")
    expect(page.get_by_text("not live: reconnecting")).to_be_visible()
    expect(page.get_by_role("heading", name="Pipelines")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-stream", "up", timeout=15_000)
    expect(page.get_by_text("not live: reconnecting")).to_be_hidden()
    expect(page.get_by_text("not now")).to_have_count(0)
    assert len(refused) == 2


def test_a_stream_opens_though_its_extension_comes_long_after_htmx(page: Page) -> None:
    held: list[Route] = []
    page.route("**/hx-sse.min.js*", lambda route: held.append(route))
    page.goto("/pipelines", wait_until="commit")
    # Not by wait_for_function: the page's own policy forbids what that does.
    wait_for(lambda: page.evaluate("window.htmx !== undefined"), 20, "htmx")
    # All work that htmx does in a later task is done before this one.
    page.evaluate("new Promise((done) => setTimeout(() => setTimeout(done)))")
    expect(page.locator("html")).not_to_have_attribute("data-stream", "up")
    [extension] = held
    extension.continue_()
    expect(page.locator("html")).to_have_attribute("data-stream", "up")


def test_a_page_whose_stream_never_opens_says_that_it_is_not_live(page: Page) -> None:
    page.route("**/hx-sse.min.js*", lambda route: route.abort())
    page.goto("/pipelines")
    expect(page.get_by_text("not live: reconnecting")).to_be_visible(timeout=10_000)


def test_a_table_keeps_its_order_while_it_changes(site: Site, page: Page, pipeline: str, logged_in: Any) -> None:
    page.goto("/pipelines")
    expect(page.locator("html")).to_have_attribute("data-stream", "up")
    head = page.locator("#pipelines th", has_text="Name")
    head.get_by_role("button").click()
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    with site.visitor(storage=logged_in) as visitor:
        editor = visitor.new_page()
        editor.goto(f"/pipelines/{pipeline}/edit")
        editor.get_by_label("Commit interval").fill("150")
        editor.get_by_role("button", name="Save as a new revision").click()
        editor.wait_for_url(re.compile(f"/pipelines/{pipeline}"))
    expect(page.locator(f"#pipeline-{pipeline} td[data-label=Revision]")).to_have_text("2", timeout=5_000)
    expect(head).to_have_attribute("aria-sort", "descending")
    names = page.locator("#pipelines tbody th").all_inner_texts()
    assert names == sorted(names, reverse=True)


def test_a_pipeline_can_be_made_without_scripts(site: Site, logged_in: Any, make_topic: MakeTopic) -> None:
    name = unique_name("plain")
    source, sink = make_topic(), make_topic()
    with site.visitor(storage=logged_in, has_javascript=False) as visitor:
        page = visitor.new_page()
        page.goto("/new-pipeline")
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_label("Source topics").fill(source)
        page.get_by_label("Sink topic").fill(source)
        page.get_by_label("Transform").select_option("steps")
        page.get_by_role("button", name="Create the pipeline").click()
        sink_field = page.locator(".field", has=page.get_by_label("Sink topic"))
        expect(sink_field.locator(".problem:not(.is-warning)")).to_be_visible()
        page.get_by_role("button", name="Add a step").click()
        page.locator("#step-0").get_by_label("Field").fill("carrier")
        page.locator("#step-0").get_by_label("Value").fill("UA")
        page.get_by_label("Sink topic").fill(sink)
        page.get_by_role("button", name="Create the pipeline").click()
        page.wait_for_url(re.compile(f"/pipelines/{name}"))
        expect(page.get_by_text("keep if carrier =")).to_be_visible()
        page.get_by_role("link", name="More", exact=True).click()
        page.get_by_text("Delete…").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        # Its script takes `said` out of the address at once.
        expect(page.locator("[data-said]")).to_contain_text("Deleted.")
        page.wait_for_url(re.compile(r"/pipelines(\?|$)"))


def test_a_start_that_is_refused_says_why_on_the_pipelines_own_page(
    site: Site, page: Page, pipeline: str, kafka: KafkaCluster
) -> None:
    page.goto(f"/pipelines/{pipeline}")
    source = page.locator(".flow .node").first.inner_text()
    delete_topics(kafka.bootstrap_servers, [source])
    page.get_by_text("Start…").click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(source)
    expect(page.locator("h1")).to_have_text(pipeline)
    expect(page.get_by_text("never started").first).to_be_visible()
    assert_accessible(page, what="a pipeline whose start was refused")
