"""Hanging transactions over REST: results with commands, pending offsets, and earlier ones with their ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.core.clusters.store import ClusterStore
from app.core.hanging import service as hanging
from app.core.hanging.hanging_transaction import HangingEnding, HangingOutcome, HangingTransaction
from app.core.hanging.report import SearchReport
from app.core.hanging.search import UnclearPartition
from app.core.journals import group_records
from app.core.observing.snapshot import ReadingPhase
from app.core.wiring import Wiring
from app.kit.access import Role
from tests.support.fixtures import AsRole
from tests.support.hanging_samples import hanging_transaction
from tests.support.observing import NOW_MS, hear, observed_cluster, offset_batch, publish

BASE = "/api/v1/clusters/c/hanging"


@pytest.fixture
async def viewer(as_role: AsRole) -> httpx.AsyncClient:
    return await as_role(Role.VIEWER)


async def test_hanging_transactions_have_their_commands(api_wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    await observed_cluster(api_wiring)
    before = (await viewer.get(BASE)).json()
    assert (before["items"], before["search"]["swept_at"]) == ([], None)
    unclear = UnclearPartition(topic="secret", partition=3, since_ms=NOW_MS, reason="DescribeProducers was refused")
    api_wiring.observations.note_search(
        SearchReport(
            cluster="c",
            swept_ms=NOW_MS,
            partitions=50,
            held_back=2,
            silent=("broker 2 does not answer",),
            unclear=(unclear,),
            unclear_count=1,
            hanging=(hanging_transaction(),),
        )
    )
    answer = (await viewer.get(BASE)).json()
    (one,) = answer["items"]
    assert (one["topic"], one["partition"], one["start_offset"], one["coordinator_epoch"]) == ("orders", 0, 10, 3)
    assert one["commands"][0].startswith("fenceline end orders 0 --start-offset 10 --bootstrap-server ")
    assert one["commands"][1].startswith("kafka-transactions.sh")
    assert one["sentence"].startswith("A transaction of producer 4015 epoch 2 hangs in orders-0 from offset 10 on")
    search = answer["search"]
    assert (search["partitions"], search["held_back"], search["silent"]) == (50, 2, ["broker 2 does not answer"])
    assert [one["reason"] for one in search["unclear"]] == ["DescribeProducers was refused"]


async def test_pending_offsets_have_their_producers(api_wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    live = await observed_cluster(api_wiring)
    hear(live, offset_batch("billing", 41, at=7, producer_id=4015, committed_ms=1), topic=group_records.TOPIC)
    live.enter(group_records.TOPIC, ReadingPhase.LIVE, now_ms=NOW_MS)
    publish(api_wiring, live)
    found = hanging_transaction(topic=group_records.TOPIC)
    api_wiring.observations.note_search(SearchReport(cluster="c", swept_ms=NOW_MS, hanging=(found,)))
    (one,) = [one for one in (await viewer.get(BASE)).json()["pending_offsets"] if one["group"] == "billing"]
    assert (one["topic"], one["partition"], one["offset"], one["is_hanging"]) == ("orders", 0, 41, True)
    assert one["journal_partition"] == 0


async def test_earlier_transactions_have_their_ends(api_wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    await observed_cluster(api_wiring)
    now = datetime.now(UTC)
    async with api_wiring.unit_of_work() as uow:
        kafka_cluster_id = (await uow.of(ClusterStore).get("c")).kafka_cluster_id
        both: list[HangingTransaction] = [
            hanging_transaction(kafka_cluster_id=kafka_cluster_id, start_offset=start) for start in (10, 20)
        ]
        for number, one in enumerate(both):
            await hanging.record_found(uow, [one], now=now - timedelta(minutes=2 - number))
        ended = HangingOutcome(transaction=both[0], ending=HangingEnding.ABORTED, at_ms=NOW_MS, marker_offset=41)
        await hanging.record_ended(uow, [ended], now=now)
        await uow.commit()
    first = (await viewer.get(f"{BASE}/history", params={"limit": 1})).json()
    assert [(one["start_offset"], one["ended_at"]) for one in first["items"]] == [(20, None)]
    rest = (await viewer.get(f"{BASE}/history", params={"after": first["next_cursor"]})).json()
    assert [(one["ending"], one["marker_offset"]) for one in rest["items"]] == [("aborted", 41)]


async def test_cluster_that_is_not_there(viewer: httpx.AsyncClient) -> None:
    assert (await viewer.get(BASE)).status_code == 404
    assert (await viewer.get(f"{BASE}/history")).status_code == 404
