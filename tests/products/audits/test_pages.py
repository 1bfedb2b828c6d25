"""Audits requested, planned and stopped in a browser; problems appear at their fields."""

from __future__ import annotations

import re

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.wiring import browser_of

PAGE = "/pipelines/flights/audits"


async def test_audit_is_requested_planned_and_stopped(wiring: Wiring, database: Database) -> None:
    await ControlPlane(database).pipeline("flights")
    async with browser_of(wiring, Role.AUTHOR) as browser:
        assert "No audits yet" in (await browser.get(PAGE)).text
        assert f'href="{PAGE}"' in (await browser.get("/pipelines/flights")).text
        planned = await browser.post(
            f"{PAGE}/plan",
            data={"plan_id_place": "json:order.id", "every": "1h", "plan_padding": "5m", "tolerance": "30m"},
        )
        assert planned.headers["location"] == f"{PAGE}?said=audit-planned"
        page = (await browser.get(PAGE)).text
        assert "every 1h by the field order.id" in page
        assert 'value="json:order.id"' in page
        asked = await browser.post(PAGE, data={"from": "2h", "to": "1h", "id_place": "key", "why": "an incident"})
        address = asked.headers["location"].partition("?")[0]
        assert address.startswith("/audits/")
        assert "by the key" in (await browser.get(address)).text
        assert (await browser.post(f"{address}/stop", data={"why": "enough"})).status_code == 303
        assert "enough" in (await browser.get(address)).text
        refused = await browser.post(f"{address}/stop")
        assert refused.status_code == 409
        assert "has ended already" in refused.text


async def test_problems_appear_at_their_fields_and_the_input_is_kept(wiring: Wiring, database: Database) -> None:
    await ControlPlane(database).pipeline("flights")
    async with browser_of(wiring, Role.OPERATOR) as browser:
        wrong = await browser.post(PAGE, data={"from": "yesterday", "to": "now", "id_place": "key"})
        assert wrong.status_code == 422
        assert 'value="yesterday"' in wrong.text
        assert 'id="problem-from-1"' in wrong.text
        backwards = await browser.post(PAGE, data={"from": "1h", "to": "2h", "id_place": "key"})
        assert 'id="problem-to-1"' in backwards.text
        assert "The window ends before it begins" in backwards.text


async def test_problem_of_the_plan_appears_in_the_plan(wiring: Wiring, database: Database) -> None:
    """Both forms have the fields id and padding."""
    await ControlPlane(database).pipeline("flights")
    typed = {"plan_id_place": "json:order.", "every": "1h", "plan_padding": "5 parsecs", "tolerance": "30m"}
    async with browser_of(wiring, Role.AUTHOR) as browser:
        refused = await browser.post(f"{PAGE}/plan", data=typed)
        assert refused.status_code == 422
        assert 'id="problem-plan_padding-1"' in refused.text
        assert 'id="problem-padding-1"' not in refused.text
        assert 'name="padding" type="text" value="5m"' in refused.text, "the other form is as it was"
        assert re.search(r"<details[^>]* open>\s*<summary><strong>Plan", refused.text)
        refused = await browser.post(f"{PAGE}/plan", data={**typed, "plan_padding": "5m"})
        assert 'id="problem-plan_id_place-1"' in refused.text
        assert 'id="problem-id_place-1"' not in refused.text
