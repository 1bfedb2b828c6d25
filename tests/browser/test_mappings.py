"""The pages of mappings, ids and imports without a server: long names, every width, both schemes, by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from app.core.ids.imported import ImportFacts, ImportWish, lines_of, plan_of
from app.core.ids.pages import imports as id_imports
from app.core.ids.pages import registry as id_registry
from app.core.ids.pages.chart import id_growth_chart_of
from app.core.ids.registry import IdCount, IdStanding, IdTally, Orphan, RegisteredId, RegistryQuery
from app.core.ids.service.registry import Registry
from app.core.journals.transaction_state import TransactionStatus
from app.core.mappings import pages as mappings
from app.core.mappings.mapping import IdKind, IdOrigin, PartitionOwner, PartitionOwnership, TransactionalIdOwner
from app.core.observing.pages.reading import reading_of
from app.core.observing.snapshot import ReadingPhase
from app.kit.web.pages.paging import ListLinks
from tests.browser.test_names_and_screens import LONG, TABLET, rendered, shown
from tests.support import page_samples as samples
from tests.support.browser import NARROW, WIDE, assert_accessible, assert_fits, chromium
from tests.support.observing import cluster, live_transaction, state_of
from tests.support.page_samples import NOW, RUN_ID, ago

NOW_MS = int(NOW.timestamp() * 1000)
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


def list_page() -> str:
    found = [
        msgspec.structs.replace(samples.mapping(0), topic=LONG, transactional_id=f"fl.t.{LONG}.0"),
        msgspec.structs.replace(samples.mapping(1), assigned_id="flights-app-0_1", origin=IdOrigin.IMPORTED),
        msgspec.structs.replace(samples.mapping(2), owner=None),
        samples.mapping(3),
    ]
    context: dict[str, Any] = {
        "clusters": ["demo"],
        "cluster": "demo",
        "search": "",
        "at": "",
        "moment": None,
        "problems": {},
        "rows": [mappings._row(one) for one in found],  # pyright: ignore[reportPrivateUsage] - what a look shows
        "left_out": 0,
        "unowned": 1,
        "all_url": "/mappings",
    }
    return rendered("mappings/list", context, path="/mappings")


def stretch(
    since_s: float,
    until_s: float | None,
    task: int,
    epoch: int,
    generation: int,
    *,
    attempt: int = 0,
    unheard_s: float = 0,
) -> PartitionOwnership:
    return PartitionOwnership(
        pipeline="delayed-flights",
        kafka_cluster_id="k",
        group="delayed-flights",
        topic="flights",
        partition=2,
        transactional_id=f"fl.t.delayed-flights.0.{task}",
        owner=PartitionOwner(run_id=RUN_ID, ordinal=0, lease=1, task=task, attempt=attempt, host="worker-3"),
        generation=generation,
        since=ago(since_s),
        until=None if until_s is None else ago(until_s),
        producer_id=4_012 + task,
        epoch=epoch,
        heard_until=ago((until_s or 0) + unheard_s),
    )


def partition_page() -> str:
    stretches = [
        stretch(600, None, 1, 4, 19),
        stretch(3_600, 630, 0, 7, 18, attempt=1, unheard_s=45),
        stretch(7_200, 3_600, 0, 6, 18),
        stretch(90_000, 7_200, 0, 6, 17),
    ]
    context: dict[str, Any] = {
        "cluster": "demo",
        "group": "delayed-flights",
        "topic": "flights",
        "partition": 2,
        "name": "flights-2",
        "mapping": msgspec.structs.replace(samples.mapping(2), assigned_id="app-0_2", origin=IdOrigin.IMPORTED),
        "stretches": stretches,
        "owners": 2,
        "timeline": mappings._timeline(stretches, now=NOW),  # pyright: ignore[reportPrivateUsage] - as above
        "pages": ListLinks(None, "/mappings/partition?after=x"),
    }
    return rendered("mappings/detail", context, path="/mappings/partition")


def registered(name: str, standing: IdStanding, *, is_seen: bool = True, **more: Any) -> RegisteredId:
    state = state_of(TransactionStatus.COMPLETE_COMMIT, changed_ms=NOW_MS - 3_600_000)
    given: dict[str, Any] = {
        "orphan": None,
        "owner": None,
        "partitions": (),
        "live": live_transaction(name, state) if is_seen else None,
        "expires_at_ms": NOW_MS + 6 * DAY_MS if is_seen else None,
        "contested": "",
    }
    return RegisteredId(transactional_id=name, standing=standing, **{**given, **more})


def owner(name: str, kind: IdKind = IdKind.TASK) -> TransactionalIdOwner:
    place: Mapping[str, Any] = {"ordinal": 0, "task": 1} if kind is IdKind.TASK else {}
    return TransactionalIdOwner(
        kafka_cluster_id="k", transactional_id=name, pipeline="delayed-flights", kind=kind, **place
    )


def ids_page() -> str:
    made = cluster()
    made.enter(made.transactions.topic, ReadingPhase.LIVE, now_ms=NOW_MS)
    snapshot = made.snapshot(now_ms=NOW_MS)
    task_id = "fl.t.delayed-flights.0.1"
    items = (
        registered(task_id, IdStanding.OURS, owner=owner(task_id)),
        registered(
            "app-0_2",
            IdStanding.OURS,
            owner=owner("app-0_2", IdKind.IMPORTED),
            partitions=("flights-2", "flights-3"),
            contested="Used by producer 7 with epoch 5, which no task of delayed-flights has reported: the next start "
            "of either fences the other",
        ),
        registered(f"streams-{LONG}-0_1", IdStanding.FOREIGN),
        registered("fl.t.gone.0.0", IdStanding.ORPHANED, orphan=Orphan.NO_PIPELINE),
        registered(
            "app-0_9", IdStanding.ORPHANED, is_seen=False, orphan=Orphan.NO_MAPPING, owner=owner("x", IdKind.IMPORTED)
        ),
    )
    found = Registry(
        items=items,
        next_cursor=None,
        matching=len(items),
        tally=IdTally(ids=1_204, ours=38, foreign=1_165, orphaned=2, archived=0, unseen=1, contested=1),
        stale=(msgspec.structs.replace(samples.mapping(0), topic="flights.before", owner=None),),
        expiration_ms=7 * DAY_MS,
        expiration_problem="",
        journal=snapshot.transaction_journal,
    )
    growth = [IdCount(at=NOW - timedelta(hours=100 - n), ids=1_100 + n, ours=38, orphaned=2) for n in range(100)]
    wanted = id_registry.RegistrySelection()
    context: dict[str, Any] = {
        "clusters": ["demo"],
        "cluster": "demo",
        "wanted": wanted,
        "choices": {"only": (("", "all"), ("ours", "ours")), "sort": (("id", "by id"),)},
        "found": found,
        "rows": [id_registry._row(one) for one in items],  # pyright: ignore[reportPrivateUsage] - as above
        "expires_after": "7 days",
        "growth": growth,
        "growth_chart": id_growth_chart_of(growth),
        "reading": reading_of(snapshot, snapshot.transaction_journal, now=NOW),
        "pages": ListLinks(None, None),
        "all_url": "/mappings/ids",
        "contested_url": "/mappings/ids?only=contested",
    }
    assert wanted.query() == RegistryQuery()
    return rendered("id_registry/list", context, path="/mappings/ids")


def import_page() -> str:
    csv = f"flights,0,app-0_0\nflights,9,app-0_9\nflights,1,{LONG}\n,,app-9b1-1"
    partitions: dict[str, int | None] = {"flights": 4}
    facts = ImportFacts(
        pipeline="delayed-flights",
        group="g",
        partitions=partitions,
        assigned={},
        owners={},
        of_tasks={},
        in_use={"app-0_0": "It has a transaction open: its application runs, and a start would fence the application"},
    )
    plan = plan_of(lines_of(ImportWish(csv=csv), group="g", partitions=partitions), facts)
    context: dict[str, Any] = {
        "name": "delayed-flights",
        "imported": [{"id": LONG, "partitions": ["flights-3"]}, {"id": "app-0_2", "partitions": []}],
        "formulas": id_imports._CHOICES,  # pyright: ignore[reportPrivateUsage] - as above
        "meanings": id_imports._meanings(),  # pyright: ignore[reportPrivateUsage] - as above
        "values": dict.fromkeys((*id_imports._FIELDS, "why"), "") | {"csv": csv},  # pyright: ignore[reportPrivateUsage] - as above
        "problems": {},
        "plan": plan,
        "shown": plan.lines,
        "is_valid": False,
        "new": 4,
    }
    return rendered("id_imports/detail", context, path="/pipelines/delayed-flights/imported-ids")


PAGES: Mapping[str, Callable[[], str]] = {
    "mappings": list_page,
    "partition": partition_page,
    "ids": ids_page,
    "import": import_page,
}


@pytest.fixture
def page(browser: Browser) -> Generator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_every_window_and_are_accessible(page: Page, tmp_path: Path, name: str) -> None:
    for viewport in (NARROW, TABLET, WIDE):
        assert_fits(shown(page, PAGES[name](), tmp_path, viewport=viewport), what=name)
    assert_accessible(page, what=name)


def test_question_of_a_moment_is_asked_by_keyboard_alone(page: Page, tmp_path: Path) -> None:
    shown(page, list_page(), tmp_path, viewport=WIDE)
    page.keyboard.press("/")
    expect(page.get_by_label("Partition")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("At", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Show")).to_be_focused()


def test_time_without_an_owner_is_drawn(page: Page, tmp_path: Path) -> None:
    shown(page, partition_page(), tmp_path, viewport=WIDE)
    lanes = page.locator(".timeline .lane")
    expect(lanes).to_have_count(3)
    titles = lanes.nth(0).locator(".bar title").all_text_contents()
    assert [title.split(",")[0] for title in titles] == ["instance 0", "instance 0", "no owner", "instance 0"]


def test_growth_is_drawn(page: Page, tmp_path: Path) -> None:
    shown(page, ids_page(), tmp_path, viewport=WIDE)
    expect(page.locator("rate-chart canvas")).to_have_count(1)
    # The data span days, so a time alone is not enough.
    expect(page.locator("rate-chart .u-legend")).to_contain_text(re.compile(r"\d\d-\d\d \d\d:\d\d UTC"))
    expect(page.get_by_role("alert")).to_contain_text("1 contested id")
