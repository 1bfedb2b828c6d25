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


FORM = {
    "baseline": "topic:old",
    "id_place": "json:id",
    "from": "2h",
    "to": "1h",
    "padding": "5m",
    "tolerance": "30m",
    "ignored_fields": "at written.by",
}


async def test_comparison_is_requested_and_planned(wiring: Wiring, database: Database) -> None:
    await ControlPlane(database).pipeline("flights")
    async with browser_of(wiring, Role.AUTHOR) as browser:
        page = (await browser.get(PAGE)).text
        assert "No comparison yet" in page
        assert f'href="{PAGE}/compare"' in page
        assert "No plan: fill in the form" in (await browser.get(f"{PAGE}/compare")).text
        asked = await browser.post(f"{PAGE}/compare", data={**FORM, "act": "once"})
        address = asked.headers["location"].partition("?")[0]
        assert "compared with the topic old" in (await browser.get(address)).text
        assert (await browser.post(f"{address}/stop")).status_code == 303
        planned = await browser.post(f"{PAGE}/compare", data={**FORM, "every": "1h", "act": "plan"})
        assert planned.headers["location"] == f"{PAGE}?said=comparison-planned"
        page = (await browser.get(PAGE)).text
        assert "With the topic old, every 1h" in page
        assert f'<a href="{address}">' in page, "the newest comparison"
        form = (await browser.get(f"{PAGE}/compare")).text
        assert 'value="topic:old"' in form
        assert 'value="at written.by"' in form


async def test_problems_of_a_comparison_appear_at_their_fields(wiring: Wiring, database: Database) -> None:
    await ControlPlane(database).pipeline("flights")
    async with browser_of(wiring, Role.AUTHOR) as browser:
        for changed, field in (
            ({"baseline": "old"}, "baseline"),
            ({"baseline": "table:old"}, "baseline"),
            ({"baseline": "table:old", "url": "jdbc:postgresql://db/old", "baseline_time_field": "at"}, "url"),
            ({"baseline": "csv:file:///old"}, "baseline_time_field"),
            ({"id_place": "id"}, "id_place"),
            ({"number_tolerance": "little"}, "number_tolerance"),
            ({"fields": "a. b"}, "fields"),
            ({"to": "3h"}, "to"),
        ):
            refused = await browser.post(f"{PAGE}/compare", data={**FORM, **changed, "act": "once"})
            assert refused.status_code == 422, changed
            assert f'id="problem-{field}-1"' in refused.text, changed
            assert "correct the marked fields" in refused.text, changed


async def test_operator_compares_by_the_plan_alone(wiring: Wiring, database: Database) -> None:
    await ControlPlane(database).pipeline("flights")
    async with browser_of(wiring, Role.AUTHOR) as browser:
        await browser.post(f"{PAGE}/compare", data={**FORM, "act": "plan"})
    async with browser_of(wiring, Role.OPERATOR) as browser:
        other = await browser.post(f"{PAGE}/compare", data={**FORM, "baseline": "topic:secrets", "act": "once"})
        assert other.status_code == 403
        assert (await browser.post(f"{PAGE}/compare", data={**FORM, "act": "plan"})).status_code == 403
        asked = await browser.post(f"{PAGE}/compare", data={**FORM, "act": "once"})
        assert asked.status_code == 303
