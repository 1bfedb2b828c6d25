"""Defining a pipeline of files on its form, as a browser posts it."""

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

CHOSEN = {"sink": "files", "files.root": "file:///data"}
COLUMN = "files.partition_by"


@pytest.fixture
async def browser(wiring: Wiring, kafka: KafkaCluster) -> AsyncGenerator[httpx.AsyncClient]:
    """An author's, where a cluster is registered."""
    async with browser_of(wiring, Role.ADMINISTRATOR) as made:
        form = {"name": "local", "bootstrap_servers": kafka.bootstrap_servers}
        assert (await made.post("/clusters", data=form)).status_code == 303
        yield made


@pytest.fixture
def sound(make_topic: MakeTopic) -> dict[str, str]:
    """The fields of a pipeline in which nothing is wrong."""
    return {
        "name": unique_name("files"),
        "cluster": "local",
        "source_topics": make_topic(),
        "sink_topic": make_topic(),
        "transform.kind": "identity",
    }


async def test_files_that_are_chosen_bring_their_fields_and_no_complaint_of_what_is_empty_yet(
    browser: httpx.AsyncClient, sound: dict[str, str]
) -> None:
    assert 'id="files.root"' not in (await browser.get("/new-pipeline")).text
    answer = await browser.post("/new-pipeline", data={**sound, "sink": "files"}, headers={"hx-request": "true"})
    assert answer.status_code == 200
    assert 'id="files.root"' in answer.text
    assert 'name="files.rotate_ms" type="number" value="30000"' in answer.text
    assert 'id="problem-files.root-1"' not in answer.text
    assert "<html" not in answer.text


async def test_columns_are_added_and_removed_as_rows(browser: httpx.AsyncClient, sound: dict[str, str]) -> None:
    form = {**sound, **CHOSEN, f"{COLUMN}.0.of": "date", f"{COLUMN}.0.name": "day"}
    added = (await browser.post("/new-pipeline", data={**form, "do": "add-column"})).text
    assert f'name="{COLUMN}.1.field"' in added
    assert 'value="day"' in added
    form |= {f"{COLUMN}.1.of": "field", f"{COLUMN}.1.field": "carrier"}
    removed = (await browser.post("/new-pipeline", data={**form, "do": "remove-column:0"})).text
    assert f'name="{COLUMN}.0.field" type="text" value="carrier"' in removed
    assert f"{COLUMN}.1" not in removed
    assert 'value="day"' not in removed


async def test_problem_is_shown_at_its_field_and_typed_values_are_kept(
    browser: httpx.AsyncClient, sound: dict[str, str]
) -> None:
    wrong = {
        **sound,
        **CHOSEN,
        "files.root": "gs://bucket",
        "files.rotate_ms": "30000000",
        f"{COLUMN}.0.of": "field",
        f"{COLUMN}.0.field": "a..b",
        f"{COLUMN}.0.name": "a b",
        "processing_guarantee": "at_least_once",
        "do": "save",
    }
    answer = await browser.post("/new-pipeline", data=wrong)
    assert answer.status_code == 422
    for field in ("files.root", "files.rotate_ms", f"{COLUMN}.0.field", f"{COLUMN}.0.name", "processing_guarantee"):
        assert f'id="problem-{field}-1"' in answer.text, field
    for typed in ("gs://bucket", "30000000", "a..b", "a b"):
        assert f'value="{typed}"' in answer.text, typed
    assert (await browser.get(f"/pipelines/{sound['name']}")).status_code == 404


async def test_a_pipeline_of_files_is_saved_shown_edited_and_compared(
    browser: httpx.AsyncClient, sound: dict[str, str]
) -> None:
    name = sound["name"]
    columns = {f"{COLUMN}.0.of": "field", f"{COLUMN}.0.field": "carrier", f"{COLUMN}.1.of": "date"}
    saved = await browser.post("/new-pipeline", data={**sound, **CHOSEN, **columns, "do": "save"})
    assert (saved.status_code, saved.headers["location"]) == (303, f"/pipelines/{name}?said=created")
    assert "Avro files by carrier and date" in (await browser.get(f"/pipelines/{name}")).text
    page = (await browser.get(f"/pipelines/{name}/definition")).text
    assert "by carrier and date" in page
    assert f"file:///data/{name}/…" in page
    assert "(files)" in (await browser.get("/pipelines")).text
    form = (await browser.get(f"/pipelines/{name}/edit")).text
    assert '<option value="files" selected>' in form
    assert 'value="file:///data"' in form
    # Outputs become records again: the next revision says what that means.
    changed = {**sound, "sink": "records", "expected_revision": "1", "group_id": name, "do": "save"}
    assert (await browser.post(f"/pipelines/{name}/edit", data=changed)).status_code == 303
    compared = (await browser.get(f"/pipelines/{name}/diff?from=1&to=2")).text
    assert "Outputs are records of the sink topic, and no files any more." in compared
    assert "its readers must distinguish them" in compared
