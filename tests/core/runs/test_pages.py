"""The forms of a run's page, and their answers to a refusal."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.wiring import browser_of


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    """An operator's."""
    async with browser_of(wiring, Role.OPERATOR) as made:
        yield made


@pytest.fixture
async def viewer(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser_of(wiring, Role.VIEWER) as made:
        yield made


@pytest.mark.parametrize(
    ("word", "desired", "said"),
    [("pause", "pause", "pausing"), ("drain", "drain", "draining"), ("kill", "kill", "killing")],
)
async def test_a_form_asks_it_of_the_run_and_leads_to_the_pipeline(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient, word: str, desired: str, said: str
) -> None:
    run = await ControlPlane(database).running("flights")
    answer = await browser.post(f"/runs/{run.id}/{word}", data={"why": "because"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/pipelines/flights?said={said}")
    async with wiring.unit_of_work() as uow:
        assert (await uow.of(RunStore).get(run.id)).desired == desired
        commands = await uow.of(CommandStore).list(CommandFilter(), after=None, limit=5)
    assert commands.items[0].why == "because"


async def test_a_paused_run_is_resumed(wiring: Wiring, database: Database, browser: httpx.AsyncClient) -> None:
    run = await ControlPlane(database).running("flights")
    await browser.post(f"/runs/{run.id}/pause")
    answer = await browser.post(f"/runs/{run.id}/resume")
    assert answer.headers["location"].endswith("said=resuming")
    async with wiring.unit_of_work() as uow:
        assert (await uow.of(RunStore).get(run.id)).desired == "run"


@pytest.mark.parametrize(
    ("how", "said", "desired", "starts_again"),
    [("rolling", "rolling", "run", False), ("whole", "restarting", "drain", True)],
)
async def test_a_restart_is_one_at_a_time_or_as_a_whole(
    wiring: Wiring,
    database: Database,
    browser: httpx.AsyncClient,
    how: str,
    said: str,
    desired: str,
    starts_again: bool,
) -> None:
    run = await ControlPlane(database).running("flights", instances=2)
    answer = await browser.post(f"/runs/{run.id}/restart", data={"how": how, "why": "new hosts"})
    assert answer.headers["location"] == f"/pipelines/flights?said={said}"
    async with wiring.unit_of_work() as uow:
        now = await uow.of(RunStore).get(run.id)
    assert (now.desired, now.starts_again) == (desired, starts_again)
    assert (now.state == "bouncing") is (how == "rolling")
    shown = (await browser.get("/pipelines/flights")).text
    assert f">{now.state}</span>" in shown


async def test_a_drain_cannot_be_taken_back_and_the_page_says_why(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient
) -> None:
    run = await ControlPlane(database).running("flights")
    await browser.post(f"/runs/{run.id}/drain")
    refused = await browser.post(f"/runs/{run.id}/resume")
    assert refused.status_code == 409
    assert 'role="alert"' in refused.text
    # It is the run's own page, which goes on being live at its own address.
    assert f'hx-sse:connect="/runs/{run.id}/stream"' in refused.text


@pytest.mark.parametrize("word", ["pause", "resume", "drain", "kill", "restart"])
async def test_a_viewer_changes_nothing(
    wiring: Wiring, database: Database, viewer: httpx.AsyncClient, word: str
) -> None:
    run = await ControlPlane(database).running("flights")
    refused = await viewer.post(f"/runs/{run.id}/{word}")
    assert refused.status_code == 403
    assert "operator" in refused.text
    async with wiring.unit_of_work() as uow:
        assert (await uow.of(RunStore).get(run.id)).desired == "run"


async def test_opening_a_log_leaves_a_line_in_the_command_log(
    wiring: Wiring, database: Database, browser: httpx.AsyncClient, viewer: httpx.AsyncClient
) -> None:
    run = await ControlPlane(database).running("flights")
    shown = await browser.get(f"/runs/{run.id}?log=0.1")
    assert shown.status_code == 200
    async with wiring.unit_of_work() as uow:
        newest = (await uow.of(CommandStore).list(CommandFilter(target=f"run:{run.id}"), after=None, limit=1)).items[0]
    assert (newest.verb, newest.who) == ("read_log", "a-operator")
    assert (await viewer.get(f"/runs/{run.id}?log=0.1")).status_code == 403
