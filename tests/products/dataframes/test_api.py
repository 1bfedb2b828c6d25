"""Queries and batches over REST, as metrics, and as the command prints them."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from rich.console import Console

from app.core.runs.run import RunEnd
from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from app.products.dataframes.cli import rendered
from app.products.dataframes.wire import QueryState
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import AsRole
from tests.support.queries import QUERY, QUERY_ID, progress, report, running_query, send

API = "/api/v1/pipelines/flights"


@pytest.fixture
async def viewer(as_role: AsRole) -> httpx.AsyncClient:
    return await as_role(Role.VIEWER)


@pytest.fixture
def plane(database: Database, api_wiring: Wiring) -> ControlPlane:
    made = ControlPlane(database)
    made.now = api_wiring.clock.now()
    return made


async def with_batches(plane: ControlPlane, number: int = 5) -> str:
    """A query that has reported this many batches, a second apart; the run's id."""
    run = await running_query(plane)
    batches = [progress(one, ended_at=plane.now - timedelta(seconds=number - 1 - one)) for one in range(number)]
    await send(plane, report(run.id, *batches, sent_at_ms=round(plane.now.timestamp() * 1000)))
    return run.id


def printed(found: dict[str, object]) -> str:
    console = Console(width=400)
    with console.capture() as capture:
        console.print(rendered(found))
    return capture.get()


async def test_batches_are_listed_by_pages(plane: ControlPlane, viewer: httpx.AsyncClient) -> None:
    run_id = await with_batches(plane)
    first = (await viewer.get(f"{API}/batches", params={"limit": 2})).json()
    assert [one["batch"] for one in first["items"]] == [4, 3]
    newest = first["items"][0]
    assert (newest["run_id"], newest["query_id"], newest["trigger_ms"]) == (run_id, QUERY_ID, 900)
    assert newest["lengths_ms"] == {"offsets": 50, "planning": 50, "adding": 600, "committing": 100, "other": 100}
    assert newest["parts_ms"]["addBatch"] == 600
    rest = (await viewer.get(f"{API}/batches", params={"after": first["next_cursor"]})).json()
    assert [one["batch"] for one in rest["items"]] == [2, 1, 0]
    assert rest["next_cursor"] is None
    wrong = await viewer.get(f"{API}/batches", params={"after": "x"})
    assert wrong.status_code == 422


async def test_query_has_state_rates_and_watermark(plane: ControlPlane, viewer: httpx.AsyncClient) -> None:
    await with_batches(plane)
    found = (await viewer.get(f"{API}/query")).json()
    assert (found["state"], found["is_reporting"], found["is_live"]) == ("running", True, True)
    assert found["trigger_interval_ms"] == 1_000
    assert found["newest"]["batch"] == 4
    assert 500 < found["input_rows_per_s"] < 1_100
    assert found["watermark_age_ms"] >= 600_000
    assert found["sentence"] == "A batch is running."


async def test_pipeline_without_reports_or_without_a_query(plane: ControlPlane, viewer: httpx.AsyncClient) -> None:
    await plane.pipeline("flights", transform=QUERY)
    await plane.pipeline("plain")
    found = (await viewer.get(f"{API}/query")).json()
    assert (found["state"], found["status"], found["newest"]) == (None, None, None)
    assert (await viewer.get("/api/v1/pipelines/plain/query")).json()["trigger_interval_ms"] is None
    assert (await viewer.get(f"{API}/batches")).json()["items"] == []
    for path in ("query", "batches"):
        assert (await viewer.get(f"/api/v1/pipelines/missing/{path}")).status_code == 404
    text = printed({"query": found, "batches": []})
    assert "Never started." in text
    assert "No batches yet." in text


async def test_command_prints_the_state_and_a_row_for_each_batch(
    plane: ControlPlane, viewer: httpx.AsyncClient
) -> None:
    await with_batches(plane)
    query = (await viewer.get(f"{API}/query")).json()
    batches = (await viewer.get(f"{API}/batches")).json()["items"]
    text = printed({"query": query, "batches": batches})
    lines = [re.sub(r" +", " ", line).strip() for line in text.splitlines()]
    assert lines[0] == "running A batch is running."
    assert "median duration 900 ms, trigger 1 s" in lines[1]
    assert "watermark age 10 min" in lines[1]
    assert "BATCH STARTED DURATION OFFSETS PLANNING ADDING COMMITTING OTHER IN OUT STATE LATE WATERMARK" in lines
    row = next(line for line in lines if line.startswith("4 "))
    assert "900 ms 50 ms 50 ms 600 ms 100 ms 100 ms 1,000 10 2.0 MB 0" in row


async def test_metrics_are_of_queries_with_a_live_run(plane: ControlPlane, viewer: httpx.AsyncClient) -> None:
    run_id = await with_batches(plane)
    await plane.pipeline("plain")
    text = (await viewer.get("/metrics")).text
    for line in (
        'fenceline_query_state{pipeline="flights",state="running"} 1.0',
        'fenceline_query_state{pipeline="flights",state="held"} 0.0',
        'fenceline_query_batch{pipeline="flights"} 4.0',
        'fenceline_query_batch_duration_seconds{part="adding",pipeline="flights"} 0.6',
        'fenceline_query_batch_duration_seconds{part="other",pipeline="flights"} 0.1',
        'fenceline_query_input_rows{pipeline="flights"} 1000.0',
        'fenceline_query_output_rows{pipeline="flights"} 10.0',
        'fenceline_query_state_bytes{pipeline="flights"} 2e+06',
        'fenceline_query_late_rows{pipeline="flights"} 0.0',
    ):
        assert line in text
    age = re.search(r'fenceline_query_watermark_age_seconds\{pipeline="flights"\} (\S+)', text)
    assert age is not None
    assert float(age.group(1)) >= 600
    assert 'fenceline_query_state{pipeline="plain"' not in text
    async with plane.uow() as uow:
        await uow.of(RunStore).end(run_id, end=RunEnd.STOPPED, reason=None, now=plane.now)
        await uow.commit()
    assert 'fenceline_query_batch{pipeline="flights"}' not in (await viewer.get("/metrics")).text


async def test_new_query_without_a_batch_has_its_state_only(plane: ControlPlane, viewer: httpx.AsyncClient) -> None:
    run = await running_query(plane)
    await send(plane, report(run.id, state=QueryState.STARTING))
    text = (await viewer.get("/metrics")).text
    assert 'fenceline_query_state{pipeline="flights",state="starting"} 1.0' in text
    assert 'fenceline_query_batch{pipeline="flights"}' not in text
