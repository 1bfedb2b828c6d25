"""Webhooks by page and by REST: added, tested, paused and removed by those who may; addresses are kept back."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.metrics import exposition
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from tests.support.wiring import browser_of, client_of, settings_for_test, token_of, wired

URL = "https://hooks.example.com/services/a-secret-path"
FORM = {"name": "pager", "url": URL, "secrets": "env:FENCELINE_SECRET_PAGER", "kinds": ["fencing"], "why": "on call"}
API = "/api/v1/webhooks"


@pytest.fixture
async def wiring(database: Database, tmp_path: Path) -> AsyncGenerator[Wiring]:
    settings = settings_for_test(tmp_path, allowed_webhook_hosts="hooks.example.com")
    async with wired(database.url, settings) as made:
        yield made


async def api_of(wiring: Wiring, role: Role) -> httpx.AsyncClient:
    return client_of(create_users_app(wiring), token=await token_of(wiring, role, name=f"api-{role}"))


async def test_webhook_is_added_tested_paused_and_removed_on_its_page(wiring: Wiring) -> None:
    async with browser_of(wiring, Role.ADMINISTRATOR) as browser:
        assert "No webhook yet" in (await browser.get("/webhooks")).text
        added = await browser.post("/webhooks", data=FORM)
        assert (added.status_code, added.headers["location"]) == (303, "/webhooks/pager?said=webhook-added")
        assert (await browser.post("/webhooks/pager/test")).headers["location"] == "/webhooks/pager?said=webhook-test"
        page = (await browser.get("/webhooks/pager")).text
        assert "test.happened" in page
        assert URL in page
        await browser.post("/webhooks/pager/pause", data={"why": "too loud"})
        page = (await browser.get("/webhooks/pager")).text
        assert "too loud" in page
        assert (await browser.post("/webhooks/pager/test")).status_code == 409
        await browser.post("/webhooks/pager/resume")
        two = "file:new env:FENCELINE_SECRET_PAGER"
        changed = await browser.post("/webhooks/pager/change", data={**FORM, "secrets": two, "kinds": []})
        assert changed.headers["location"] == "/webhooks/pager?said=webhook-changed"
        assert "all alerts" in (await browser.get("/webhooks")).text
        removed = await browser.post("/webhooks/pager/remove", data={"why": "enough"})
        assert removed.headers["location"] == "/webhooks?said=webhook-removed"
        assert (await browser.get("/webhooks/pager")).status_code == 404
        log = (await browser.get("/commands")).text
        assert all(why in log for why in ("on call", "too loud", "enough"))
        assert "a-secret-path" not in log


async def test_mistakes_are_shown_at_their_fields_and_the_input_stays(wiring: Wiring) -> None:
    form = {"name": "Pager", "url": "https://elsewhere.example/x", "secrets": "hunter2", "why": "try"}
    async with browser_of(wiring, Role.ADMINISTRATOR) as browser:
        answer = await browser.post("/webhooks", data=form)
    assert answer.status_code == 422
    for said in ("1 to 63 of a-z", "FENCELINE_ALLOWED_WEBHOOK_HOSTS", "a secret is a reference, not its value"):
        assert said in answer.text
    assert 'value="https://elsewhere.example/x"' in answer.text


async def test_operators_see_no_path_of_an_address_and_cannot_change_it(wiring: Wiring) -> None:
    async with (
        await api_of(wiring, Role.ADMINISTRATOR) as administrator,
        await api_of(wiring, Role.OPERATOR) as operator,
    ):
        body = {"name": "pager", "url": URL, "secrets": ["file:pager"]}
        assert (await administrator.post(API, json=body)).json()["address"] == URL
        assert (await administrator.post(API, json=body)).status_code == 409
        assert (await operator.get(f"{API}/pager")).json()["address"] == "https://hooks.example.com"
        assert (await operator.put(f"{API}/pager", json={"url": URL, "secrets": ["file:x"]})).status_code == 403
        assert (await operator.post(f"{API}/pager/test", json={})).status_code == 202
        (delivery,) = (await operator.get(f"{API}/pager/deliveries")).json()["items"]
        assert (delivery["type"], delivery["state"], delivery["attempts"]) == ("test.happened", "pending", 0)
        assert (
            'fenceline_webhook_deliveries{state="pending",webhook="pager"} 1.0' in (await exposition(wiring)).decode()
        )
        async with browser_of(wiring, Role.OPERATOR) as browser:
            page = (await browser.get("/webhooks/pager")).text
    assert "a-secret-path" not in page
    assert "Change the webhook" not in page
    assert "Send a test" in page
