"""One server with real Kafka and Postgres for all browser tests, and a user who is logged in."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.main.products import PARTS
from app.products.demo.server import DemoServer
from app.products.demo.stage import sweep
from app.products.migrations.look import AuditNow
from tests.support.browser import Site, chromium, visitor_of
from tests.support.control_plane import ControlPlane
from tests.support.databases import create_database, drop_database
from tests.support.live_application import live_application
from tests.support.migrating import Migrating, played
from tests.support.topics import unique_name
from tests.support.walked import Walked

# Not FENCELINE_…: a driver gets none of these, and it is the drivers that are to be found by it.
_MARK = "TEST_OF_FENCELINE"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs Chromium."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    """One for all: Playwright cannot be started twice in a thread."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def site(
    kafka: KafkaCluster, postgres_server_url: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Site]:
    """A first start: no login yet, one cluster is registered, and there is no pipeline."""
    mark = unique_name("mark")
    database = create_database(postgres_server_url)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FENCELINE_")}
    server = DemoServer.start(
        folder=tmp_path_factory.mktemp("browser"),
        environment={**inherited, "FENCELINE_DATABASE_URL": database, _MARK: mark},
    )
    shots = os.environ.get("FENCELINE_TEST_SCREENSHOTS")
    try:
        server.register_cluster("demo", kafka.bootstrap_servers)
        yield Site(
            server=server,
            browser=browser,
            bootstrap_servers=kafka.bootstrap_servers,
            cluster="demo",
            shots=None if shots is None else Path(shots).absolute(),
        )
    finally:
        server.stop()
        sweep(_MARK, mark)
        drop_database(postgres_server_url, database)


@pytest.fixture(scope="session")
def logged_in(site: Site) -> Any:
    """The browser state of the administrator, who logs in by the link that the first start printed."""
    assert site.server.login_url is not None, "a first start gives a link"
    with site.visitor() as visitor:
        page = visitor.new_page()
        page.goto(site.server.login_url)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{site.url}/")
        state = visitor.storage_state()
        # Used up: the same link does not open the door again.
        visitor.clear_cookies()
        page.goto(site.server.login_url)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("alert").get_by_text("used already").wait_for()
    return state


@pytest.fixture
def page(site: Site, logged_in: Any) -> Generator[Page]:
    """A window of the administrator."""
    with site.visitor(storage=logged_in) as visitor:
        yield visitor.new_page()


@pytest.fixture
def walked(postgres_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Walked]:
    """A pipeline that may migrate; tasks, journals and brokers are played, pages and database real."""
    database_url = create_database(postgres_server_url)
    database = Database(database_url, parts=PARTS)

    async def begin(wiring: Wiring) -> Migrating:
        one = Migrating(ControlPlane(database, now=wiring.clock.now()), wiring.observations)
        played(wiring, one)
        await one.running()
        one.publish()
        one.audit_now = AuditNow(audit_id="", is_through=False)
        return one

    async def close(_: Wiring) -> None:
        await database.close()

    try:
        with live_application(database_url, tmp_path_factory.mktemp("walked")) as live:
            try:
                yield Walked(live, live.do(begin))
            finally:
                live.do(close)
    finally:
        drop_database(postgres_server_url, database_url)


@pytest.fixture
def walker(walked: Walked, browser: Browser) -> Generator[Page]:
    """A window on it of an administrator."""
    with visitor_of(browser, walked.live.url) as visitor:
        made = visitor.new_page()
        made.goto("/login")
        made.get_by_label("Token").fill(walked.live.token)
        made.keyboard.press("Enter")
        made.wait_for_url(f"{walked.live.url}/")
        yield made
