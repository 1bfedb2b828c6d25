"""Pages without a server, rendered in a browser: the longest names, every width, frames of the stream."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.core.blocked import pages as stuck
from app.core.blocked.diagnosis import explain_topic
from app.core.blocked.ending import plan_fence
from app.core.hanging.report import HangingLine
from app.core.journals.group_records import ClassicGroup
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.mappings.mapping import PartitionMapping
from app.core.observing.pages.groups import row_of
from app.core.observing.pages.lag import lag_of, lag_row
from app.core.observing.pages.reading import reading_of
from app.core.observing.pages.tracks import mark_of
from app.core.observing.pages.transactions import TransactionSelection
from app.core.observing.pages.transactions import row_of as transaction_row_of
from app.core.observing.service.transactions import ObservedTransaction
from app.core.observing.snapshot import ReadingPhase
from app.core.observing.wording import Quality
from app.core.pipelines.pages.pipelines import charts_of
from app.core.runs.pages import runs
from app.kit.access import Principal, Role
from app.kit.web.pages import screen
from app.kit.web.pages.assets import STATIC_DIR
from app.kit.web.pages.charts import page_charts
from app.kit.web.pages.paging import links_of as links_to
from app.kit.web.pages.timeline import Point, Track, timeline_of
from tests.core.blocked.answers import ID, asked, held, known
from tests.core.lag.details import WINDOW, lag_detail, total_lag
from tests.edges.main.pages.test_rendering import may_as
from tests.support import page_samples as samples
from tests.support import query_screens
from tests.support.browser import NARROW, WIDE, assert_fits
from tests.support.double_samples import overlaps
from tests.support.hanging_samples import hanging_transaction
from tests.support.observing import cluster, state_of
from tests.support.page_samples import NOW, run

# As long as Kafka lets a topic's name be, and without a place to break.
LONG = "payments-" + "7f3c9b2d" * 30
TABLET = {"width": 768, "height": 1024}


def whole(template: str, context: Mapping[str, Any], *, path: str = "/", stream_url: str | None = None) -> str:
    """A page as the server sends it, but for the sums of its files."""
    base: dict[str, Any] = {
        "path": path,
        "principal": Principal(name="ada", role=Role.ADMINISTRATOR),
        "may": may_as(Role.ADMINISTRATOR),
        "now": NOW,
        "said": None,
        "stream_url": stream_url,
        "refused": None,
        "title": "a page",
        "tabs": None,
        "region": re.sub(r"/(?=[^/]+$)", "/_", template),
    }
    return re.sub(r' integrity="[^"]*"', "", screen.render(template, {**base, **context}))


def rendered(template: str, context: Mapping[str, Any], *, path: str = "/") -> str:
    """A page as a browser without a server can show it: its own files from the disk, and no stream."""
    return re.sub(r'="/static/([^?"]+)[^"]*"', rf'="{STATIC_DIR.as_uri()}/\1"', whole(template, context, path=path))


def of_pipeline(mappings: Sequence[PartitionMapping], *, records_in: int = 0) -> dict[str, Any]:
    """The content of a pipeline's page."""
    view = samples.pipeline_view(run())
    totals = msgspec.structs.replace(view.totals, records_in=records_in)
    view = msgspec.structs.replace(view, mappings=tuple(mappings), totals=totals)
    return {
        "view": view,
        "pipeline": view.line.pipeline,
        "run": run(),
        "is_live": True,
        **charts_of(view),
        "lag": lag_row(total_lag()),
        "steps": ["keep if arrival_delay_min ≥ 15"],
        "beside": {
            (one.topic, one.partition): {"state": "Ongoing", "opened_at": NOW, "held_back": 7} for one in mappings
        },
        "unreached": None,
    }


