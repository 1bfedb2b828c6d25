"""The pages of transactions and groups on a published state: lists, filters, details, and unknown names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import unescape

import httpx
import msgspec
import pytest

from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import Case
from app.core.hanging.report import SearchReport
from app.core.hanging.service import record_found
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.journals import group_records
from app.core.journals.group_values.classic import ClassicGroup
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, GroupState, LiveGroup
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.live_cluster import LiveCluster
from app.core.observing.pages.transactions import PAGE_SIZE
from app.core.observing.snapshot import ReadingPhase
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from app.kit.printable import is_odd
from app.kit.web.pages import shared_looks
from tests.support.control_plane import ControlPlane
from tests.support.event_streams import streamed
from tests.support.fencing import lost_membership, put_down, timeout
from tests.support.hanging_samples import hanging_transaction
from tests.support.observing import (
    NOW_MS,
    ODD,
    generation_batch,
    hear,
    observed_cluster,
    offset_batch,
    publish,
    state_of,
    transaction_batch,
)
from tests.support.odd_names import EVIL, in_bash
from tests.support.wiring import client_of, token_of


@pytest.fixture
async def live(wiring: Wiring) -> LiveCluster:
    async with client_of(create_users_app(wiring), token="none") as made:
        # The first request of a process builds all routes, for seconds, in which the snapshot would become stale.
        await made.get("/login")
    return await observed_cluster(wiring)


@asynccontextmanager
async def viewing(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with client_of(create_users_app(wiring), token=await token_of(wiring, Role.VIEWER)) as made:
        made.headers["accept"] = "text/html"
        yield made


@pytest.fixture
async def viewer(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with viewing(wiring) as made:
        yield made


@dataclass(frozen=True, slots=True)
class StandingClock:
    at: datetime

    def now(self) -> datetime:
        return self.at


async def shown(
    client: httpx.AsyncClient, path: str, *, answers: int = 200, query: dict[str, str] | None = None, **more: str
) -> str:
    answer = await client.get(path, params={**(query or {}), **more} or None)
    assert answer.status_code == answers, answer.text
    return answer.text


def rows(html: str, table: str) -> list[str]:
    """The copied name of each row."""
    body = re.search(rf'id="{table}">.*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    return [] if body is None else re.findall(r'<th scope="row".*?data-copy="([^"]*)"', body[1], re.DOTALL)


async def test_every_id_is_listed_with_its_state(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    html = await shown(viewer, "/transactions")
    assert rows(html, "transactions") == [ODD, "done"]
    assert "Ongoing" in html
    assert "CompleteCommit" in html
    assert "1 min ago" in html
    assert "Read from <code>__transaction_state</code>." in html


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"search": "DON"}, ["done"]),
        ({"state": "open"}, [ODD]),
        ({"state": "CompleteCommit"}, ["done"]),
        ({"min_open_s": "60"}, [ODD]),
        ({"owner": "ours"}, []),
        ({"owner": "foreign", "sort": "id"}, [ODD, "done"]),
        ({"search": "", "state": "", "min_open_s": "", "owner": "", "sort": "long_open"}, [ODD, "done"]),
    ],
    ids=str,
)
async def test_ids_are_filtered_by_the_form(
    live: LiveCluster, viewer: httpx.AsyncClient, query: dict[str, str], expected: list[str]
) -> None:
    html = await shown(viewer, "/transactions", cluster="c", query=query)
    assert rows(html, "transactions") == expected
    assert ("No matching id" in html) is not expected


async def test_ids_are_filtered_by_their_pipeline(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient, database: Database
) -> None:
    plane = ControlPlane(database)
    for name, owned in (("flights", ODD), ("Late_2", "done")):
        await plane.pipeline(name, cluster="c")
        async with wiring.unit_of_work() as uow:
            await uow.of(TransactionalIdStore).claim(pipeline=name, kafka_cluster_id="kafka-1", ids=[(owned, 0, 1)])
            await uow.commit()
    html = await shown(viewer, "/transactions", cluster="c", owner="pipeline:Late_2")
    assert rows(html, "transactions") == ["done"]
    assert '<option value="pipeline:Late_2" selected>' in html
    assert '<option value="pipeline:flights">' in html
    assert rows(await shown(viewer, "/transactions", cluster="c", owner="ours"), "transactions") == [ODD, "done"]
    assert rows(await shown(viewer, "/transactions", cluster="c", owner="foreign"), "transactions") == []
    assert rows(await shown(viewer, "/transactions", cluster="c", owner="pipeline:nobody"), "transactions") == []


async def test_many_ids_are_paged_and_a_page_leads_to_the_next(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    more = PAGE_SIZE
    batches = [transaction_batch(f"z{n:04}", state_of(TransactionStatus.EMPTY), at=2 + n) for n in range(more)]
    hear(live, *batches)
    publish(wiring, live)
    first = await shown(viewer, "/transactions", cluster="c", sort="id")
    assert len(rows(first, "transactions")) == PAGE_SIZE
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = await shown(viewer, following[1].replace("&amp;", "&"))
    assert rows(second, "transactions") == [f"z{more - 2:04}", f"z{more - 1:04}"]
    assert 'rel="first"' in second


@pytest.mark.parametrize(
    "query", [{"state": "Nonsense"}, {"owner": "me"}, {"min_open_s": "-1"}, {"after": "!"}], ids=str
)
async def test_invalid_parameters_are_refused(
    live: LiveCluster, viewer: httpx.AsyncClient, query: dict[str, str]
) -> None:
    await shown(viewer, "/transactions", answers=422, cluster="c", query=query)


async def test_id_has_partitions_pending_offsets_and_history(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    html = await shown(viewer, "/transactions/id", cluster="c", id=ODD)
    assert 'href="/clusters/c/log/orders/0"' in html
    assert 'data-copy="orders/copier"' in html
    assert "first seen" in html
    assert "<title>7:0, Seen for the first time" in html
    assert "foreign" in html
    # A viewer may not fence.
    assert "Fence…" not in html


async def test_epochs_and_rebalances_are_on_one_timeline(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    hear(live, generation_batch("orders/copier", 17, at=2), topic=group_records.TOPIC)
    publish(wiring, live)
    for html in (
        await shown(viewer, "/transactions/id", cluster="c", id=ODD),
        await shown(viewer, "/groups/group", cluster="c", name="orders/copier"),
    ):
        assert html.count('<div class="lane">') == 2
        assert "<title>generation 17: members 1</title>" in html
        assert "<title>7:0, Seen for the first time" in html


async def test_fencings_of_a_group_are_marked_on_the_victims_lane_with_links(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    hear(live, generation_batch("orders/copier", 17, at=2), topic=group_records.TOPIC)
    publish(wiring, live)
    # After all that the lanes begin with.
    at = datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(seconds=1)
    epoch = [
        Case(msgspec.structs.replace(case.key, transactional_id=ODD), case.evidence)
        for case in timeout("kafka-1", at=at)
    ]
    place = lost_membership("kafka-1", group="orders/copier", at=at, transactional_id=ODD)
    await put_down(wiring.unit_of_work, [*epoch, place], now=at)
    html = await shown(viewer, "/groups/group", cluster="c", name="orders/copier")
    assert len(re.findall(r'<tr id="fencing-', html)) == 2
    of_group, of_id = re.findall(r'<div class="lane">(.*?)</div>', html, re.DOTALL)
    for lane, cause in ((of_group, "stale generation"), (of_id, "timeout")):
        (mark,) = re.findall(r'<a href="(/fencing/[^"]+)" aria-label="([^"]+)">', lane)
        assert mark[1].startswith(f"{cause}: ")
        assert mark[1].split(": ")[1][:20] in await shown(viewer, mark[0])
    of_this_group = re.search(r'<a href="([^"]+)">All fencing events of this group</a>', html)
    assert of_this_group is not None
    for path, events in ((unescape(of_this_group[1]), 2), ("/fencing?cluster=c&group=other", 0)):
        assert len(re.findall(r'<tr id="fencing-', await shown(viewer, path))) == events
    # The same on the id's own page.
    html = await shown(viewer, "/transactions/id", cluster="c", id=ODD)
    assert len(re.findall(r'<a href="/fencing/[^"]+" aria-label="', html)) == 2


async def test_operator_gets_a_link_to_fence_an_open_transaction(wiring: Wiring, live: LiveCluster) -> None:
    async with client_of(create_users_app(wiring), token=await token_of(wiring, Role.OPERATOR)) as operator:
        assert "/stuck/fence?cluster=c" in await shown(operator, "/transactions/id", cluster="c", id=ODD)
        assert "Fence…" not in await shown(operator, "/transactions/id", cluster="c", id="done")


async def test_page_of_an_unknown_id_waits_for_it(wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    html = await shown(viewer, "/transactions/id", answers=404, cluster="c", id="later")
    assert "no transactional id later is known on c" in html
    assert "/transactions/id/stream?cluster=c&amp;id=later" in html
    hear(live, transaction_batch("later", state_of(), at=2))
    publish(wiring, live)
    assert "Ongoing" in await shown(viewer, "/transactions/id", cluster="c", id="later")


@pytest.mark.parametrize("name", ["", "stream", "a b&c=d", "..", '<img src=x onerror="alert(1)">', "nul\x00"])
async def test_ids_of_odd_characters_have_their_page(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient, name: str
) -> None:
    hear(live, transaction_batch(name, state_of(), at=2))
    publish(wiring, live)
    html = await shown(viewer, "/transactions", cluster="c")
    assert "<img" not in html
    assert len(rows(html, "transactions")) == 3
    assert "Ongoing" in await shown(viewer, "/transactions/id", cluster="c", id=name)


async def test_a_name_with_control_characters_is_copied_as_one_shell_word(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    hear(live, transaction_batch(EVIL, state_of(), at=2))
    publish(wiring, live)
    listed = rows(await shown(viewer, "/transactions", cluster="c"), "transactions")
    own = re.findall(r'data-copy="([^"]*)"', await shown(viewer, "/transactions/id", cluster="c", id=EVIL))
    copied = next(unescape(one) for one in listed if "[2J" in one)
    assert copied == unescape(own[0])
    assert not is_odd(copied)
    assert in_bash([copied], "C.UTF-8") == [EVIL.encode()]


async def test_groups_are_listed_and_chosen(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    assert rows(await shown(viewer, "/groups"), "groups") == ["orders/copier"]
    assert rows(await shown(viewer, "/groups", pending="no"), "groups") == []
    assert rows(await shown(viewer, "/groups", kind="offsets_only", state="Empty"), "groups") == ["orders/copier"]


async def test_one_group_has_stored_and_pending_offsets(live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    html = await shown(viewer, "/groups/group", cluster="c", name="orders/copier")
    states = re.findall(r"<span class=\"pill \w+\">(committed|pending)</span>", html)
    assert states == ["committed", "pending"]
    assert f'data-copy="{ODD}"' in html
    assert "no group nobody is known on c" in await shown(
        viewer, "/groups/group", answers=404, cluster="c", name="nobody"
    )


@pytest.mark.parametrize("state", GroupState)
async def test_group_from_its_coordinator_shows_no_guesses(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient, state: GroupState
) -> None:
    live.enter(live.groups.topic, ReadingPhase.REFUSED, problem="may not be read", now_ms=0)
    told = LiveGroup("polled", classic=ClassicGroup("consumer", -1), answered_state=state)
    told.pending["orders", 0, -1] = CommittedOffset(OffsetCommit(-1), -1)
    live.groups.polled({"polled": told}, now_ms=int(wiring.clock.now().timestamp() * 1000))
    publish(wiring, live)
    assert rows(await shown(viewer, "/groups"), "groups") == ["polled"]
    html = await shown(viewer, "/groups/group", cluster="c", name="polled")
    assert state in html
    assert "May not be read. They were asked " in html
    assert "not reported by the coordinator" in html
    assert 'class="number">-1<' not in html


@pytest.mark.parametrize("path", ["/transactions", "/groups"])
async def test_empty_pages_explain_themselves(wiring: Wiring, viewer: httpx.AsyncClient, path: str) -> None:
    assert "No cluster is registered yet" in await shown(viewer, path)
    live = await observed_cluster(wiring)
    for journal in (live.transactions, live.groups):
        live.enter(journal.topic, ReadingPhase.ABSENT, now_ms=0)
    publish(wiring, live)
    html = await shown(viewer, path)
    assert "no client has used it" in html
    assert re.search("No (transactional id|group) yet", html)


async def test_page_that_is_not_live_is_marked(wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient) -> None:
    for journal in (live.transactions, live.groups):
        live.enter(journal.topic, ReadingPhase.LOST, problem="no broker answers at 127.0.0.1:1", now_ms=0)
    publish(wiring, live)
    for path in ("/transactions", "/groups"):
        html = await shown(viewer, path)
        assert '<p class="notice warn">' in html
        assert "no broker answers at 127.0.0.1:1" in html
        assert rows(html, path[1:]), "what was read stays"


async def test_skipped_records_are_noted(wiring: Wiring, live: LiveCluster) -> None:
    now = wiring.clock.now()
    snapshot = live.snapshot(now_ms=int(now.timestamp() * 1000))
    unreadable = {"value version 9": 2}
    journal = msgspec.structs.replace(snapshot.transaction_journal, unreadable=unreadable, complete_since_ms=0)
    changed = msgspec.structs.replace(snapshot, transaction_journal=journal, records_of_unwanted_groups=7)
    wiring.observations.publish(changed)
    # However long a page takes, the snapshot is of this moment.
    standing = replace(wiring, clock=StandingClock(now))
    async with viewing(standing) as viewer:
        html = await shown(viewer, "/transactions")
        groups = await shown(viewer, "/groups")
    assert "2 records of <code>__transaction_state</code> could not be read: value version 9 (2)." in html
    assert 'complete history since <time datetime="1970' in html
    assert "observed_groups" not in html
    assert "7 records of groups outside the setting <code>observed_groups</code> were skipped" in groups


@pytest.mark.parametrize("path", ["/transactions", "/groups"])
async def test_change_is_streamed(
    wiring: Wiring, live: LiveCluster, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_looks, "LOOK_AGAIN_S", 3_600)
    token = await token_of(wiring, Role.VIEWER)
    async with asyncio.timeout(30):
        async with aclosing(
            streamed(create_users_app(wiring), f"{path}/stream", query="cluster=c", token=token)
        ) as parts:
            while "data-copy" not in await anext(parts):
                pass
            hear(live, transaction_batch("just-now", state_of(), at=2))
            hear(live, offset_batch("just-now", 1, at=2), topic=group_records.TOPIC)
            publish(wiring, live)
            while 'data-copy="just-now"' not in await anext(parts):
                pass


async def test_hanging_transactions_are_above_the_list_and_on_the_overview(
    wiring: Wiring, live: LiveCluster, viewer: httpx.AsyncClient
) -> None:
    assert 'id="hanging"' not in await shown(viewer, "/transactions", cluster="c")
    hear(live, offset_batch("billing", 41, at=7, producer_id=4015, committed_ms=1), topic=group_records.TOPIC)
    publish(wiring, live)
    async with wiring.unit_of_work() as uow:
        kafka_cluster_id = (await uow.of(ClusterStore).get("c")).kafka_cluster_id
        found = hanging_transaction(kafka_cluster_id=kafka_cluster_id, topic=group_records.TOPIC, seen_ms=1_000)
        await record_found(uow, [found], now=datetime.now(UTC))
        await uow.commit()
    wiring.observations.note_search(
        SearchReport(
            cluster="c",
            swept_ms=int(wiring.clock.now().timestamp() * 1000),
            hanging=(found,),
            silent=("broker 2 does not answer",),
        )
    )
    html = await shown(viewer, "/transactions", cluster="c")
    assert "1 hanging transaction" in html
    assert "/stuck?cluster=c&amp;target=__consumer_offsets%3A0" in html
    assert re.search(r'id="blocked-billing-orders-0"', html)
    assert "Hanging transactions may be missing: broker 2 does not answer." in html
    overview = await shown(viewer, "/")
    assert ">hanging transaction</span>" in overview
    assert "producer 4015 epoch 2 hangs in __consumer_offsets-0" in overview
