"""The pages of mappings and ids on a real database: now and then, one partition over time, the registry, the import."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from datetime import timedelta
from html import unescape

import httpx
import pytest

from app.core.ids.registry import IdCount
from app.core.ids.store.id_counts import IdCountStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from tests.support.control_plane import ControlPlane, task_heartbeat
from tests.support.observing import ODD, hear, observed_cluster, publish, state_of, transaction_batch
from tests.support.wiring import browser_of, client_of, token_of


@pytest.fixture
async def viewer(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with client_of(create_users_app(wiring), token=await token_of(wiring, Role.VIEWER)) as made:
        made.headers["accept"] = "text/html"
        yield made


@pytest.fixture
def plane(wiring: Wiring, database: Database) -> ControlPlane:
    return ControlPlane(database, now=wiring.clock.now().replace(microsecond=0) - timedelta(hours=1))


async def text_of(client: httpx.AsyncClient, path: str, **query: str) -> str:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


async def moved(plane: ControlPlane) -> None:
    """in-1 belonged to task 0, had no owner for a minute, and belongs to task 1."""
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0), ("in", 1)], generation=1))
    plane.pass_time(600)
    await plane.beat(task_heartbeat(run.id, task=0, sequence=2, partitions=[("in", 0)], generation=2))
    plane.pass_time(60)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 1)], generation=2))


async def test_list_shows_owners_now_and_at_a_moment(plane: ControlPlane, viewer: httpx.AsyncClient) -> None:
    assert "No cluster is registered yet" in await text_of(viewer, "/mappings")
    began = plane.now
    await moved(plane)
    now = await text_of(viewer, "/mappings")
    assert "2 partitions" in now
    assert "in-1 flights task 0.1 on w1" in now
    then = await text_of(viewer, "/mappings", at=(began + timedelta(seconds=1)).isoformat())
    assert "2 partitions owned at" in then
    assert "in-1 flights task 0.0 on w1" in then
    nobody = await text_of(viewer, "/mappings", at="29d")
    assert "No task of Fenceline owned a partition then" in nobody
    assert "1 partition" in await text_of(viewer, "/mappings", search="IN-1")
    assert "No partition has this name" in await text_of(viewer, "/mappings", search="other")
    assert "`14:03`: expected a time with its zone" in (
        await viewer.get("/mappings", params={"at": "14:03"})
    ).text.replace("<code>", "`").replace("</code>", "`")
    assert (await viewer.get("/mappings", params={"at": "14:03"})).status_code == 422


async def test_partition_has_its_owners_over_time_and_when_it_had_none(
    plane: ControlPlane, viewer: httpx.AsyncClient
) -> None:
    await moved(plane)
    query = {"cluster": "test", "group": "flights-group", "topic": "in", "partition": "1"}
    answer = await viewer.get("/mappings/partition", params=query)
    assert answer.status_code == 200
    assert re.findall(r">task (0\.\d)</a></th>", answer.text) == ["0.1", "0.0"]
    titles = re.findall(r'<g class="bar [^"]*"><title>([^<]*)</title>', answer.text)
    assert titles[:3] == [
        "instance 0, task 0, lease 1, attempt 0 on w1",
        "no owner",
        "instance 0, task 1, lease 1, attempt 0 on w1",
    ]
    assert "Owner task 0.1" in await text_of(viewer, "/mappings/partition", **query)
    other = query | {"partition": "9"}
    unknown = await viewer.get("/mappings/partition", params=other)
    assert unknown.status_code == 404
    assert "No task of Fenceline has read this partition" in unknown.text


async def test_registry_shows_whose_ids_are_and_who_fights_about_them(
    wiring: Wiring, plane: ControlPlane, viewer: httpx.AsyncClient
) -> None:
    live = await observed_cluster(wiring)
    now_ms = int(wiring.clock.now().timestamp() * 1000)
    began = state_of(producer_id=9, start_ms=now_ms - 60_000, changed_ms=now_ms - 60_000)
    hear(live, transaction_batch(ODD, began, at=2, at_ms=now_ms - 60_000), now_ms=now_ms)
    publish(wiring, live)
    await plane.pipeline("flights", cluster="c")
    async with wiring.unit_of_work() as uow:
        await uow.of(TransactionalIdStore).claim(pipeline="flights", kafka_cluster_id="kafka-1", ids=[(ODD, 0, 0)])
        for minutes in (2, 1):
            at = wiring.clock.now() - timedelta(minutes=minutes)
            await uow.of(IdCountStore).add(
                IdCount(at=at, ids=4 - minutes, ours=1, orphaned=0), kafka_cluster_id="kafka-1"
            )
        await uow.commit()
    shown = await text_of(viewer, "/mappings/ids", cluster="c")
    assert "1 contested id." in shown
    assert "which no task of flights has reported" in shown
    assert "Number of ids" in shown
    assert '"data": [[' in unescape((await viewer.get("/mappings/ids")).text).replace('"data":[[', '"data": [[')
    only = await text_of(viewer, "/mappings/ids", cluster="c", only="foreign", sort="expires")
    assert "1 id found" in only
    assert "done" in only
    assert "No matching id" in await text_of(viewer, "/mappings/ids", cluster="c", search="nothing")


@pytest.mark.slow
async def test_import_shows_what_it_would_do_before_it_does_it(wiring: Wiring, plane: ControlPlane) -> None:
    await plane.pipeline()
    path = "/pipelines/flights/imported-ids"
    async with browser_of(wiring, Role.AUTHOR) as author:
        form = {"csv": "in,0,app-0_0\nin,x,b", "formula": "", "prefix": "left over", "do": "preview"}
        wrong = await author.post(path, data=form)
        assert wrong.status_code == 422
        assert "Nothing is imported: 1 problem" in wrong.text
        assert "is not a partition" in wrong.text
        assert 'value="import"' not in wrong.text, "there is nothing to be done"
        right = await author.post(path, data={**form, "csv": "in,0,app-0_0"})
        assert (right.status_code, "Would import 1 of 1 line" in right.text) == (200, True)
        assert 'value="import"' in right.text
        assert "in,0,app-0_0</textarea>" in right.text
        assert "No imported ids" in (await author.get(path)).text, "a preview writes nothing"
        done = await author.post(path, data={**form, "csv": "in,0,app-0_0", "do": "import"})
        assert done.headers["location"] == f"{path}?said=ids-imported"
        page = await text_of(author, path)
        assert "1 imported id" in page
        assert "app-0_0 in-0" in page
        gone = await author.post(f"{path}/forget", data={"why": "a mistake"})
        assert gone.status_code == 303
        assert "No imported ids" in await text_of(author, path)
    async with browser_of(wiring, Role.VIEWER) as somebody:
        assert "<textarea" not in (await somebody.get(path)).text
        assert (await somebody.post(path, data=form)).status_code == 403


async def test_problem_of_a_formula_is_shown_at_its_field(wiring: Wiring, plane: ControlPlane) -> None:
    await plane.pipeline()
    async with browser_of(wiring, Role.AUTHOR) as author:
        answer = await author.post(
            "/pipelines/flights/imported-ids", data={"formula": "spring-kafka-v2", "count": "two", "prefix": "tx-"}
        )
        assert answer.status_code == 422
        assert 'id="problem-count-1"' in answer.text
        answer = await author.post("/pipelines/flights/imported-ids", data={"formula": "kafka-streams"})
        assert 'id="problem-application_id-1"' in answer.text
