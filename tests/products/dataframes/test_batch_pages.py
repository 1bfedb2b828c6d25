"""The page of a query's batches, and its section on the pipeline's page."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta

import httpx
import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from app.products.dataframes.wire import BatchProgress, QueryState
from tests.support.control_plane import ControlPlane
from tests.support.queries import QUERY, progress, report, running_query, send
from tests.support.wiring import browser_of

PAGE = "/pipelines/flights/batches"


async def reported(
    wiring: Wiring, database: Database, *batches: BatchProgress, state: QueryState = QueryState.RUNNING
) -> ControlPlane:
    """A query whose driver has reported just now."""
    plane = ControlPlane(database)
    plane.now = wiring.clock.now()
    run = await running_query(plane)
    sent_at_ms = round(plane.now.timestamp() * 1000)
    await send(plane, report(run.id, *batches, state=state, sent_at_ms=sent_at_ms))
    return plane


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser_of(wiring, Role.VIEWER) as made:
        yield made


async def shown(browser: httpx.AsyncClient, path: str = PAGE) -> str:
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def recent(wiring: Wiring, numbers: Sequence[int]) -> list[BatchProgress]:
    now = wiring.clock.now()
    return [progress(number, ended_at=now - timedelta(seconds=numbers[-1] - number)) for number in numbers]


async def test_page_shows_state_rates_charts_and_batches(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    await reported(wiring, database, *recent(wiring, range(8)))
    html = await shown(browser)
    assert re.search(r'<span class="pill good"[^>]*>running</span>', html)
    assert "A batch is running." in html
    assert html.count("<g><title>Batch ") == 8
    assert 'class="limit"' in html
    assert html.count("<rate-chart") == 2
    for head in ("Newest batch", "Rows in per second", "Rows out per second", "Watermark age", "State", "Late rows"):
        assert f"<dt>{head}</dt>" in html
    assert "2.0 MB" in html
    assert "trigger interval, 1 s" in html
    assert 'id="batch-5b0c6f6e-7"' in html
    assert "/pipelines/flights/batches/stream" in html


async def test_every_figure_and_column_has_its_definition(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    await reported(wiring, database, *recent(wiring, range(3)))
    html = await shown(browser)
    assert len(re.findall(r'<dl class="stat[^"]*" title="', html)) == html.count('<dl class="stat')
    head = html[html.index("<thead") : html.index("</thead>")]
    assert head.count("<th") == head.count("<th ") + 1  # thead itself
    assert head.count('title="') == len(re.findall(r"<th[ >]", head))
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


async def test_stateless_query_shows_no_state_and_no_watermark(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    without = {"state_rows": None, "state_bytes": None, "late_rows": None, "watermark_ms": None}
    now = wiring.clock.now()
    await reported(wiring, database, *(progress(number, ended_at=now, **without) for number in (0, 1)))
    html = await shown(browser)
    assert "<dt>State</dt>" not in html
    assert "<dt>Late rows</dt>" not in html
    assert "no watermark" in html
    assert "<rate-chart" not in html


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (QueryState.STARTING, "fences older producers"),
        (QueryState.WAITING, "waits for new records"),
        (QueryState.HELD, "The next batch is not begun"),
    ],
)
async def test_state_without_batches(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient, state: QueryState, words: str
) -> None:
    await reported(wiring, database, state=state)
    html = await shown(browser)
    assert words in html
    assert "The first batch appears when it is committed." in html
    assert "<dt>Newest batch</dt>" not in html


async def test_empty_page_says_the_next_step(database: Database, browser: httpx.AsyncClient) -> None:
    plane = ControlPlane(database)
    await plane.pipeline("flights", transform=QUERY)
    assert "Start the pipeline; its batches appear here" in await shown(browser)
    await plane.run("flights")
    assert "Spark needs some seconds to start" in await shown(browser)


async def test_driver_without_reports_is_a_warning_and_has_no_rates(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    plane = ControlPlane(database)
    plane.now = wiring.clock.now() - timedelta(minutes=5)
    run = await running_query(plane)
    await send(plane, report(run.id, progress(0, ended_at=plane.now)))
    html = await shown(browser)
    assert '<p class="notice warn">No report from the driver for' in html
    assert re.search(r"<dt>Rows in per second</dt><dd>–</dd>", html)


async def test_older_batches_are_on_the_next_page(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    await reported(wiring, database, *recent(wiring, range(30)))
    first = await shown(browser)
    found = re.search(r'rel="next" href="([^"]+)"', first)
    assert found is not None
    second = await shown(browser, found.group(1).replace("&amp;", "&"))
    assert 'id="batch-5b0c6f6e-4"' in second
    assert 'id="batch-5b0c6f6e-29"' not in second
    assert "/batches/stream" not in second


async def test_pipelines_page_has_the_section_and_the_tab(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    plane = await reported(wiring, database, *recent(wiring, range(3)))
    html = await shown(browser, "/pipelines/flights")
    assert f'<a href="{PAGE}">Batches</a>' in html
    assert "<h2>Query</h2>" in html
    assert "<dt>Watermark age</dt>" in html
    await plane.pipeline("plain")
    other = await shown(browser, "/pipelines/plain")
    assert "/pipelines/plain/batches" not in other
    assert "<h2>Query</h2>" not in other
    # A query reports no offsets: its checkpoint has them.
    assert "<h2>Offset log</h2>" in other
    assert "<h2>Offset log</h2>" not in html


async def test_names_from_a_driver_are_escaped(wiring: Wiring, database: Database, browser: httpx.AsyncClient) -> None:
    plane = ControlPlane(database)
    plane.now = wiring.clock.now()
    run = await running_query(plane)
    await send(plane, report(run.id, progress(0), query_id='"><script>xss</script>'))
    assert "<script>xss" not in await shown(browser)


async def test_unknown_pipeline_is_not_found(browser: httpx.AsyncClient) -> None:
    assert (await browser.get(PAGE)).status_code == 404
