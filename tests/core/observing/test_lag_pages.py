"""Lag on the pages of groups and in REST: sorted without JavaScript, folded, and with its freshness."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from html import unescape
from typing import Any, cast

import msgspec
import pytest

from app.core.clusters.brokers import Brokers, PartitionOffsets
from app.core.clusters.partition import Partition
from app.core.journals import group_records
from app.core.lag.movement import LagState
from app.core.lag.service import GroupLagDetail
from app.core.lag.wording import sentence_of
from app.core.observing.live_cluster import LiveCluster
from app.core.observing.pages.lag import lag_of
from app.core.wiring import Wiring
from app.edges.db.database import Database
from tests.core.lag.details import WINDOW, lag_detail, report_of, total_lag
from tests.core.observing.test_pages import rows, shown, viewing
from tests.support.control_plane import ControlPlane
from tests.support.observing import hear, observed_cluster, offset_batch, publish

GROUPS = (
    total_lag("a-slow", LagState.SLOW, lag_records=90, lag_ms=45_000),
    total_lag("b-fine", lag_records=1_000, lag_ms=1_000),
    total_lag("c-old", lag_records=7, lag_ms=600_000, is_bound=True),
)


class Ends:
    """Brokers where every partition ends at 12, with an LSO of 9."""

    def __init__(self) -> None:
        self.asked = 0

    async def offsets_of_each(
        self, _: Mapping[str, str], partitions: Collection[Partition], **__: Any
    ) -> dict[Partition, PartitionOffsets]:
        self.asked += len(partitions)
        return {at: PartitionOffsets(earliest=0, last_stable=9, high_watermark=12) for at in partitions}


@pytest.fixture
async def live(wiring: Wiring) -> LiveCluster:
    made = await observed_cluster(wiring)
    batches = [offset_batch(one.group, 5, at=2 + at) for at, one in enumerate(GROUPS)]
    hear(made, *batches, topic=group_records.TOPIC, now_ms=int(time.time() * 1000))
    publish(wiring, made)
    return made


async def test_pipelines_have_the_lag_of_their_group_and_old_lag_is_marked(wiring: Wiring, plane: ControlPlane) -> None:
    await plane.running("orders")
    of_group = total_lag("orders-group", lag_records=4_321, lag_ms=90_000)
    now_ms = int(time.time() * 1000)
    async with viewing(wiring) as viewer:
        for is_old, report in (
            (False, report_of(of_group, cluster="test", at_ms=now_ms)),
            (True, report_of(of_group, cluster="test", at_ms=now_ms, problem="no broker answers")),
            (True, report_of(of_group, cluster="test", at_ms=now_ms - 3_600_000)),
        ):
            wiring.lags.publish(report)
            for page in ("/pipelines", "/", "/pipelines/orders"):
                html = await shown(viewer, page)
                assert "4,321" in html, page
                assert (">old<" in html or "as of <time" in html) == is_old, page


async def test_groups_have_their_lag_and_are_sorted_without_javascript(wiring: Wiring, live: LiveCluster) -> None:
    wiring.lags.publish(report_of(*GROUPS))
    async with viewing(wiring) as viewer:
        html = await shown(viewer, "/groups", cluster="c")
        row = re.search(r'<tr id="group-c-old">(.*?)</tr>', html, re.DOTALL)
        assert row is not None
        assert "healthy" in row[1]
        assert "≥ 10 min" in row[1]
        links = re.findall(r'<th[^>]*><a href="([^"]*)">([^<]*)</a>', html)
        by_title = {title: unescape(link) for link, title in links}
        assert set(by_title) == {"Group", "Reading", "Lag", "Behind"}

        async def order(title: str) -> list[str]:
            listed = rows(await shown(viewer, by_title[title]), "groups")
            return [name for name in listed if name != "orders/copier"]

        assert await order("Lag") == ["b-fine", "a-slow", "c-old"]
        assert await order("Behind") == ["c-old", "a-slow", "b-fine"]
        assert await order("Reading") == ["a-slow", "c-old", "b-fine"]
        assert await order("Group") == ["a-slow", "b-fine", "c-old"]
        assert rows(await shown(viewer, by_title["Lag"]), "groups")[-1] == "orders/copier", "without lag: the last"
        assert 'aria-sort="descending"' in await shown(viewer, by_title["Lag"])
        assert rows(await shown(viewer, "/groups", cluster="c", lag="slow"), "groups") == ["a-slow"]


async def test_list_reports_that_lag_is_old_or_sampled_in_turns(wiring: Wiring, live: LiveCluster) -> None:
    async with viewing(wiring) as viewer:
        assert "Lag is not sampled yet." in await shown(viewer, "/groups", cluster="c")
        at_ms = int(time.time() * 1000)
        wiring.lags.publish(report_of(problem="no broker answers", at_ms=at_ms - 200_000))
        assert re.search(r"Lag is not known since 3.* min: no broker answers\.", await shown(viewer, "/groups"))
        many = report_of(at_ms=at_ms)
        wiring.lags.publish(
            msgspec.structs.replace(many, partitions=20_000, sampled=5_000, period_ms=60_000, unanswered=2)
        )
        html = await shown(viewer, "/groups")
        assert "Each of 20,000 partitions is sampled every 60 s, 5,000 at a time." in html
        assert "The leaders of 2 partitions do not answer" in html


async def test_group_has_its_lag_by_newer_ends_than_the_samples(wiring: Wiring, live: LiveCluster) -> None:
    brokers = Ends()
    wiring = replace(wiring, brokers=cast(Brokers, brokers))
    async with viewing(wiring) as viewer:
        assert "The lag is not known yet" in await shown(viewer, "/groups/group", cluster="c", name="b-fine")
        await wiring.held_back.settled()
        html = await shown(viewer, "/groups/group", cluster="c", name="b-fine")
    assert brokers.asked >= 1
    assert re.search(r"<dt>Lag</dt><dd>7</dd>", html)
    assert re.search(r'data-label="LSO"[^>]*>9<', html)
    assert re.search(r'data-label="End"[^>]*>12<', html)
    assert "3 blocked" in html
    await wiring.held_back.close()


async def test_rest_asks_the_leaders_and_sorts_through_all_pages(wiring: Wiring, live: LiveCluster) -> None:
    wiring.lags.publish(report_of(*GROUPS))
    wiring = replace(wiring, brokers=cast(Brokers, Ends()))
    async with viewing(wiring) as viewer:
        viewer.headers["accept"] = "application/json"
        path = "/api/v1/clusters/c/groups"
        found: list[str] = []
        after: str | None = None
        while True:
            query = {"sort": "lag_time", "limit": 1} | ({} if after is None else {"after": after})
            answer = (await viewer.get(path, params=query)).json()
            found += [one["group"] for one in answer["items"]]
            after = answer["next_cursor"]
            if after is None:
                break
        assert found == ["c-old", "a-slow", "b-fine", "orders/copier"]
        first = (await viewer.get(path, params={"sort": "lag", "limit": 1})).json()
        lag = first["items"][0]["lag"]
        assert (lag["state"], lag["lag_records"], lag["lag_s"], lag["known_partitions"]) == ("healthy", 1_000, 1.0, 4)
        refused = await viewer.get(path, params={"sort": "lag_time", "after": first["next_cursor"]})
        assert (refused.status_code, refused.json()["detail"]) == (
            422,
            "this cursor belongs to another list: take it from next_cursor unchanged",
        )
        one = (await viewer.get(f"{path}/b-fine")).json()
        (part,) = one["lag_partitions"]
        assert (part["committed"], part["end"], part["last_stable_offset"]) == (5, 12, 9)
        assert (part["lag_records"], part["blocked_records"], part["lag_s"]) == (7, 3, 0.0)


def test_equal_partitions_are_one_row_with_ranges() -> None:
    shown_lag = lag_of(lag_detail(), is_each=False, window=WINDOW)
    assert [row["name"] for row in shown_lag["rows"]] == ["flights-12", "flights-13", "flights-15", "flights 0-11, 14"]
    folded = shown_lag["rows"][-1]
    assert (folded["count"], folded["records"], folded["markers"], folded["committed"]) == (13, 12, 1, None)
    assert len(lag_of(lag_detail(), is_each=True, window=WINDOW)["rows"]) == 16


def test_each_state_has_a_sentence_with_its_next_step() -> None:
    def said(state: LagState, **more: object) -> str:
        return sentence_of(total_lag("g", state, **more))

    assert said(LagState.HEALTHY) == "The group is 37 records behind, 3 s, reading 400/s."
    assert (
        said(LagState.HEALTHY, lag_records=0, rate=0.0, known=3)
        == "The group has read all records. 1 partition is not known."
    )
    assert said(LagState.PAUSED, pipeline="flights").startswith("The pipeline flights was paused or stopped by a user")
    assert said(LagState.NOT_READING).startswith("The group has members, but commits nothing in 1 of 4 partitions.")
    for state in LagState:
        assert said(state)


def test_chart_has_a_gap_where_lag_is_not_known() -> None:
    detail: GroupLagDetail = lag_detail()
    data = msgspec.json.decode(lag_of(detail, is_each=False, window=WINDOW)["records_chart"].series)["data"]
    assert len(data[0]) == len(data[1]) == 288
    assert data[1].count(None) == 1


async def test_pipelines_are_listed_with_the_lag_of_their_groups_also_if_none_runs(
    wiring: Wiring, database: Database, live: LiveCluster
) -> None:
    plane = ControlPlane(database)
    await plane.pipeline("stopped", cluster="c", group_id="c-old")
    await plane.pipeline("unsampled", cluster="c", group_id="nobody")
    wiring.lags.publish(report_of(*GROUPS))
    async with viewing(wiring) as viewer:
        for path in ("/pipelines", "/"):
            html = await shown(viewer, path)
            cells = {
                name: re.findall(r'data-label="(?:Lag|Behind)"[^>]*>(?:<span[^>]*>)?([^<]+)', row)
                for name, row in re.findall(r'<tr id="pipeline-([a-z]+)">(.*?)</tr>', html, re.DOTALL)
            }
            assert cells == {"stopped": ["7", "≥ 10 min"], "unsampled": ["–", "–"]}, path
