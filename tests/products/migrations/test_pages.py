"""A migration is planned, started, watched, paused, rolled back and aborted on its pages, with permission only."""

from __future__ import annotations

import html
import re

import pytest

from app.core.clusters.cluster import GroupMember
from app.core.runs.instance import InstanceState
from app.core.runs.mode import DEFINED_BY, Mode
from app.core.runs.run import DesiredRunState
from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from app.products.migrations.look import AuditNow
from app.products.migrations.migration import MigrationState, Stage
from tests.support.control_plane import ControlPlane
from tests.support.migrating import Migrating, id_of, played
from tests.support.wiring import browser_of

A, C = Mode.GROUP_ONLY, Mode.V2
FIELDS = dict(zip(("processing_guarantee", "offset_fencing"), DEFINED_BY[C], strict=True))


@pytest.fixture
async def migrating(wiring: Wiring, database: Database) -> Migrating:
    one = Migrating(ControlPlane(database, now=wiring.clock.now()), wiring.observations)
    played(wiring, one)
    await one.running()
    return one


async def test_a_migration_is_planned_begun_and_watched_to_its_end(wiring: Wiring, migrating: Migrating) -> None:
    migrating.publish()
    async with browser_of(wiring, Role.OPERATOR) as browser:
        assert "/pipelines/flights/migrations" in (await browser.get("/pipelines/flights/more")).text
        before = (await browser.get("/pipelines/flights/migrations")).text
        assert "No migration yet" in before
        assert "Plan to exactly_once_v2" in before
        plan = (await browser.get("/pipelines/flights/migrations/plan?goal=v2")).text
        for said in (
            "bounce instance 1 from generation to v2",
            "fence and archive 2 ids of partitions",
            'data-glow="preflight-brokers">proven<',
        ):
            assert said in plan, said
        form = {"goal": "v2", "why": "to see <b>"}
        begun = await browser.post("/pipelines/flights/migrations", data=form)
        assert begun.status_code == 303, begun.text
        found = re.fullmatch(r"/migrations/([0-9a-f-]{36})\?said=migration-begun", begun.headers["location"])
        assert found is not None
        address = f"/migrations/{found[1]}"
        page = (await browser.get(address)).text
        for said in ("to see &lt;b&gt;", 'aria-current="step">◐ preflight', "Abort: nothing has changed yet."):
            assert said in page, said
        assert 'id="act-rollback"' not in page
        assert (await browser.post("/pipelines/flights/migrations", data=form)).status_code == 409
        migration = await migrating.newest()
        migrating.audit_now = AuditNow(audit_id="", is_through=True, problem="no plan")
        for stage in (Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY):
            await migrating.until(migration, lambda seen, stage=stage: seen.stage is stage)
            page = (await browser.get(address)).text
            assert f'aria-current="step">◐ {stage.words}' in page
            assert 'id="act-rollback"' in page
            assert "Fenceline's fence, step 5" in page or stage is not Stage.VERIFY
        migrating.audit_now = AuditNow(audit_id="a1", is_through=True, expected=4)
        await migrating.until(migration, lambda seen: seen.state is MigrationState.DONE)
        page = (await browser.get(address)).text
        assert "✔ verify" in page
        assert 'id="act-abort"' not in page
        evidence = (await browser.get(f"{address}/evidence")).text
        assert id_of(A, 0) in evidence
        assert "task 0.0, lease 2, process 4711 on w1" in evidence
        assert "3 @ 41" in evidence
        assert address in (await browser.get("/migrations")).text
        after = (await browser.get("/pipelines/flights/migrations")).text
        assert "no migration is needed" in after
        assert "button primary" not in after, "a downgrade is never the primary action"
        back = (await browser.get("/pipelines/flights/migrations/plan?goal=generation")).text
        assert 'button primary">Start' not in back


