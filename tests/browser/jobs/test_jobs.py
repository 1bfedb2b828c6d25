"""Ten jobs, each from the overview to its answer by visible links, with bounds on what a person has to do."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from app.edges.embedded.kafka import KafkaCluster
from app.products.migrations.look import AuditNow
from app.products.migrations.migration import MigrationState, Stage
from tests.browser.jobs import results, worlds
from tests.browser.jobs.job import DESK, Hand, Job, counted
from tests.browser.jobs.results import Effort, Result
from tests.browser.jobs.worlds import Blocked, overview_with
from tests.conftest import MakeTopic
from tests.support.browser import Site, visitor_of
from tests.support.topics import create_topic, delete_topics, unique_name
from tests.support.transactions import take_over
from tests.support.walked import Walked

by_every_hand = pytest.mark.parametrize("hand", list(Hand))


@pytest.fixture(scope="module")
def kept() -> Generator[list[Result]]:
    """The results, written where FENCELINE_TEST_JOBS names a file."""
    found: list[Result] = []
    yield found
    if file := os.environ.get("FENCELINE_TEST_JOBS"):
        results.write(found, Path(file))


@pytest.fixture
def window(site: Site, logged_in: Any, hand: Hand) -> Generator[Page]:
    """The administrator's, as wide as a desk's, without JavaScript for the plain hand."""
    with site.visitor(storage=logged_in, has_javascript=hand is not Hand.PLAIN, viewport=DESK) as visitor:
        yield visitor.new_page()


@pytest.fixture(scope="module")
def blocked(site: Site, kafka: KafkaCluster) -> Generator[Blocked]:
    """A transaction to look at, and one for each hand to fence."""
    topic = unique_name("orders")
    create_topic(kafka.bootstrap_servers, topic, partitions=1 + len(Hand))
    with worlds.blocked_readers(site, topic, 1 + len(Hand)) as found:
        yield found
    delete_topics(kafka.bootstrap_servers, [topic])


def row_of(page: Page, table: str, text: str) -> Locator:
    return page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def open_pipeline(job: Job, name: str) -> None:
    job.follow(row_of(job.page, "Pipelines", name).get_by_role("link", name=name, exact=True))
    job.heading(name)


def tab(job: Job, name: str, title: str) -> None:
    job.follow(job.page.get_by_role("navigation", name=name).get_by_role("link", name=title, exact=True))


@by_every_hand
def test_find_who_blocks_a_reader(blocked: Blocked, window: Page, hand: Hand, kept: list[Result]) -> None:
    topic, name = blocked.topic, blocked.ids[0]
    row = row_of(window, "Open problems", name)
    overview_with(window, row)
    most = Effort(clicks=1, keys=1, pages=1)
    with counted(window, "find who blocks a reader", hand, most=most, kept=kept) as job:
        # The overview says who waits and for whom; why, and what to do, is one click away.
        expect(row).to_contain_text(f"{topic}-0: 1 record blocked by {name}")
        expect(row).to_contain_text(blocked.group)
        job.look("the overview with blocked readers")
        job.follow(row.get_by_role("link", name="Explain"))
        job.sees(window.get_by_role("heading", name=f"read_committed consumers of {topic}-0 are blocked at offset 0."))
        expect(window.get_by_text(f"which is {name}, ongoing for")).to_be_visible()
        expect(window.get_by_text("If the process is dead, fence").first).to_be_visible()
        job.look("why readers are blocked")


@by_every_hand
def test_fence_it(blocked: Blocked, window: Page, hand: Hand, kept: list[Result]) -> None:
    name = blocked.ids[1 + list(Hand).index(hand)]
    row = row_of(window, "Open problems", name)
    overview_with(window, row)
    most = Effort(clicks=2, fields=1, keys=2, pages=3 if hand is Hand.PLAIN else 2)
    with counted(window, "fence the id", hand, most=most, kept=kept) as job:
        job.follow(row.get_by_role("link", name="Fence…"))
        job.heading(f"Fence {name}?")
        job.look("what a fence would do")
        job.fill(window.get_by_label("Reason"), "its host is gone")
        job.follow(window.get_by_role("button", name="Fence", exact=True))
        job.sees(window.get_by_role("status").filter(has_text="Fenced."))
        job.reload_if_plain()
        expect(window.get_by_text("not blocked").first).to_be_visible()
        job.look("a fenced transaction")


@by_every_hand
def test_find_why_a_producer_was_fenced(
    site: Site, window: Page, hand: Hand, make_topic: MakeTopic, kept: list[Result]
) -> None:
    topic, name = make_topic(), unique_name("taken")
    clients = take_over({"bootstrap.servers": site.bootstrap_servers}, topic, name)
    row = row_of(window, "Fencing events, newest first", name).filter(has_text="A new producer took")
    overview_with(window, row)
    most = Effort(clicks=1, keys=1, pages=1)
    with counted(window, "find why a producer was fenced", hand, most=most, kept=kept) as job:
        job.follow(row.get_by_role("link", name=re.compile("A new producer took")))
        job.heading("Takeover")
        job.sees(window.get_by_role("heading", name="Next steps"))
        expect(window.get_by_role("table", name="Evidence, oldest first")).to_contain_text(f"epoch 0 in {topic}-0")
        job.look("a fencing event")
    del clients


@by_every_hand
def test_create_a_pipeline_with_try(
    site: Site, window: Page, hand: Hand, make_topic: MakeTopic, kept: list[Result]
) -> None:
    source, sink, name = make_topic(prefix="flights"), make_topic(prefix="late"), unique_name("late")
    worlds.write_flights(site, source)
    window.goto("/")
    most = Effort(clicks=5, fields=7, pages=5) if hand is Hand.PLAIN else Effort(clicks=4, fields=7, keys=4, pages=2)
    with counted(window, "create a pipeline with *Try*", hand, most=most, kept=kept) as job:
        job.follow(window.get_by_role("link", name="New pipeline"))
        job.heading("New pipeline")
        job.fill(window.get_by_label("Name", exact=True), name)
        job.fill(window.get_by_label("Source topics"), source)
        job.choose(window.get_by_label("Transform", exact=True), "steps on JSON values")
        if hand is Hand.PLAIN:
            job.follow(window.get_by_role("button", name="Check without saving"))
        job.follow(window.get_by_role("button", name="Add a step"))
        step = window.get_by_role("listitem").filter(has=window.get_by_label("Operator"))
        job.fill(step.get_by_label("Field", exact=True), "arr_delay")
        job.choose(step.get_by_label("Operator"), "≥ at least")
        job.fill(step.get_by_label("Value"), "15")
        job.fill(window.get_by_label("Sink topic"), sink)
        job.follow(window.get_by_role("button", name="Try the transform"))
        job.sees(window.get_by_text("3 tried: 2 written (2 outputs, 0 routed), 1 dropped, 0 bad"))
        job.look("the form with a trial")
        job.follow(window.get_by_role("button", name="Create the pipeline"))
        job.heading(name)
        expect(window.get_by_text("keep if arr_delay ≥ 15")).to_be_visible()
        job.look("a new pipeline")


@by_every_hand
def test_correct_its_bad_field(site: Site, window: Page, hand: Hand, make_topic: MakeTopic, kept: list[Result]) -> None:
    source = make_topic(prefix="flights")
    worlds.write_flights(site, source)
    name = worlds.pipeline_of(site, make_topic, "late", source=source, transform=worlds.keep_if("arr_dealy"))
    window.goto("/")
    most = Effort(clicks=5, fields=1, keys=5, pages=3 if hand is not Hand.PLAIN else 5)
    with counted(window, "correct its bad field", hand, most=most, kept=kept) as job:
        open_pipeline(job, name)
        job.follow(window.get_by_role("link", name="Edit"))
        job.heading(f"Edit {name}")
        job.follow(window.get_by_role("button", name="Try the transform"))
        job.sees(window.get_by_text("did you mean arr_delay?"))
        job.fill(window.get_by_label("Field", exact=True), "arr_delay")
        job.follow(window.get_by_role("button", name="Try the transform"))
        job.sees(window.get_by_text("3 tried: 2 written"))
        job.look("the corrected form")
        job.follow(window.get_by_role("button", name="Save as a new revision"))
        job.heading(name)
        expect(window.get_by_text("keep if arr_delay ≥ 15")).to_be_visible()


@by_every_hand
def test_reset_offsets_by_a_day(
    site: Site, window: Page, hand: Hand, make_topic: MakeTopic, kept: list[Result]
) -> None:
    source = make_topic(prefix="daily")
    name = worlds.pipeline_of(site, make_topic, "daily", source=source)
    worlds.write_days(site, source, name)
    window.goto("/")
    most = Effort(clicks=5, fields=1, keys=5, pages=5)
    with counted(window, "reset offsets by a day", hand, most=most, kept=kept) as job:
        open_pipeline(job, name)
        tab(job, name, "Offsets")
        job.follow(window.get_by_role("link", name="Reset offsets…"))
        job.heading("Reset offsets")
        job.follow(window.get_by_role("link", name="1 day back"))
        job.sees(window.get_by_text("Up to 1 record of 1 partition is read again"))
        job.look("the preview of a reset")
        job.fill(window.get_by_label("Reason"), "a bad transform")
        job.follow(window.get_by_role("button", name="Reset the offsets"))
        job.heading(name)
        job.sees(window.get_by_role("status").filter(has_text="offsets"))


@by_every_hand
def test_find_a_record_by_key(site: Site, window: Page, hand: Hand, make_topic: MakeTopic, kept: list[Result]) -> None:
    topic = make_topic(partitions=3, prefix="orders")
    worlds.write_orders(site, topic)
    # The search has the topics of pipelines and of the journals.
    worlds.pipeline_of(site, make_topic, "orders", source=topic)
    window.goto("/")
    most = Effort(clicks=5 if hand is Hand.PLAIN else 4, fields=3, keys=4, pages=5 if hand is Hand.PLAIN else 3)
    with counted(window, "find a record by key", hand, most=most, kept=kept) as job:
        job.find(topic)
        job.heading(topic)
        job.follow(window.get_by_role("link", name="Records", exact=True))
        job.heading(f"Records of {topic}")
        job.fill(window.get_by_label("From"), "start")
        job.fill(window.get_by_label("Key", exact=True), "order-7")
        job.follow(window.get_by_role("button", name="Show", exact=True))
        records = window.get_by_role("table", name=f"Records of {topic}")
        job.sees(records.get_by_role("cell", name="order-7", exact=True))
        job.look("records by key")


@by_every_hand
def test_compare_two_revisions(site: Site, window: Page, hand: Hand, make_topic: MakeTopic, kept: list[Result]) -> None:
    name = worlds.pipeline_of(site, make_topic, "revised")
    worlds.revise(window, name)
    window.goto("/")
    most = Effort(clicks=3, keys=3, pages=3)
    with counted(window, "compare two revisions", hand, most=most, kept=kept) as job:
        open_pipeline(job, name)
        tab(job, name, "Definition")
        job.follow(window.get_by_role("link", name="since 1"))
        job.heading("Revision 1 to 2")
        expect(window.get_by_role("row").filter(has_text="commit_interval_ms")).to_contain_text("250")
        job.look("the difference of two revisions")


@by_every_hand
def test_migrate(walked: Walked, window_of_walked: Page, hand: Hand, kept: list[Result]) -> None:
    window = window_of_walked
    most = Effort(clicks=5, fields=1, keys=5, pages=5 if hand is not Hand.PLAIN else 7)
    with counted(window, "migrate", hand, most=most, kept=kept) as job:
        open_pipeline(job, "flights")
        tab(job, "flights", "More")
        job.follow(window.get_by_role("link", name="Migrate", exact=True))
        job.follow(window.get_by_role("link", name="Plan to exactly_once_v2"))
        job.sees(window.get_by_role("heading", name="Preflight"))
        job.look("the plan of a migration")
        job.fill(window.get_by_label("Reason", exact=True), "the new producers")
        job.follow(window.get_by_role("button", name="Start the migration"))
        stages = window.get_by_role("list", name="Stages")
        job.sees(stages.get_by_text("preflight"))
        with job.aside():
            walked.until(Stage.SECOND_BOUNCE)
        job.reload_if_plain()
        expect(stages.locator("[aria-current=step]")).to_contain_text("second bounce")
        job.look("a migration in its second bounce")
        with job.aside():
            walked.migrating.audit_now = AuditNow(audit_id="a1", is_through=True, expected=40)
            walked.until_state(MigrationState.DONE)
        job.reload_if_plain()
        expect(window.get_by_role("main").get_by_text("done", exact=True).first).to_be_visible()


@pytest.fixture
def window_of_walked(walked: Walked, site: Site, hand: Hand) -> Generator[Page]:
    """The overview of the server with the played migration."""
    scripts = hand is not Hand.PLAIN
    with visitor_of(site.browser, walked.live.url, has_javascript=scripts, viewport=DESK) as visitor:
        made = visitor.new_page()
        made.goto("/login")
        made.get_by_label("Token").fill(walked.live.token)
        made.get_by_role("button", name="Log in").click()
        made.wait_for_url(f"{walked.live.url}/")
        yield made


@by_every_hand
def test_end_a_session(site: Site, window: Page, hand: Hand, kept: list[Result]) -> None:
    with worlds.other_user(site, window) as (name, visitor):
        window.goto("/")
        most = Effort(clicks=3, keys=3, pages=3)
        with counted(window, "end a session", hand, most=most, kept=kept) as job:
            job.follow(window.get_by_role("navigation", name="Main").get_by_role("link", name="Admin"))
            job.heading("Command log")
            job.follow(window.get_by_role("navigation", name="Admin").get_by_role("link", name="Access"))
            job.heading("Access")
            job.look("access")
            end = window.get_by_role("button", name=f"End the session of {name}")
            job.follow(end)
            expect(end).to_have_count(0)
            job.sees(window.get_by_role("status").filter(has_text="ended"))
        # The other window notices by itself.
        visitor.wait_for_url(re.compile("/login"), timeout=15_000)
