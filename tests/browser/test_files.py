"""The pages of files: every state of them, in both colours, on a phone, by keyboard, and live."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from playwright.sync_api import Browser, Page, expect

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.products import PARTS
from app.products.files.orphan_findings import Amount, Collected
from app.products.files.orphan_look import OrphanLook, OrphanResult
from tests.browser.test_verification_pages import look_at, tab_to
from tests.support import orphans
from tests.support.browser import NARROW, WIDE, visitor_of
from tests.support.control_plane import ControlPlane
from tests.support.databases import create_database, drop_database
from tests.support.file_states import LONGEST, add_files
from tests.support.kept_files import PLACE, take
from tests.support.live_application import LiveApplication, live_application
from tests.support.written_files import SINK, message, portion, reference


class Shown(NamedTuple):
    """An application whose database has every state of files, and the address of each."""

    live: LiveApplication
    plane: ControlPlane
    addresses: Mapping[str, str]


@pytest.fixture(scope="module")
def shown(postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Shown]:
    database_url = create_database(postgres_server_url)
    try:
        with live_application(database_url, tmp_path_factory.mktemp("files")) as live:
            database = Database(database_url, parts=PARTS)

            async def fill(wiring: Wiring) -> Shown:
                plane = ControlPlane(database, now=wiring.clock.now() - timedelta(seconds=3))
                return Shown(live, plane, await add_files(plane))

            async def close(_: Wiring) -> None:
                await database.close()

            try:
                yield live.do(fill)
            finally:
                live.do(close)
    finally:
        drop_database(postgres_server_url, database_url)


@pytest.fixture(scope="module")
def page(shown: Shown, browser: Browser) -> Generator[Page]:
    """The window of an administrator, one for all: logging in is no part of what is shown."""
    with visitor_of(browser, shown.live.url) as visitor:
        made = visitor.new_page()
        made.goto("/login")
        made.get_by_label("Token").fill(shown.live.token)
        made.keyboard.press("Enter")
        made.wait_for_url(f"{shown.live.url}/")
        yield made


def test_every_state_is_accessible_and_as_wide_as_the_window(shown: Shown, page: Page) -> None:
    for what, address in shown.addresses.items():
        look_at(page, address, what=what)
        _picture(page, what)


def _picture(page: Page, what: str) -> None:
    """Where FENCELINE_TEST_SCREENSHOTS names a folder."""
    folder = os.environ.get("FENCELINE_TEST_SCREENSHOTS")
    if folder is None:
        return
    for name, size, scheme in (("wide", WIDE, "light"), ("dark", WIDE, "dark"), ("phone", NARROW, "light")):
        page.set_viewport_size(cast(Any, size))
        page.emulate_media(color_scheme=cast(Any, scheme))
        page.screenshot(path=Path(folder) / f"{what.replace(' ', '-')}-{name}.png", full_page=True)
    page.emulate_media(color_scheme="light")


def test_names_without_a_place_to_break_are_whole_somewhere(shown: Shown, page: Page) -> None:
    page.set_viewport_size(cast(Any, NARROW))
    page.goto(shown.addresses["files, long names"])
    expect(page.locator("#files tbody tr")).to_have_count(20)
    first = page.locator("#files tbody tr").first
    copied = first.locator("button.copy").first.get_attribute("data-copy")
    assert copied is not None
    assert LONGEST in copied
    assert copied.startswith(SINK.root)


def test_files_are_chosen_by_keyboard(shown: Shown, page: Page) -> None:
    page.set_viewport_size(cast(Any, WIDE))
    page.goto(shown.addresses["files"])
    expect(page.locator("#files tbody tr")).to_have_count(20)
    summary = page.locator("details.choose summary")
    if not page.locator("#partition-1").is_visible():
        tab_to(page, summary)
        page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Partition value"))
    page.keyboard.type("user=vera")
    page.keyboard.press("Enter")
    page.wait_for_url("**/files?partition=user%3Dvera")
    expect(page.locator("#files tbody tr")).to_have_count(5)
    page.goto("/pipelines/files-well/files?partition=vera")
    expect(page.get_by_role("alert")).to_contain_text("column=value")
    expect(page.locator("#files tbody tr")).to_have_count(20)


def test_partition_leads_to_its_files(shown: Shown, page: Page) -> None:
    page.set_viewport_size(cast(Any, WIDE))
    page.goto(shown.addresses["files"])
    page.locator("#partitions").get_by_role("link", name="user=otto, date=2026-01-01").click()
    expect(page.locator("#files tbody tr")).to_have_count(5)
    expect(page.locator("h2").first).to_contain_text("user=otto")


def test_file_appears_as_it_is_referenced(shown: Shown, page: Page) -> None:
    async def begin(_: Wiring) -> None:
        await shown.plane.pipeline("files-coming", files=SINK, sink_topic="coming")

    async def come(wiring: Wiring) -> None:
        shown.plane.now = wiring.clock.now()
        sent = message(0, reference(0, user="mira", pipeline="files-coming"))
        await take(shown.plane, portion(sent), pipeline="files-coming", place=PLACE._replace(topic="coming"))

    shown.live.do(begin)
    page.set_viewport_size(cast(Any, WIDE))
    page.goto("/pipelines/files-coming/files")
    expect(page.get_by_text("No files yet")).to_be_visible()
    shown.live.do(come)
    expect(page.locator("#files")).to_contain_text("user=mira")
    expect(page.locator(".facts .pill").first).to_have_text("live")


def test_orphan_scan_and_collection_show_their_progress(shown: Shown, page: Page) -> None:
    async def begin(_: Wiring) -> None:
        await shown.plane.pipeline("files-asked", files=SINK, sink_topic="asked")

    async def at_work(wiring: Wiring) -> OrphanLook:
        shown.plane.now = wiring.clock.now()
        newest = (await orphans.known(shown.plane, "files-asked")).newest
        assert newest is not None
        found = await orphans.begun(shown.plane, newest)
        assert found is not None
        await orphans.told(shown.plane, found[0], "812 files; waiting")
        return found[0]

    def end(look: OrphanLook, result: OrphanResult) -> None:
        async def ended(wiring: Wiring) -> None:
            shown.plane.now = wiring.clock.now()
            assert await orphans.ended(shown.plane, look, result)

        shown.live.do(ended)

    shown.live.do(begin)
    page.set_viewport_size(cast(Any, WIDE))
    page.goto("/pipelines/files-asked/files")
    section = page.locator("#orphans")
    expect(section).to_contain_text("not scanned yet")
    section.get_by_role("button", name="Scan for orphans").click()
    expect(section).to_contain_text("waiting for a server")
    look = shown.live.do(at_work)
    expect(section).to_contain_text("812 files; waiting")
    end(look, OrphanResult(findings=orphans.findings(shown.plane.now, orphans=3, name="files-asked")))
    expect(section.locator("#oldest-orphans tbody tr")).to_have_count(3)
    tab_to(page, section.locator("details.action summary"))
    page.keyboard.press("Enter")
    form = section.locator("details.action form")
    expect(form).to_contain_text("Deletes 3 files (74 kB)")
    _picture(page, "orphans, to be collected")
    page.set_viewport_size(cast(Any, WIDE))
    form.get_by_label("Reason").fill("the bucket is full")
    form.get_by_role("button", name="Collect").click()
    expect(section).to_contain_text("collection by")
    collection = shown.live.do(at_work)
    collected = Collected(deleted=Amount(files=3, size_bytes=74_070), aborted_uploads=0)
    end(collection, OrphanResult(findings=orphans.findings(shown.plane.now), collected=collected))
    expect(section).to_contain_text("deleted 3 files (74 kB)")
    expect(section).to_contain_text("No orphans")
    page.goto("/commands")
    expect(page.locator("tbody tr", has_text="the bucket is full").first).to_contain_text("3 files")


def test_pipeline_of_records_has_no_tab(shown: Shown, page: Page) -> None:
    async def add(_: Wiring) -> None:
        await shown.plane.pipeline("plain-records", sink_topic="plain")

    shown.live.do(add)
    page.goto("/pipelines/plain-records")
    expect(page.get_by_role("link", name="Audits", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Files", exact=True)).to_have_count(0)
    response = page.goto("/pipelines/plain-records/files")
    assert response is not None
    assert response.status == 404