def pipeline_page() -> str:
    mappings = [
        msgspec.structs.replace(samples.mapping(one), topic=LONG, transactional_id=f"fl.t.{LONG}.{one}")
        for one in range(4)
    ]
    return rendered("pipelines/detail", of_pipeline(mappings), path="/pipelines/delayed-flights")


def run_page() -> str:
    view = samples.run_view(run())
    context: dict[str, Any] = {
        "view": view,
        "run": run(),
        "is_live": True,
        **runs.charts_of(view, log=None),
        "log": None,
    }
    return rendered("runs/detail", context)


def stuck_page(transactional_id: str = ID) -> str:
    holder = msgspec.structs.replace(known(timeout_ms=900_000), transactional_id=transactional_id)
    found = explain_topic("orders", [held(holder)], asked())
    context: dict[str, Any] = {
        "clusters": ["demo"],
        "cluster": "demo",
        "target": "orders:0",
        "kind": "",
        "problem": None,
        "found": stuck._shown(found),  # pyright: ignore[reportPrivateUsage] - the context of a view
    }
    return rendered("stuck/detail", context, path="/stuck")


def plan_page() -> str:
    context: dict[str, Any] = {
        "verb": "Fence",
        "subject": LONG,
        "plan": plan_fence(LONG, None, asked()),
        "action": "/stuck/fence",
        "fields": {},
        "back": "/stuck",
    }
    return rendered("stuck/plan", context)


def group_page() -> str:
    """An id that is fenced at this moment, at the end of its timeline."""
    live = LiveGroup("", classic=ClassicGroup("consumer", 17))
    now_ms = int(NOW.timestamp() * 1000)
    made = cluster()
    made.enter(made.groups.topic, ReadingPhase.LIVE, now_ms=now_ms)
    snapshot = made.snapshot(now_ms=now_ms)
    line = samples.fencing_line()
    verdict = msgspec.structs.replace(line.record.event.verdict, at_ms=now_ms)
    record = msgspec.structs.replace(line.record, event=msgspec.structs.replace(line.record.event, verdict=verdict))
    generations = [Point(samples.ago(60 * number), str(17 - number), "members 1") for number in range(3)]
    context: dict[str, Any] = {
        "cluster": "demo",
        "name": LONG,
        "reading": reading_of(snapshot, snapshot.group_journal, now=NOW),
        "row": {**row_of(live), "group": LONG},
        "lag": lag_of(lag_detail(topic=LONG), is_each=False, window=WINDOW),
        "charts": page_charts(WINDOW, lambda span: f"?range={span}"),
        "sampling": "",
        "not_decoded": live.not_decoded,
        "protocol": "range",
        "leader": "",
        "members": (),
        "offsets": [],
        "is_query": False,
        "rebalances": [],
        "offsets_aborted": 0,
        "is_from_journal": True,
        "overlaps": overlaps(group=LONG, topic=LONG, names=(LONG, LONG)),
        "overlap_counts": {"proved": 1, "likely": 1},
        "fencings": [msgspec.structs.replace(line, record=record)],
        "timeline": timeline_of("epochs", [Track(LONG, generations, [mark_of(record)], "/groups")], now=NOW),
    }
    return rendered("groups/detail", context, path="/groups")


def transactions_page() -> str:
    """The list, whose journal cannot be read whole; each sentence names a topic."""
    now_ms = int(NOW.timestamp() * 1000)
    made = cluster()
    made.enter(made.transactions.topic, ReadingPhase.LIVE, now_ms=now_ms)
    live = LiveTransaction(LONG, state_of(start_ms=now_ms, changed_ms=now_ms), 0, 0)
    row = transaction_row_of(ObservedTransaction(live=live, owner=None))
    snapshot = made.snapshot(now_ms=now_ms)
    reading = reading_of(snapshot, snapshot.transaction_journal, now=NOW)
    context: dict[str, Any] = {
        "clusters": ["demo"],
        "cluster": "demo",
        "wanted": TransactionSelection(),
        "choices": dict.fromkeys(TransactionSelection.fields, ((LONG, LONG),)),
        "found": {"tally": {"open": 1, "ids": 1_000_000}, "matching": 1_000_000},
        "rows": [row],
        "pages": links_to(None, lambda after: f"/{after}", after=None),
        "hangs": [HangingLine(cluster="demo", transaction=hanging_transaction(topic=LONG))],
        "blocked": [],
        "search_problem": f"{LONG} could not be read",
        "oldest": row,
        "reading": dataclasses.replace(
            reading, quality=Quality.STALE, sentence=f"it is at {LONG}", notes=(f"it has {LONG}",)
        ),
        "pace": None,
    }
    return rendered("transactions/list", context, path="/transactions")


