"""Observed transactions and groups over REST: the published state, with its freshness."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import msgspec
import pytest

from app.core.blocked.readers import BlockedReport, blocked_readers
from app.core.hanging.report import SearchReport
from app.core.journals.group_values.classic import ClassicGroup
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, GroupState, LiveGroup
from app.core.journals.transaction_state import TOPIC, TransactionStatus
from app.core.observing.live_cluster import LiveCluster
from app.core.observing.schemas.transactions import StateWord
from app.core.observing.snapshot import ReadingPhase
from app.core.wiring import Wiring
from app.kit.access import Role
from tests.core.blocked.answers import asked, held
from tests.support.fixtures import AsRole
from tests.support.observing import (
    NOW_MS,
    ODD,
    hear,
    live_transaction,
    observed_cluster,
    publish,
    state_of,
    transaction_batch,
)

BASE = "/api/v1/clusters/c"


@pytest.fixture
async def live(api_wiring: Wiring) -> LiveCluster:
    return await observed_cluster(api_wiring)


@pytest.fixture
async def viewer(as_role: AsRole) -> httpx.AsyncClient:
    return await as_role(Role.VIEWER)


async def test_ids_are_listed_with_freshness(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    answer = (await viewer.get(f"{BASE}/transactions")).json()
    assert [item["transactional_id"] for item in answer["items"]] == [ODD, "done"]
    first = answer["items"][0]
    assert first["owner"] is None
    assert (first["state"], first["is_open"], first["source"]) == ("Ongoing", True, "journal")
    assert first["open_ms"] >= 90_000
    assert first["topics"] == [{"topic": "orders", "partitions": [0]}]
    assert answer["matching"] == 2
    reading = answer["reading"]
    assert (reading["phase"], reading["source"], reading["is_whole"], reading["lag_records"]) == (
        "live",
        "journal",
        True,
        0,
    )
    assert 0 <= reading["age_ms"] < 60_000


async def test_pace_is_by_second(api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    now_ms = int(api_wiring.clock.now().timestamp() * 1000)
    ended = state_of(TransactionStatus.COMPLETE_COMMIT, start_ms=now_ms - 90_000)
    hear(live, transaction_batch(ODD, ended, at=2, at_ms=now_ms - 10_000), now_ms=now_ms)
    hear(
        live, transaction_batch("slow", state_of(start_ms=now_ms - 60_000), at=3, at_ms=now_ms - 60_000), now_ms=now_ms
    )
    publish(api_wiring, live)
    answer = (await viewer.get(f"{BASE}/transaction-pace")).json()
    assert (answer["ids"], answer["open_transactions"], answer["oldest"]) == (3, 1, "slow")
    by_age = [sample["oldest_ms"] // 1_000 for sample in answer["samples"]]
    # The one that was open for 90 s is the oldest until its end, 10 s ago; then it is the one of 60 s.
    assert max(by_age) == pytest.approx(80, abs=1)
    assert by_age[-1] == pytest.approx(60, abs=1)
    assert sum(sample["commits"] for sample in answer["samples"]) == 1
    assert (await viewer.get("/api/v1/clusters/nobody/transaction-pace")).status_code == 404


async def test_list_is_filtered_and_paged(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    async def ids(**query: object) -> list[str]:
        answer = await viewer.get(f"{BASE}/transactions", params={name: str(value) for name, value in query.items()})
        assert answer.status_code == 200, answer.text
        return [item["transactional_id"] for item in answer.json()["items"]]

    assert await ids(is_open=False) == ["done"]
    assert await ids(state="Ongoing") == [ODD]
    assert await ids(min_open_s=60) == [ODD]
    assert await ids(search="DON") == ["done"]
    assert await ids(owner="ours") == []
    assert await ids(owner="foreign") == [ODD, "done"]
    page = (await viewer.get(f"{BASE}/transactions", params={"limit": 1})).json()
    assert await ids(limit=1, after=page["next_cursor"]) == ["done"]


async def test_page_after_a_long_name_is_found(
    api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    """Kafka accepts names of 32,767 bytes; the cursor of a list works for them."""
    longest = "漢" * 10_922
    hear(live, transaction_batch(longest, state_of(), at=2))
    publish(api_wiring, live)
    query = {"search": "漢", "limit": "1", "sort": "id"}
    hear(live, transaction_batch(longest[:-1] + "龍", state_of(), at=3))
    publish(api_wiring, live)
    first = (await viewer.get(f"{BASE}/transactions", params=query)).json()
    rest = await viewer.get(f"{BASE}/transactions", params=query | {"after": first["next_cursor"]})
    assert rest.status_code == 200, rest.text
    assert [item["transactional_id"][-1] for item in (*first["items"], *rest.json()["items"])] == ["漢", "龍"]


async def test_one_id_has_its_steps_and_pending_offsets(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    """With any characters in it."""
    answer = await viewer.get(f"{BASE}/transactional-ids/{quote(ODD, safe='')}")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [(step["kind"], step["producer_id"]) for step in body["steps"]] == [("first_seen", 7)]
    assert body["pending_offsets"] == [
        {"group": "orders/copier", "topic": "orders", "partition": 0, "offset": 9, "producer_epoch": 0}
    ]


async def test_id_that_cannot_be_stored_is_foreign(
    api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    hear(live, transaction_batch("nul\x00", state_of(), at=2))
    publish(api_wiring, live)
    answer = await viewer.get(f"{BASE}/transactions", params={"search": "nul"})
    assert answer.status_code == 200, answer.text
    (item,) = answer.json()["items"]
    assert (item["transactional_id"], item["owner"]) == ("nul\x00", None)
    assert (await viewer.get(f"{BASE}/transactional-ids/nul%00")).json()["owner"] is None


async def test_groups_have_stored_and_pending_offsets_with_ids(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    (item,) = (await viewer.get(f"{BASE}/groups", params={"has_pending": "true"})).json()["items"]
    assert (item["group"], item["kind"], item["stored_offsets"], item["pending_offsets"]) == (
        "orders/copier",
        "offsets_only",
        1,
        1,
    )
    body = (await viewer.get(f"{BASE}/groups/orders%2Fcopier")).json()
    assert [(one["offset"], one["is_pending"], one["transactional_id"]) for one in body["offsets"]] == [
        (5, False, None),
        (9, True, ODD),
    ]


async def test_coordinators_answers_have_their_source(
    api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    live.enter(live.transactions.topic, ReadingPhase.REFUSED, problem="may not be read", now_ms=0)
    found = {"polled": live_transaction("polled", state_of(changed_ms=-1), partition=-1, offset=-1)}
    live.transactions.polled(found, now_ms=int(api_wiring.clock.now().timestamp() * 1000))
    publish(api_wiring, live)
    answer = (await viewer.get(f"{BASE}/transactions")).json()
    (item,) = answer["items"]
    assert (item["source"], item["journal_offset"], item["changed_at"]) == ("admin_calls", None, None)
    assert (answer["reading"]["source"], answer["reading"]["problem"]) == ("admin_calls", "may not be read")


async def test_group_from_its_coordinator_has_its_source_and_its_limits(
    api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    live.enter(live.groups.topic, ReadingPhase.REFUSED, problem="may not be read", now_ms=0)
    told = LiveGroup("polled", classic=ClassicGroup("consumer", -1), answered_state=GroupState.COMPLETING_REBALANCE)
    told.offsets["orders", 0] = CommittedOffset(OffsetCommit(5), -1)
    told.pending["orders", 0, -1] = CommittedOffset(OffsetCommit(-1), -1)
    live.groups.polled({"polled": told}, now_ms=int(api_wiring.clock.now().timestamp() * 1000))
    publish(api_wiring, live)
    answer = (await viewer.get(f"{BASE}/groups", params={"state": "CompletingRebalance"})).json()
    (item,) = answer["items"]
    assert (item["source"], item["generation"], item["rebalanced_at"]) == ("admin_calls", -1, None)
    assert (answer["reading"]["source"], answer["reading"]["problem"]) == ("admin_calls", "may not be read")
    offsets = (await viewer.get(f"{BASE}/groups/polled")).json()["offsets"]
    assert [(one["offset"], one["is_pending"], one["at"], one["producer_id"]) for one in offsets] == [
        (5, False, None, None),
        (None, True, None, None),
    ]


async def test_error_for_an_unknown_id_has_the_progress(
    api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    answer = await viewer.get(f"{BASE}/transactional-ids/nobody")
    assert answer.status_code == 404
    assert "no transactional id nobody is known on c" in answer.json()["detail"]
    live.enter(live.groups.topic, ReadingPhase.LOST, problem="no broker answers", now_ms=0)
    publish(api_wiring, live)
    assert "no broker answers" in (await viewer.get(f"{BASE}/groups/nobody")).json()["detail"]


async def test_cluster_without_a_reading_is_no_error(viewer: httpx.AsyncClient, api_wiring: Wiring) -> None:
    assert (await viewer.get("/api/v1/clusters/none/transactions")).status_code == 404
    assert (await viewer.get("/api/v1/clusters/none/observer")).status_code == 404


async def test_observer_has_its_status(api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    body = (await viewer.get(f"{BASE}/observer")).json()
    assert (body["transactional_ids"], body["open_transactions"], body["known_groups"]) == (2, 1, 1)
    assert body["groups"]["records_read"] == 2
    hear(live, transaction_batch("new", state_of(), at=2))
    publish(api_wiring, live)
    assert (await viewer.get(f"{BASE}/observer")).json()["number"] == body["number"] + 1


async def test_metrics_count_observed_ends(live: LiveCluster, api_wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    async def ended() -> list[str]:
        lines = (await viewer.get("/metrics")).text.splitlines()
        return sorted(line for line in lines if line.startswith("fenceline_transactions_ended_total"))

    name = 'fenceline_transactions_ended_total{cluster="c",outcome='
    assert await ended() == [f'{name}"aborted"}} 0.0', f'{name}"committed"}} 0.0'], "the journal's past is not counted"
    hear(live, transaction_batch(ODD, state_of(TransactionStatus.COMPLETE_ABORT), at=2))
    publish(api_wiring, live)
    assert await ended() == [f'{name}"aborted"}} 1.0', f'{name}"committed"}} 0.0']


async def test_metrics_have_lag_age_and_open_transactions(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    text = (await viewer.get("/metrics")).text
    assert 'fenceline_journal_lag_records{cluster="c",topic="__transaction_state"} 0.0' in text
    assert 'fenceline_journal_records_total{cluster="c",topic="__consumer_offsets"} 2.0' in text
    assert 'fenceline_open_transactions{cluster="c"} 1.0' in text
    (oldest,) = [line for line in text.splitlines() if line.startswith("fenceline_oldest_transaction_seconds{")]
    assert float(oldest.split()[-1]) >= 90


async def test_metrics_and_rest_have_blocked_readers(
    live: LiveCluster, api_wiring: Wiring, viewer: httpx.AsyncClient
) -> None:
    del live
    assert (await viewer.get(f"{BASE}/blocked-readers")).json()["at_ms"] == -1
    assert "fenceline_blocked_partitions{" not in (await viewer.get("/metrics")).text
    now_ms = int(api_wiring.clock.now().timestamp() * 1000)
    (cause,), _ = blocked_readers("c", [held(None)], msgspec.structs.replace(asked(), now_ms=now_ms), {})
    report = BlockedReport(
        cluster="c", at_ms=now_ms, causes=(msgspec.structs.replace(cause, since_ms=now_ms - 60_000),)
    )
    api_wiring.observations.note_blocked(report)
    text = (await viewer.get("/metrics")).text
    assert 'fenceline_blocked_partitions{cluster="c"} 1.0' in text
    assert 'fenceline_blocked_records{cluster="c"} 4.0' in text
    (longest,) = [line for line in text.splitlines() if line.startswith("fenceline_blocked_longest_seconds{")]
    assert float(longest.split()[-1]) >= 60
    (shown,) = (await viewer.get(f"{BASE}/blocked-readers")).json()["causes"]
    assert (shown["transactional_id"], shown["verdict"]) == (None, "end")
    assert shown["partitions"][0]["records"] == 4
    assert (await viewer.get("/api/v1/clusters/no-such/blocked-readers")).status_code == 404


async def test_metrics_omit_unknown_values(api_wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    api_wiring.observations.note_search(SearchReport(cluster="c", problem="no broker answers"))
    api_wiring.observations.publish(
        msgspec.structs.replace(api_wiring.observations.of("nobody"), cluster="c", number=1)
    )
    text = (await viewer.get("/metrics")).text
    of_cluster = {line.partition("{")[0] for line in text.splitlines() if '{cluster="c"}' in line}
    # A search that never got through is older than any bound, so that its alert fires.
    assert of_cluster & OF_TRANSACTIONS == {"fenceline_hanging_search_age_seconds"}
    assert 'fenceline_hanging_search_age_seconds{cluster="c"} +Inf' in text

    live.enter(TOPIC, ReadingPhase.LOST, problem="no broker answers", now_ms=NOW_MS)
    lost = live.snapshot(now_ms=NOW_MS)
    status = lost.transaction_journal
    an_hour_ago = msgspec.structs.replace(status, as_of_ms=status.as_of_ms - 3_600_000)
    api_wiring.observations.publish(msgspec.structs.replace(lost, transaction_journal=an_hour_ago, number=2))
    text = (await viewer.get("/metrics")).text
    # It was open for 90 s an hour before it was heard of last: nobody knows that it is open for longer.
    assert 'fenceline_oldest_transaction_seconds{cluster="c"} 0.0' in text


OF_TRANSACTIONS = {
    f"fenceline_{name}"
    for name in (
        "open_transactions",
        "oldest_transaction_seconds",
        "oldest_pending_offset_seconds",
        "hanging_transactions",
        "hanging_unclear_partitions",
        "held_back_partitions",
        "hanging_search_age_seconds",
        "hanging_sweep_seconds",
    )
}


def test_every_state_of_kafka_has_its_name() -> None:
    assert set(StateWord.__args__) == {status.word for status in TransactionStatus}
