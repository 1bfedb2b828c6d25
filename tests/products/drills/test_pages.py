"""The pages of drills: start, observe and stop, with permission."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane, task_heartbeat
from tests.support.queries import QUERY
from tests.support.wiring import browser_of, settings_for_test, wired


@pytest.fixture
async def wiring(database: Database, tmp_path: Path) -> AsyncGenerator[Wiring]:
    async with wired(database.url, settings_for_test(tmp_path)) as made:
        yield made


async def running(database: Database, wiring: Wiring, *, allows_drills: bool = True) -> None:
    await ControlPlane(database, now=wiring.clock.now()).running(instances=2, allows_drills=allows_drills)


async def heard(database: Database, wiring: Wiring) -> None:
    """Send heartbeats of both tasks now: these pages use the real clock, and a drill requires recent heartbeats."""
    plane = ControlPlane(database, now=wiring.clock.now())
    async with plane.uow() as uow:
        run = await uow.of(RunStore).find_live("flights")
    assert run is not None
    for ordinal in (0, 1):
        await plane.beat(task_heartbeat(run.id, ordinal=ordinal))


FREEZE = {"kind": "freeze_instance", "ordinal": "1", "for_s": "20", "why": "rehearsal <b>"}


async def test_drill_is_started_observed_and_stopped_on_its_pages(database: Database, wiring: Wiring) -> None:
    await running(database, wiring)
    async with browser_of(wiring, Role.OPERATOR) as browser:
        assert "/pipelines/flights/drills" in (await browser.get("/pipelines/flights/more")).text
        before = (await browser.get("/pipelines/flights/drills")).text
        assert "No drills yet" in before
        assert before.count("<form") >= 3
        await heard(database, wiring)
        ordered = await browser.post("/pipelines/flights/drills", data=FREEZE)
        assert ordered.status_code == 303, ordered.text
        found = re.fullmatch(r"/drills/([0-9a-f-]{36})\?said=drill-ordered", ordered.headers["location"])
        assert found is not None
        page = (await browser.get(ordered.headers["location"])).text
        for said in (
            "freeze instance 1 of flights for 20 s",
            "to other members",
            "4711 on w1",
            "expected at most 23 s",
            "rehearsal &lt;b&gt;",
            "counted by the final audit",
            "It begins within a second or two",
        ):
            assert said in page, said
        assert "One drill at a time" in (await browser.get("/pipelines/flights/drills")).text
        refused = await browser.post("/pipelines/flights/drills", data=FREEZE)
        assert (refused.status_code, "one drill at a time" in refused.text) == (409, True)
        stopped = await browser.post(f"/drills/{found[1]}/stop", data={"why": "enough"})
        assert stopped.headers["location"] == f"/drills/{found[1]}?said=drill-stopped"
        page = (await browser.get(f"/drills/{found[1]}")).text
        assert "stopped by" in page
        assert 'id="act-stop"' not in page
        assert (await browser.post(f"/drills/{found[1]}/stop")).status_code == 409
        assert "not audited" in page
        assert (await browser.get("/drills/nonsense")).status_code == 404


async def test_viewer_can_observe_and_not_start(database: Database, wiring: Wiring) -> None:
    await running(database, wiring)
    async with browser_of(wiring, Role.VIEWER) as browser:
        page = (await browser.get("/pipelines/flights/drills")).text
        assert "Drills require the role operator" in page
        assert "drill-freeze" not in page
        assert (await browser.post("/pipelines/flights/drills", data=FREEZE)).status_code == 403


async def test_page_without_permission_names_the_next_step(database: Database, wiring: Wiring) -> None:
    await running(database, wiring, allows_drills=False)
    async with browser_of(wiring, Role.OPERATOR) as browser:
        page = (await browser.get("/pipelines/flights/drills")).text
        assert "Drills are not allowed here" in page
        assert "drill-freeze" not in page
        refused = await browser.post("/pipelines/flights/drills", data=FREEZE)
        assert (refused.status_code, "does not allow drills" in refused.text) == (409, True)
        assert "/pipelines/flights/drills" not in (await browser.get("/pipelines/flights/more")).text


async def test_page_of_a_query_names_its_driver(database: Database, wiring: Wiring) -> None:
    plane = ControlPlane(database, now=wiring.clock.now())
    run = await plane.running(transform=QUERY, allows_drills=True)
    await plane.beat(task_heartbeat(run.id))
    async with browser_of(wiring, Role.OPERATOR) as browser:
        page = (await browser.get("/pipelines/flights/drills")).text
        for said in ("Freeze the driver", "Kill the driver", "From 10 s on, the session timeout"):
            assert said in page, said
        assert "Spark retries the tasks" not in page
        sent = await browser.post("/pipelines/flights/drills", data={**FREEZE, "ordinal": "0"})
        page = (await browser.get(sent.headers["location"].partition("?")[0])).text
        assert "the driver · lease 1" in page
        assert "Drill: freeze the driver of flights" in page


async def test_page_without_a_run_has_no_drill(database: Database, wiring: Wiring) -> None:
    await ControlPlane(database, now=wiring.clock.now()).pipeline(allows_drills=True)
    async with browser_of(wiring, Role.OPERATOR) as browser:
        assert "No run" in (await browser.get("/pipelines/flights/drills")).text
        assert (await browser.get("/pipelines/nobody/drills")).status_code == 404
