"""Registration, probe and removal of a Kafka cluster on its page, and the answers to a refusal."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from tests.support.control_plane import ControlPlane
from tests.support.fencing import register
from tests.support.wiring import browser_of


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    """An administrator's."""
    async with browser_of(wiring, Role.ADMINISTRATOR) as made:
        yield made


async def test_a_cluster_is_registered_asked_and_removed(browser: httpx.AsyncClient, kafka: KafkaCluster) -> None:
    form = {"name": "local", "bootstrap_servers": kafka.bootstrap_servers, "why": "the first"}
    registered = await browser.post("/clusters", data=form)
    assert (registered.status_code, registered.headers["location"]) == (303, "/clusters?said=cluster-registered")
    assert 'id="cluster-local"' in (await browser.get("/clusters")).text
    asked = await browser.post("/clusters/local/probe")
    assert asked.status_code == 200
    assert "<strong>local</strong> answers: cluster id" in asked.text
    assert f"1 at {kafka.bootstrap_servers}" in asked.text
    removed = await browser.post("/clusters/local/remove", data={"why": "enough"})
    assert removed.headers["location"] == "/clusters?said=cluster-removed"
    assert "No cluster yet" in (await browser.get("/clusters")).text
    log = (await browser.get("/commands")).text
    assert "the first" in log
    assert "enough" in log


async def test_problems_are_shown_at_their_fields_and_typed_values_stay(browser: httpx.AsyncClient) -> None:
    form = {
        "name": "far",
        "bootstrap_servers": "kafka.example:9092",
        "client_config": "security.protocol=SASL_SSL\nsasl.password=hunter2",
        "why": "for tests",
    }
    answer = await browser.post("/clusters", data=form)
    assert answer.status_code == 422
    assert "FENCELINE_ALLOWED_BROKER_ADDRESSES" in problem_at(answer, "bootstrap_servers")
    assert "must be a reference, not the secret itself" in problem_at(answer, "client_config")
    assert 'value="kafka.example:9092"' in answer.text
    assert 'value="for tests"' in answer.text
    assert "No cluster yet" in answer.text


async def test_a_broker_that_is_away_is_named_on_the_page(browser: httpx.AsyncClient, database: Database) -> None:
    """When it is registered, and when one that was there is asked."""
    refused = await browser.post("/clusters", data={"name": "away", "bootstrap_servers": "127.0.0.1:9"})
    assert refused.status_code == 503
    assert "127.0.0.1:9" in refused.text
    await ControlPlane(database).cluster("gone")
    asked = await browser.post("/clusters/gone/probe")
    assert asked.status_code == 200
    assert "<strong>gone</strong>: " in asked.text
    assert "127.0.0.1:9" in asked.text


def problem_at(answer: httpx.Response, field: str) -> str:
    """Return the text beside the field."""
    _, found, rest = answer.text.partition(f'id="problem-{field}-1">')
    assert found, f"nothing is said at {field}: {answer.text}"
    return rest.partition("</span>")[0]


async def test_cluster_shows_what_it_is_made_of_and_how_well_it_is_seen(
    browser: httpx.AsyncClient, kafka: KafkaCluster
) -> None:
    form = {"name": "local", "bootstrap_servers": kafka.bootstrap_servers}
    assert (await browser.post("/clusters", data=form)).status_code == 303
    assert 'href="/clusters/local"' in (await browser.get("/clusters")).text
    text = (await browser.get("/clusters/local")).text
    assert "1 of 1" in text
    assert kafka.bootstrap_servers in text.split('id="brokers"')[1]
    # No observer runs in this test.
    assert text.split('id="journal-__transaction_state"')[1].split("</tr>")[0].count("connecting") == 1
    text = (await browser.get("/clusters/local/settings")).text
    setting = text.split('id="setting-transaction.max.timeout.ms"')[1].split("</tr>")[0]
    assert "900000" in setting
    assert "<strong>" not in setting
    assert (
        "fewer than three brokers" in text.split('id="setting-offsets.topic.replication.factor"')[1].split("</tr>")[0]
    )
    assert "KIP-890" in text.split('id="feature-transaction.version"')[1].split("</tr>")[0]


async def test_cluster_that_is_away_says_so_and_what_would_be_there(browser: httpx.AsyncClient, wiring: Wiring) -> None:
    await register(wiring.unit_of_work, "away", "kafka-away")
    answer = await browser.get("/clusters/away")
    assert answer.status_code == 200
    assert "no Kafka broker answers at 127.0.0.1:1" in answer.text
    for address in ("/clusters/away", "/clusters/away/settings"):
        answer = await browser.get(address)
        assert "no Kafka broker answers at 127.0.0.1:1" in answer.text
        assert answer.text.count("No broker has answered") == 1
    rest = (await browser.get("/api/v1/clusters/away/survey", headers={"accept": "application/json"})).json()
    assert "no Kafka broker answers" in rest["problem"]
    assert rest["brokers"] == []
