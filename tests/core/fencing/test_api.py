"""Fencing events over REST: lists, filters, pages, and one event with its evidence."""

from __future__ import annotations

from datetime import datetime, timedelta

import httpx
import pytest

from app.core.wiring import Wiring
from app.kit.access import Role
from tests.core.fencing.coordinator import ID
from tests.support.fencing import clean_restart, lost_membership, put_down, refusal, register, takeover, timeout
from tests.support.fixtures import AsRole

BASE = "/api/v1/fencing"


@pytest.fixture
async def began(api_wiring: Wiring) -> datetime:
    """Three events and a clean restart, a minute apart, on two registered clusters and a removed one."""
    await register(api_wiring.unit_of_work, "a", "kafka-a")
    await register(api_wiring.unit_of_work, "b", "kafka-b")
    at = api_wiring.clock.now() - timedelta(hours=1)
    cases = [
        *takeover("kafka-a", at=at),
        refusal("kafka-a", at=at + timedelta(seconds=1)),
        *timeout("kafka-b", at=at + timedelta(minutes=1)),
        *takeover("kafka-gone", at=at + timedelta(minutes=2)),
        *clean_restart("kafka-also-gone", at=at + timedelta(minutes=3)),
    ]
    await put_down(api_wiring.unit_of_work, cases, now=api_wiring.clock.now())
    return at


@pytest.fixture
async def viewer(as_role: AsRole) -> httpx.AsyncClient:
    return await as_role(Role.VIEWER)


async def told(viewer: httpx.AsyncClient, **query: object) -> list[tuple[str | None, str]]:
    answer = await viewer.get(BASE, params={name: str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return [(item["cluster"], item["cause"]) for item in answer.json()["items"]]


async def test_events_are_newest_first_with_the_clusters_name(began: datetime, viewer: httpx.AsyncClient) -> None:
    assert await told(viewer) == [(None, "takeover"), ("b", "timeout"), ("a", "takeover")]


async def test_list_is_filtered(began: datetime, viewer: httpx.AsyncClient) -> None:
    assert await told(viewer, cluster="a") == [("a", "takeover")]
    assert await told(viewer, pipeline="delayed-flights") == [("a", "takeover")]
    assert await told(viewer, cause="timeout") == [("b", "timeout")]
    assert await told(viewer, since=(began + timedelta(seconds=90)).isoformat()) == [(None, "takeover")]
    assert await told(viewer, until=(began + timedelta(seconds=30)).isoformat()) == [("a", "takeover")]
    assert await told(viewer, transactional_id="another") == []


async def test_list_is_filtered_by_group(api_wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    at = api_wiring.clock.now()
    await register(api_wiring.unit_of_work, "a", "kafka-a")
    lost = [lost_membership("kafka-a", group=group, at=at, transactional_id=f"of {group}") for group in ("g", "h")]
    await put_down(api_wiring.unit_of_work, lost, now=at)
    assert await told(viewer, group="g") == [("a", "stale_generation")]
    assert await told(viewer, group="g", cluster="a") == [("a", "stale_generation")]
    assert await told(viewer, group="of g") == []


async def test_other_events_are_listed_on_request(began: datetime, viewer: httpx.AsyncClient) -> None:
    assert await told(viewer, cause="clean_restart") == [(None, "clean_restart")]
    assert len(await told(viewer, with_what_is_none=True)) == 4


async def test_pages_follow_each_other_without_a_gap(began: datetime, viewer: httpx.AsyncClient) -> None:
    seen: list[str] = []
    after: str | None = None
    for _ in range(3):
        answer = (await viewer.get(BASE, params={"limit": 1, **({"after": after} if after else {})})).json()
        seen += [item["id"] for item in answer["items"]]
        after = answer["next_cursor"]
    assert after is None
    assert len(set(seen)) == 3


async def test_event_has_its_evidence_and_owner(began: datetime, viewer: httpx.AsyncClient) -> None:
    (item,) = (await viewer.get(BASE, params={"cluster": "a"})).json()["items"]
    body = (await viewer.get(f"{BASE}/{item['id']}")).json()
    assert {name: body[name] for name in item} == item
    assert (body["transactional_id"], body["producer_id"], body["producer_epoch"]) == (ID, 7, 0)
    assert (body["confidence"], body["alternatives"]) == ("certain", [])
    assert body["place"]["pipeline"] == "delayed-flights"
    assert [one["record"]["status"] for one in body["evidence"] if one["source"] == "coordinator"] == [
        "Ongoing",
        "PrepareAbort",
        "CompleteAbort",
        "Empty",
        "Ongoing",
    ]
    assert [one["message"] for one in body["evidence"] if one["source"] == "client"] == ["could not commit"]
    assert [one["side"] for one in body["moments"] if not one["is_own_word"]] == ["old", "old", "old", "new", "new"]
    assert len(body["runbook"]) == 3


async def test_correction_has_the_earlier_verdict(api_wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    at = api_wiring.clock.now() - timedelta(minutes=1)
    await put_down(api_wiring.unit_of_work, clean_restart("kafka-a", at=at), now=api_wiring.clock.now())
    await put_down(api_wiring.unit_of_work, [refusal("kafka-a", at=at)], now=api_wiring.clock.now())
    (item,) = (await viewer.get(BASE)).json()["items"]
    assert item["cause"] == "zombie_refused"
    (before,) = (await viewer.get(f"{BASE}/{item['id']}")).json()["corrections"]
    assert (before["cause"], before["is_fencing"], before["confidence"]) == ("clean_restart", False, "likely")


async def test_unknown_cluster_or_event_is_not_found(viewer: httpx.AsyncClient) -> None:
    assert (await viewer.get(BASE, params={"cluster": "nobody"})).status_code == 404
    assert (await viewer.get(f"{BASE}/00000000-0000-0000-0000-000000000000")).status_code == 404
    for not_a_moment in ("2026-01-01", "0.5", "-1700000000", "2026-01-01T00:00:00"):
        assert (await viewer.get(BASE, params={"since": not_a_moment})).status_code == 422, not_a_moment


async def test_metrics_count_events_and_start_at_zero(api_wiring: Wiring, viewer: httpx.AsyncClient) -> None:
    async def counted(cause: str) -> float:
        text = (await viewer.get("/metrics")).text
        (line,) = [line for line in text.splitlines() if "fencing_events_total" in line and f'cause="{cause}"' in line]
        return float(line.rpartition(" ")[2])

    await register(api_wiring.unit_of_work, "a", "kafka-a")
    now = api_wiring.clock.now()
    at = now - timedelta(minutes=1)
    assert await counted("zombie_refused") == 0
    restarted = clean_restart("kafka-a", at=at)
    for _ in range(2):
        await put_down(api_wiring.unit_of_work, restarted, now=now)
    assert await counted("clean_restart") == 1
    await put_down(api_wiring.unit_of_work, [refusal("kafka-a", at=at)], now=now)
    assert (await counted("clean_restart"), await counted("zombie_refused")) == (1, 1)
