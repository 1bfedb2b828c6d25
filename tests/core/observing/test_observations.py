"""One change wakes any number of waiting viewers, and many changes are one."""

from __future__ import annotations

import asyncio

import msgspec

from app.core.hanging.report import SearchReport
from app.core.observing.service.observations import Observations, notice_of
from app.core.observing.snapshot import ReadingPhase, Snapshot
from tests.support.hanging_samples import hanging_transaction
from tests.support.observing import NOW_MS, cluster

LONG_S = 30.0


def numbered(number: int, *, name: str = "c") -> Snapshot:
    return msgspec.structs.replace(cluster().snapshot(now_ms=NOW_MS), number=number, cluster=name)


async def test_change_wakes_every_reader_at_once() -> None:
    observations = Observations(is_on=True)
    observations.publish(numbered(1))
    readers = [asyncio.create_task(observations.newer("c", than=1, timeout_s=LONG_S)) for _ in range(500)]
    await asyncio.sleep(0)
    observations.publish(numbered(2))
    observations.publish(numbered(3))
    found = await asyncio.gather(*readers)
    assert {snapshot.number for snapshot in found} == {3}


async def test_reader_that_is_behind_does_not_wait() -> None:
    observations = Observations(is_on=True)
    observations.publish(numbered(7))
    assert (await observations.newer("c", than=3, timeout_s=LONG_S)).number == 7


async def test_reader_waits_for_its_own_cluster_only() -> None:
    observations = Observations(is_on=True)
    observations.publish(numbered(1))
    waiting = asyncio.create_task(observations.newer("c", than=1, timeout_s=LONG_S))
    await asyncio.sleep(0)
    observations.publish(numbered(1, name="other"))
    await asyncio.sleep(0)
    assert not waiting.done()
    observations.publish(numbered(2))
    assert (await waiting).number == 2


async def test_timeout_returns_the_same_snapshot() -> None:
    observations = Observations(is_on=True)
    observations.publish(numbered(1))
    assert (await observations.newer("c", than=1, timeout_s=0.01)).number == 1


async def test_reader_can_wait_for_the_first_snapshot_of_all() -> None:
    observations = Observations(is_on=True)
    waiting = asyncio.create_task(observations.newer("c", than=0, timeout_s=LONG_S))
    await asyncio.sleep(0)
    observations.publish(numbered(1))
    assert (await waiting).number == 1


def test_only_changes_are_announced() -> None:
    announced: list[str] = []
    observations = Observations(is_on=True, announce=announced.append)
    for number in (1, 1, 2):
        observations.publish(numbered(number))
    observations.forget("c")
    observations.forget("c")
    assert announced == [notice_of("c")] * 3


def test_unknown_cluster_has_a_reason() -> None:
    assert Observations(is_on=True).of("c").transaction_journal.phase is ReadingPhase.CONNECTING
    off = Observations(is_on=False).of("c")
    assert off.group_journal.phase is ReadingPhase.OFF
    assert "`observe`" in off.group_journal.problem
    assert not off.transactions


async def test_wait_for_a_position_without_changes() -> None:
    """The position advances while no id changes."""
    observations = Observations(is_on=True)
    first = numbered(1)
    observations.publish(first)
    waiting = asyncio.create_task(observations.until("c", lambda one: one.at_ms > NOW_MS, timeout_s=LONG_S))
    await asyncio.sleep(0)
    observations.publish(msgspec.structs.replace(first, at_ms=NOW_MS + 1))
    assert (await waiting).at_ms == NOW_MS + 1
    assert (await observations.until("c", lambda _: False, timeout_s=0.01)).number == 1


def test_only_changes_of_a_search_are_announced() -> None:
    announced: list[str] = []
    observations = Observations(is_on=True, announce=announced.append)
    assert observations.search_of("c").swept_ms == -1
    report = SearchReport(cluster="c", swept_ms=NOW_MS)
    for swept_ms in (NOW_MS, NOW_MS + 5_000):
        observations.note_search(msgspec.structs.replace(report, swept_ms=swept_ms, held_back=swept_ms))
    assert len(announced) == 1
    found = msgspec.structs.replace(report, hanging=(hanging_transaction(),))
    observations.note_search(found)
    observations.note_search(found)
    observations.forget_search("c")
    assert announced == [notice_of("c")] * 3
    assert "`observe`" in Observations(is_on=False).search_of("c").problem
