"""The pages of audits, drills and the offset log: every state of them, and what is asked for by keyboard."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, cast

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.products import PARTS
from app.products.drills.drill import Drill
from tests.support.audit_states import add_audits
from tests.support.browser import NARROW, WIDE, assert_accessible, assert_fits, visitor_of
from tests.support.control_plane import ControlPlane, task_heartbeat
from tests.support.databases import create_database, drop_database
from tests.support.drill_states import DRILLED, add_drill, add_drills, disturbing, end_drill
from tests.support.live_application import LiveApplication, live_application
from tests.support.offset_log_states import add_offset_logs

_MOST_TABS = 80
_PUSHED_TABLES = """
() => [...document.querySelectorAll(".table-wrap")]
  .filter((wrap) => wrap.scrollWidth > wrap.clientWidth)
  .map((wrap) => wrap.querySelector("table").id)
"""


class Verified(NamedTuple):
    """An application whose database holds every state, and the address of each, by noun."""

    live: LiveApplication
    plane: ControlPlane
    addresses: Mapping[str, Mapping[str, str]]


@pytest.fixture(scope="module")
def verified(postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Verified]:
    database_url = create_database(postgres_server_url)
    try:
        with live_application(database_url, tmp_path_factory.mktemp("verified")) as live:
            yield from _filled(live, Database(database_url, parts=PARTS))
    finally:
        drop_database(postgres_server_url, database_url)


def _filled(live: LiveApplication, database: Database) -> Generator[Verified]:
    async def fill(wiring: Wiring) -> Verified:
        plane = ControlPlane(database, now=wiring.clock.now() - timedelta(minutes=10))
        addresses = {
            "audits": await add_audits(plane),
            "drills": await add_drills(plane),
            "offset logs": await add_offset_logs(plane, wiring.observations),
        }
        return Verified(live, plane, addresses)

    async def close(_: Wiring) -> None:
        await database.close()

    try:
        yield live.do(fill)
    finally:
        live.do(close)


@pytest.fixture(scope="module")
def page(verified: Verified, browser: Browser) -> Generator[Page]:
    """The window of an administrator, one for all: logging in is no part of what is shown."""
    with visitor_of(browser, verified.live.url) as visitor:
        made = visitor.new_page()
        made.goto("/login")
        made.get_by_label("Token").fill(verified.live.token)
        made.keyboard.press("Enter")
        made.wait_for_url(f"{verified.live.url}/")
        yield made


def look_at(page: Page, address: str, *, what: str) -> None:
    page.set_viewport_size(cast(Any, WIDE))
    response = page.goto(address)
    assert response is not None
    assert response.ok, f"{what}: {response.status}"
    assert_accessible(page, what=what)
    assert page.evaluate(_PUSHED_TABLES) == [], f"{what}: columns are out of sight"
    page.set_viewport_size(cast(Any, NARROW))
    assert_fits(page, what=f"{what} on a phone")


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until `target` has the focus, as a user without a mouse does."""
    for _ in range(_MOST_TABS):
        page.keyboard.press("Tab")
        if target.evaluate("(element) => element === document.activeElement"):
            return
    pytest.fail(f"{target} is not reached by keyboard in {_MOST_TABS} steps")


@pytest.mark.parametrize("noun", ["audits", "drills", "offset logs"])
def test_every_state_is_accessible_and_as_wide_as_the_window(verified: Verified, page: Page, noun: str) -> None:
    for what, address in verified.addresses[noun].items():
        look_at(page, address, what=what)


def test_every_drill_that_is_at_it_is_accessible_and_as_wide_as_the_window(verified: Verified, page: Page) -> None:
    plane = verified.plane
    for what, drill in disturbing().items():

        async def add(_: Wiring, drill: Drill = drill) -> str:
            async with plane.uow() as uow:
                run = await uow.of(RunStore).find_live(DRILLED)
            assert run is not None
            return await add_drill(plane, run, drill)

        address = verified.live.do(add)
        look_at(page, address, what=f"drill, {what}")
        verified.live.do(partial(_end, plane, address))


async def _end(plane: ControlPlane, address: str, _: Wiring) -> None:
    await end_drill(plane, address)


def test_an_audit_is_asked_for_and_stopped_by_keyboard(verified: Verified, page: Page) -> None:
    async def add(_: Wiring) -> None:
        await verified.plane.pipeline("asked")

    verified.live.do(add)
    page.set_viewport_size(cast(Any, WIDE))
    page.goto("/pipelines/asked/audits")
    tab_to(page, page.get_by_label("From"))
    tab_to(page, page.locator("#id_place"))
    page.keyboard.type("key")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/audits/[0-9a-f-]{36}"))
    expect(page.locator(".title .pill")).to_have_text("pending")
    tab_to(page, page.locator("#act-stop summary"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Reason"))
    assert_accessible(page, what="the form that stops an audit")
    page.keyboard.type("enough")
    page.keyboard.press("Enter")
    expect(page.locator(".title .pill")).to_have_text("stopped")
    expect(page.locator("#sentence")).to_contain_text("enough")
    expect(page.locator("#act-stop")).to_have_count(0)


def test_a_drill_is_ordered_and_stopped_by_keyboard(verified: Verified, page: Page) -> None:
    async def add(wiring: Wiring) -> None:
        # A drill uses heartbeats of the last seconds.
        plane = ControlPlane(verified.plane.database, now=wiring.clock.now())
        run = await plane.running("rehearsed", instances=2, allows_drills=True)
        for ordinal in (0, 1):
            await plane.beat(task_heartbeat(run.id, ordinal=ordinal))

    page.set_viewport_size(cast(Any, WIDE))
    verified.live.do(add)
    page.goto("/pipelines/rehearsed/drills")
    tab_to(page, page.locator("#freeze-ordinal"))
    tab_to(page, page.locator("#freeze-why"))
    page.keyboard.type("rehearsal")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/drills/[0-9a-f-]{36}"))
    expect(page.locator(".title .pill")).to_have_text("ordered")
    tab_to(page, page.locator("#act-stop summary"))
    page.keyboard.press("Enter")
    tab_to(page, page.locator("#why-stop"))
    assert_accessible(page, what="the form that stops a drill")
    page.keyboard.press("Enter")
    expect(page.locator(".title .pill")).to_have_text("stopped")
    expect(page.locator("#happened")).to_contain_text("stops the drill")
    expect(page.locator("#act-stop")).to_have_count(0)