PAGES = {
    "transactions": transactions_page,
    "pipeline": pipeline_page,
    "group": group_page,
    "group of a query": lambda: rendered("groups/detail", query_screens.group(), path="/groups"),
    "run": run_page,
    "stuck": lambda: stuck_page(LONG),
    "stuck query": lambda: rendered("stuck/detail", query_screens.stuck_group(), path="/stuck"),
    "plan": plan_page,
}


WIDEST_NAME = """
() => Math.max(0, ...[...document.querySelectorAll(".table-wrap th[scope=row]")]
  .map((head) => [head, head.closest(".table-wrap")])
  .filter(([, wrap]) => wrap.scrollWidth > wrap.clientWidth)
  .map(([head, wrap]) => head.offsetWidth / wrap.clientWidth))
"""
"""The widest name of a row, as a part of the window, in tables that do not fit it."""


@pytest.fixture
def page(browser: Browser) -> Generator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def shown(page: Page, html: str, folder: Path, *, viewport: dict[str, int]) -> Page:
    file = folder / "page.html"
    file.write_text(html)
    page.set_viewport_size(cast(Any, viewport))
    page.goto(file.as_uri())
    return page


@pytest.mark.parametrize("name", PAGES)
def test_the_longest_names_make_no_page_wider_than_its_window(page: Page, tmp_path: Path, name: str) -> None:
    for viewport in (NARROW, TABLET, WIDE):
        assert_fits(shown(page, PAGES[name](), tmp_path, viewport=viewport), what=name)
    # Nor does whose row it is push the other columns out of sight.
    assert page.evaluate(WIDEST_NAME) < 0.4


def test_a_finger_that_is_near_a_fencing_on_the_line_of_time_is_led_to_its_event(page: Page, tmp_path: Path) -> None:
    phone = shown(page, group_page(), tmp_path, viewport=NARROW)
    mark = phone.locator(".timeline a[href^='/fencing/']")
    mark.scroll_into_view_if_needed()
    box = mark.locator("circle").last.bounding_box()
    assert box is not None
    beside: str = phone.evaluate(
        "([x, y]) => document.elementFromPoint(x, y)?.closest('a')?.getAttribute('href')",
        [box["x"] + box["width"] / 2 - 12, box["y"] + box["height"] / 2],
    )
    assert beside == mark.get_attribute("href")
    expect(phone.locator("#fencing tbody tr")).to_have_count(1)


def test_on_a_phone_the_answer_is_on_the_first_screen_and_the_question_opens_on_demand(
    page: Page, tmp_path: Path
) -> None:
    phone = shown(page, stuck_page(), tmp_path, viewport=NARROW)
    answer = phone.get_by_role("heading", name="read_committed consumers of orders-0 are blocked")
    box = answer.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < NARROW["height"] * 2 / 3
    target = phone.get_by_label("Group, topic or topic:partition")
    assert not target.is_visible()
    phone.get_by_text("Choose another target").click()
    assert target.is_visible()
    # With room for it, it is there without a click.
    wide = shown(page, stuck_page(), tmp_path, viewport=WIDE)
    assert wide.get_by_label("Group, topic or topic:partition").is_visible()
    assert not wide.get_by_text("Choose another target").is_visible()


