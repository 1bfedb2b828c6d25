"""Defining a query on the form, as a browser posts it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest

from app.core.wiring import Wiring
from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from tests.conftest import MakeTopic
from tests.support.topics import unique_name
from tests.support.wiring import browser_of

STREAM = "transform.streams"


@pytest.fixture
async def browser(wiring: Wiring, kafka: KafkaCluster) -> AsyncGenerator[httpx.AsyncClient]:
    """An author's, where a cluster is registered."""
    async with browser_of(wiring, Role.ADMINISTRATOR) as made:
        form = {"name": "local", "bootstrap_servers": kafka.bootstrap_servers}
        assert (await made.post("/clusters", data=form)).status_code == 303
        yield made


@pytest.fixture
def chosen(make_topic: MakeTopic) -> dict[str, str]:
    """The fields of a pipeline whose author has just chosen a query."""
    return {
        "name": unique_name("query"),
        "cluster": "local",
        "source_topics": make_topic(),
        "sink_topic": make_topic(),
        "transaction_timeout_ms": "60000",
        "transform.kind": "dataframe",
    }


@pytest.fixture
def sound(chosen: dict[str, str]) -> dict[str, str]:
    return {
        **chosen,
        f"{STREAM}.0.name": "flights",
        f"{STREAM}.0.topic": chosen["source_topics"],
        f"{STREAM}.0.schema": "carrier STRING, delay INT",
        "transform.code": "sql",
        "transform.sql": "SELECT carrier AS key, delay FROM flights",
        "transform.checkpoint": f"file:///tmp/checkpoints/{chosen['name']}",
        "transform.max_offsets_per_trigger": "1000",
    }


async def test_a_query_that_is_chosen_has_a_stream_for_each_topic_and_hides_other_fields(
    browser: httpx.AsyncClient, chosen: dict[str, str]
) -> None:
    page = (await browser.post("/new-pipeline", data=chosen, headers={"hx-request": "true"})).text
    assert f'name="{STREAM}.0.topic" type="text" value="{chosen["source_topics"]}"' in page
    for field in ("transform.sql", "transform.checkpoint", "transform.output_mode", "tasks_per_instance"):
        assert f'id="{field}"' in page, field
    for field in ("commit_interval_ms", "instances", "errors.policy", "sink", "group_protocol", "source_topics"):
        assert f'id="{field}"' not in page, field


async def test_streams_are_added_and_removed_as_rows(browser: httpx.AsyncClient, sound: dict[str, str]) -> None:
    added = (await browser.post("/new-pipeline", data={**sound, "do": "add-stream"})).text
    assert f'name="{STREAM}.1.name"' in added
    form = {**sound, f"{STREAM}.1.name": "more", f"{STREAM}.1.topic": "more"}
    removed = (await browser.post("/new-pipeline", data={**form, "do": "remove-stream:0"})).text
    assert f'name="{STREAM}.0.name" type="text" value="more"' in removed
    assert f"{STREAM}.1" not in removed


async def test_problem_is_shown_at_its_field_without_a_plan(browser: httpx.AsyncClient, sound: dict[str, str]) -> None:
    wrong = {f"{STREAM}.0.name": "a b", f"{STREAM}.0.watermark_ms": "5", "transform.trigger_ms": "1", "do": "save"}
    answer = await browser.post("/new-pipeline", data={**sound, **wrong})
    assert answer.status_code == 422
    for field in (f"{STREAM}.0.name", f"{STREAM}.0.event_time", "transform.trigger_ms"):
        assert f'id="problem-{field}-1"' in answer.text, field


@pytest.mark.slow
async def test_a_query_is_saved_shown_edited_and_compared(browser: httpx.AsyncClient, sound: dict[str, str]) -> None:
    name = sound["name"]
    wrong = await browser.post("/new-pipeline", data={**sound, "transform.sql": "SELECT x FROM flights", "do": "check"})
    assert 'id="problem-transform.sql-1"' in wrong.text
    saved = await browser.post("/new-pipeline", data={**sound, "do": "save"}, timeout=300)
    assert (saved.status_code, saved.headers["location"]) == (303, f"/pipelines/{name}?said=created")
    page = (await browser.get(f"/pipelines/{name}/definition")).text
    assert "SELECT carrier AS key, delay FROM flights" in page
    assert "Stream flights" in page
    form = (await browser.get(f"/pipelines/{name}/edit")).text
    assert '<option value="dataframe" selected>' in form
    changed = {**sound, "transform.shuffle_partitions": "8", "expected_revision": "1", "group_id": name}
    live = await browser.post(f"/pipelines/{name}/edit", data=changed)
    assert "The state has 4 partitions until it has a new checkpoint" in live.text
    assert (await browser.post(f"/pipelines/{name}/edit", data={**changed, "do": "save"})).status_code == 303
    compared = (await browser.get(f"/pipelines/{name}/diff?from=1&to=2")).text
    assert "The number of state partitions changes from 4 to 8." in compared
