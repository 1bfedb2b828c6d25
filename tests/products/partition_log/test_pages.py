"""The page of a partition's log for invented logs: states, markers, records, links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest

from app.core.clusters.brokers import Brokers, TransactionalIds
from app.core.clusters.partition import Partition
from app.core.journals.log_content import Content
from app.core.journals.log_entries import EntryState, LogRecord
from app.core.journals.log_look import LogLook
from app.core.journals.record_batch import MarkerType
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.users_app import create_users_app
from app.kit import access
from app.kit.access import Role
from app.kit.errors import InvalidError
from app.kit.web.pages import screen
from app.kit.words import moment
from app.products.partition_log.service import PartitionLog
from tests.core.journals.logs import WrittenLog, taken_over
from tests.support.event_streams import streamed
from tests.support.fencing import register
from tests.support.page_samples import NOW
from tests.support.topics import unique_name
from tests.support.wiring import client_of, settings_for_test, token_of, wired


def shown(found: PartitionLog | None, *, role: Role = Role.OPERATOR, **more: Any) -> str:
    def may(verb: access.Verb) -> bool:
        return access.allows(role, verb)

    context: dict[str, Any] = {
        "cluster": "demo",
        "topic": "flights",
        "partition": 0,
        "start": "0",
        "limit": 50,
        "limits": [(50, 50)],
        "keys": False,
        "values": False,
        "may_see_records": access.allows(role, access.Verb.READ_RECORDS),
        "log": found,
        "error": None,
        "is_gone": False,
        "last_abort": 1,
        "moment": moment,
        "may": may,
        "now": NOW,
        **more,
    }
    return screen.render("partition_log/_detail", context)


class Logs:
    """Brokers with one partition, whose log is `written`; it counts the lookups of producers."""

    def __init__(self) -> None:
        self.written = WrittenLog()
        self.written.data(7, epoch=5)
        self.asked_whose = 0

    async def read_partition_log(self, connection: object, at: Partition, *, start: object, **_: object) -> LogLook:
        if start == 99:
            raise InvalidError(f"offset 99 is out of range: {at.topic}-{at.partition} has offsets 0 to 3")
        return self.written.look()

    async def read_transactional_ids(self, connection: object, producer_ids: Collection[int]) -> TransactionalIds:
        self.asked_whose += 1
        return TransactionalIds(dict.fromkeys(producer_ids, "payments"), "as far as ListTransactions tells")


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
async def wiring(database: Database, tmp_path: Path, logs: Logs) -> AsyncGenerator[Wiring]:
    async with wired(database.url, settings_for_test(tmp_path)) as made:
        await register(made.unit_of_work, "demo", "kafka-demo")
        yield replace(made, brokers=cast(Brokers, logs))


async def page_of(wiring: Wiring, role: Role, **query: str) -> httpx.Response:
    async with client_of(create_users_app(wiring), token=await token_of(wiring, role, name=unique_name("t"))) as client:
        return await client.get("/clusters/demo/log/flights/0", params=query, headers={"accept": "text/html"})


@pytest.mark.parametrize("state", [state for state in EntryState if state is not EntryState.MARKER])
def test_every_state_of_a_batch_has_a_colour_and_a_text(state: EntryState) -> None:
    found = taken_over("flights")
    entries = (msgspec.structs.replace(found.entries[0], state=state),)
    html = shown(msgspec.structs.replace(found, entries=entries))
    assert f">{state.value}</span>" in html


def test_marker_points_at_what_it_decides_and_back() -> None:
    html = shown(taken_over("flights"))
    assert 'id="at-1" class="is-marker" data-lights="7"' in html
    assert 'decides 1 record from <a href="#at-0">0</a>' in html
    assert 'by the marker at <a href="#at-1">1</a>' in html


def test_jumps_lead_to_the_first_open_transaction_and_the_last_abort() -> None:
    html = shown(taken_over("flights"))
    assert "/clusters/demo/log/flights/0?from=lso&amp;limit=50" in html
    assert 'href="#at-1">Last abort here' in html
    assert "First open" not in shown(
        msgspec.structs.replace(
            taken_over("flights"),
            bounds=msgspec.structs.replace(
                taken_over("flights").bounds, last_stable_offset=taken_over("flights").bounds.high_watermark
            ),
        )
    )


def test_records_are_escaped_text() -> None:
    record = LogRecord(
        offset=0,
        timestamp_ms=0,
        key=Content(text="<img src=x onerror=alert(1)>", size_bytes=28),
        value=Content(text="/w==", is_base64=True, size_bytes=9_999, is_cut=True),
    )
    found = taken_over("flights")
    entries = (msgspec.structs.replace(found.entries[0], records=(record,), transactional_id="<b>"),)
    html = shown(msgspec.structs.replace(found, entries=entries), keys=True, values=True)
    assert "<img" not in html
    assert "<b>" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "9,999 bytes in all" in html


@pytest.mark.parametrize("role", list(Role))
async def test_records_are_offered_to_operators_only(wiring: Wiring, role: Role) -> None:
    html = (await page_of(wiring, role)).text
    assert ('name="values"' in html) is role.includes(Role.OPERATOR)
    assert (await page_of(wiring, role, values="true")).status_code == (200 if role.includes(Role.OPERATOR) else 403)


async def test_wrong_offset_is_named_and_stays_in_its_field(wiring: Wiring) -> None:
    answer = await page_of(wiring, Role.VIEWER, **{"from": "99"})
    assert answer.status_code == 422
    assert "offset 99 is out of range" in answer.text
    assert 'value="99"' in answer.text


async def test_the_log_goes_on_by_itself_and_asks_whose_a_producer_is_once(wiring: Wiring, logs: Logs) -> None:
    token = await token_of(wiring, Role.VIEWER)
    path = "/clusters/demo/log/flights/0/stream"
    async with asyncio.timeout(30), aclosing(streamed(create_users_app(wiring), path, token=token)) as parts:
        while ">open</span>" not in await anext(parts):
            pass
        logs.written.mark(7, MarkerType.ABORT, epoch=6)
        part = ""
        while ">aborted</span>" not in part:
            part = await anext(parts)
        assert ">open</span>" not in part
        assert "payments" in part
        assert "as far as ListTransactions tells" in part
    assert logs.asked_whose == 1


async def test_records_are_not_refreshed_so_that_each_view_is_in_the_command_log(wiring: Wiring) -> None:
    assert "hx-sse:connect" in (await page_of(wiring, Role.OPERATOR)).text
    answer = await page_of(wiring, Role.OPERATOR, keys="true")
    assert "hx-sse:connect" not in answer.text
    assert "load it again for newer records" in answer.text
    token = await token_of(wiring, Role.OPERATOR)
    async with client_of(create_users_app(wiring), token=token) as client:
        refused = await client.get("/clusters/demo/log/flights/0/stream", params={"values": "true"})
    assert refused.status_code == 422


def test_empty_partition_says_what_would_appear() -> None:
    empty = PartitionLog(
        topic="flights",
        partition=0,
        bounds=WrittenLog().look().bounds,
        start=0,
        next_offset=0,
        is_at_end=True,
        entries=(),
    )
    assert "The partition is empty" in shown(empty, last_abort=None)


@pytest.mark.parametrize("timestamp_ms", [None, -1, 2**62])
def test_time_that_no_calendar_has_is_a_dash(timestamp_ms: int | None) -> None:
    found = taken_over("flights")
    entries = (msgspec.structs.replace(found.entries[0], timestamp_ms=timestamp_ms),)
    assert "<time" not in shown(msgspec.structs.replace(found, entries=entries))