def test_the_place_where_one_is_stands_in_sight_of_a_phone(page: Page, tmp_path: Path) -> None:
    phone = shown(page, stuck_page(), tmp_path, viewport=NARROW)
    box = phone.locator("nav.places [aria-current]").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= NARROW["width"]


def test_a_tap_on_a_time_shows_the_moments_and_another_one_the_ages(page: Page, tmp_path: Path) -> None:
    phone = shown(page, pipeline_page(), tmp_path, viewport=NARROW)
    started = phone.locator(".facts time")
    age = started.inner_text()
    assert age.endswith(" ago")
    started.click()
    assert started.inner_text() == samples.ago(300).strftime("%Y-%m-%d %H:%M:%S UTC")
    # It stays so on the next page of this window.
    phone.reload()
    assert started.inner_text().endswith(" UTC")
    phone.keyboard.press("u")
    assert started.inner_text() == age


# The user's state, all at once: a table scrolled aside, a link in focus, a selection, a reason half typed.
TAKE_IN_HAND = """
() => {
  const table = document.querySelector("#mappings");
  const why = document.querySelector("#why-drain");
  why.closest("details").open = true;
  why.value = "half a reas";
  document.querySelector("#act-kill").open = true;
  scrollTo(0, 200);
  table.parentElement.scrollLeft = 60;
  const link = table.querySelectorAll("tbody a")[3];
  link.focus({ preventScroll: true });
  const word = document.querySelector("#task-0-0 td[data-label=State]");
  getSelection().selectAllChildren(word);
  window.shifts = [];
  new PerformanceObserver((list) => shifts.push(...list.getEntries())).observe({ type: "layout-shift" });
  window.inHand = () => [
    why.isConnected && why.value,
    document.querySelector("#act-drain").open,
    document.querySelector("#act-kill").open,
    scrollY,
    table.parentElement.scrollLeft,
    document.activeElement === link,
    getSelection().toString(),
    shifts.filter((shift) => shift.value > 0.001).length,
  ];
  return inHand();
}
"""


def test_the_users_state_stays_while_frames_come_and_nothing_jumps(page: Page) -> None:
    frames = 0

    def serve(route: Route) -> None:
        nonlocal frames
        path = urlsplit(route.request.url).path
        if path.startswith("/static/"):
            route.fulfill(path=STATIC_DIR / path.removeprefix("/static/"))
            return
        if path != "/stream":
            first = whole(
                "pipelines/detail", of_pipeline([samples.mapping(one) for one in range(4)]), stream_url="/stream"
            )
            route.fulfill(body=first, content_type="text/html")
            return
        # One frame an answer: the browser comes back for the next.
        frames += 1
        mappings = [
            msgspec.structs.replace(samples.mapping(one), committed=41_882 + 7 * frames, generation=18 + frames)
            for one in range(4)
        ]
        context = {**of_pipeline(mappings, records_in=frames), "now": NOW, "may": may_as(Role.ADMINISTRATOR)}
        lines = screen.render("pipelines/_detail", context).splitlines()
        route.fulfill(body="".join(f"data: {line}\n" for line in lines) + "\n", content_type="text/event-stream")

    page.route("**/*", serve)
    page.set_viewport_size(cast(Any, TABLET))
    page.goto("http://fenceline.test/")
    told = page.locator(".stat.main .more").first
    expect(told).to_have_text(re.compile("^[1-9][0-9]* in this run"))
    in_hand = page.evaluate(TAKE_IN_HAND)
    assert in_hand == ["half a reas", True, True, 200, 60, True, "running", 0]
    before = frames
    # Several frames later; under load the page skips some numbers.
    later = "([text, before]) => parseInt(text.textContent) >= before + 2"
    page.wait_for_function(later, arg=[told.element_handle(), before], timeout=20_000)
    assert page.evaluate("inHand()") == in_hand