async def test_stopped_pipeline_has_a_way_forward(wiring: Wiring, database: Database) -> None:
    plane = ControlPlane(database, now=wiring.clock.now())
    await plane.cluster()
    await plane.pipeline("flights")
    async with browser_of(wiring, Role.OPERATOR) as browser:
        page = (await browser.get("/pipelines/flights/migrations")).text
        assert 'action="/pipelines/flights/start"' in page
        for mode in Mode:
            assert mode.meaning in html.unescape(page)


async def test_it_is_paused_resumed_rolled_back_and_aborted_by_forms(wiring: Wiring, migrating: Migrating) -> None:
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.stage is Stage.FIRST_BOUNCE)
    address = f"/migrations/{migration.id}"
    async with browser_of(wiring, Role.OPERATOR) as browser:
        for verb, data, said in (
            ("pause", {"why": "lunch"}, "Paused: no step begins"),
            ("resume", {}, "Resumed. The missing"),
            ("rollback", {"to": "group_only"}, "◐ back to generation"),
            ("abort", {"why": "enough"}, "Aborted."),
        ):
            answer = await browser.post(f"{address}/{verb}", data=data)
            assert answer.status_code == 303, answer.text
            assert said in (await browser.get(answer.headers["location"])).text, verb
        refused = await browser.post(f"{address}/resume")
        assert (refused.status_code, "this migration is over" in refused.text) == (409, True)
    async with browser_of(wiring, Role.VIEWER) as browser:
        assert (await browser.post(f"{address}/pause")).status_code == 403


async def test_a_stop_says_what_is_missing_and_an_alarm_whom_it_names(wiring: Wiring, migrating: Migrating) -> None:
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.stage is Stage.SECOND_BOUNCE)
    migrating.guests = [GroupMember(member_id="x", client_id="fenceline-flights-0-0-l1-a0", host="/10.0.0.9")]
    await migrating.until(migration, lambda seen: seen.state is MigrationState.STOPPED)
    async with browser_of(wiring, Role.OPERATOR) as browser:
        page = (await browser.get(f"/migrations/{migration.id}")).text
    assert "<strong>Stopped</strong> by this alert." in page
    assert "task 0.0 of ended lease 1 is a member of the group as group_only" in page
    assert "/10.0.0.9" in page
    assert "Retry…" in page


async def test_an_id_without_a_new_owner_is_fenced_by_a_form_beside_it(wiring: Wiring, migrating: Migrating) -> None:
    migration = await migrating.start()
    await migrating.until(migration, lambda seen: seen.step is not None)
    await migrating.lose(0)
    migrating.reads[0] = 2
    await migrating.until(migration, lambda seen: seen.state is MigrationState.STOPPED, seconds=20)
    async with browser_of(wiring, Role.OPERATOR) as browser:
        page = (await browser.get(f"/migrations/{migration.id}")).text
        assert page.count("Fence…") == 1
        answer = await browser.post(
            f"/migrations/{migration.id}/fence", data={"transactional_id": id_of(A, 0), "why": "nobody comes"}
        )
        assert answer.status_code == 303, answer.text
        assert "Step 3: fence fl.p" in (await browser.get(f"/migrations/{migration.id}")).text


async def test_the_switch_in_one_step_says_what_may_happen_and_takes_a_reason(
    wiring: Wiring, migrating: Migrating
) -> None:
    run = await migrating.run()
    async with migrating.plane.uow() as uow:
        await uow.of(RunStore).set_desired(run.id, DesiredRunState.KILL)
        await uow.commit()
    for ordinal in range(2):
        await migrating.plane.move(run.id, ordinal, InstanceState.STOPPED, reason="killed")
    await migrating.plane.revise("flights", **FIELDS)
    async with browser_of(wiring, Role.OPERATOR) as browser:
        page = (await browser.get("/pipelines/flights/migrations")).text
        assert "those records are duplicated in the output" in page
        refused = await browser.post("/pipelines/flights/switch-at-once", data={"why": " "})
        assert refused.status_code == 422
        assert "switch_at_once needs a reason" in refused.text
