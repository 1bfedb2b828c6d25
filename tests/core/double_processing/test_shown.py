"""A finding on the group's page, the overview, REST and in the metrics, with the names of both producers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from html import unescape

import httpx
import pytest

from app.core.double_processing.overlap import MARKERS_ONLY, OTHER_LOG, SET_BACK
from app.core.double_processing.service import OPEN_FOR
from app.core.journals import group_records
from app.core.observing.live_cluster import LiveCluster
from app.core.wiring import Wiring
from app.edges.main.metrics import exposition
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from tests.support.fixtures import AsRole
from tests.support.observing import ODD, double_commits, hear, observed_cluster, publish
from tests.support.wiring import client_of, token_of

GROUP = "orders/doubled"
SENTENCE = "Offsets 105 to 109 of orders-0 were committed by"


async def observed(wiring: Wiring, *, ago: timedelta = timedelta(minutes=1)) -> LiveCluster:
    live = await observed_cluster(wiring)
    now_ms = int((wiring.clock.now() - ago).timestamp() * 1000)
    hear(live, *double_commits(GROUP, at=2, committed_ms=now_ms), topic=group_records.TOPIC)
    publish(wiring, live)
    return live


@pytest.fixture
async def viewer(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with client_of(create_users_app(wiring), token=await token_of(wiring, Role.VIEWER)) as made:
        made.headers["accept"] = "text/html"
        yield made


async def page(client: httpx.AsyncClient, path: str, **query: str) -> str:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


async def test_rest_has_the_finding_with_both_commits(api_wiring: Wiring, as_role: AsRole) -> None:
    await observed(api_wiring)
    client = await as_role(Role.VIEWER)
    base = "/api/v1/clusters/c/double-processing"
    answer = (await client.get(base)).json()
    (one,) = answer["items"]
    assert (one["group"], one["topic"], one["partition"]) == (GROUP, "orders", 0)
    assert (one["pattern"], one["grade"], one["from_offset"], one["to_offset"]) == ("rewound", "proved", 105, 110)
    assert (one["first"]["transactional_id"], one["second"]["transactional_id"]) == (ODD, "done")
    assert (one["first"]["offset"], one["second"]["offset"], one["members"]) == (110, 105, 1)
    assert one["sentence"].startswith(f"{SENTENCE} {ODD} at ")
    assert one["alternatives"] == [SET_BACK, OTHER_LOG, MARKERS_ONLY]
    assert one["advice"][0] == "See the records: fenceline log orders 0 --from 105"
    assert answer["counts"] == {"proved": 1, "likely": 0, "possible": 0, "intended": 0}
    assert answer["reading"]["topic"] == group_records.TOPIC
    assert (await client.get(base, params={"group": GROUP})).json()["items"] == answer["items"]
    assert (await client.get(base, params={"group": "orders/copier"})).json()["items"] == []
    assert (await client.get("/api/v1/clusters/nobody/double-processing")).status_code == 404


async def test_groups_page_has_the_sentence_and_the_other_explanations(
    wiring: Wiring, viewer: httpx.AsyncClient
) -> None:
    await observed(wiring)
    html = await page(viewer, "/groups/group", cluster="c", name=GROUP)
    assert f"{SENTENCE} {ODD} at " in html
    assert "1 proved" in html
    assert MARKERS_ONLY in html
    assert "fenceline log orders 0 --from 105" in html
    assert "Double processing" not in await page(viewer, "/groups/group", cluster="c", name="orders/copier")


async def test_overview_has_it_as_an_open_problem_for_a_day(wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    live = await observed(wiring)
    html = await page(viewer, "/")
    assert "<h2>Open problems</h2>" in html
    assert ">double processing</span>" in html
    assert SENTENCE in html
    old = int((wiring.clock.now() - OPEN_FOR - timedelta(minutes=1)).timestamp() * 1000)
    live.folds.groups.groups.pop(GROUP)
    hear(live, *double_commits(GROUP, at=20, committed_ms=old), topic=group_records.TOPIC)
    publish(wiring, live)
    assert SENTENCE not in await page(viewer, "/")
    assert SENTENCE in await page(viewer, "/groups/group", cluster="c", name=GROUP)


async def test_findings_are_counted_in_the_metrics(wiring: Wiring) -> None:
    await observed(wiring)
    text = (await exposition(wiring)).decode()
    assert 'fenceline_double_processing_total{cluster="c",grade="proved"} 1.0' in text
    assert 'fenceline_double_processing_total{cluster="c",grade="likely"} 0.0' in text
