"""Whose producer ids these are, by what is followed: without a wait, after one, or not at all."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.service.observations import Observations
from app.core.observing.service.transactional_ids import transactional_ids_of
from app.core.observing.snapshot import ReadingPhase, Snapshot
from tests.support.observing import NOW_MS, cluster, live_transaction, state_of


def followed(
    *found: LiveTransaction, number: int = 1, phase: ReadingPhase = ReadingPhase.LIVE, as_of_ms: int = NOW_MS
) -> Snapshot:
    snapshot = cluster().snapshot(now_ms=NOW_MS)
    return msgspec.structs.replace(
        snapshot,
        cluster="c",
        number=number,
        transactions={one.transactional_id: one for one in found},
        transaction_journal=msgspec.structs.replace(snapshot.transaction_journal, phase=phase, as_of_ms=as_of_ms),
    )


def live(name: str, producer_id: int, *, previous: int = -1) -> LiveTransaction:
    state = state_of(TransactionStatus.ONGOING, start_ms=NOW_MS, changed_ms=NOW_MS)
    return live_transaction(
        name, msgspec.structs.replace(state, producer_id=producer_id, previous_producer_id=previous)
    )


async def ids(observations: Observations, *producer_ids: int) -> dict[int, str] | None:
    return await transactional_ids_of(observations, cluster="c", producer_ids=producer_ids, as_of_ms=NOW_MS)


async def test_ids_are_found_by_the_producer_ids_that_they_have_and_had() -> None:
    observations = Observations(is_on=True)
    observations.publish(followed(live("a", 1), live("b", 2, previous=3), live("c", 4)))
    assert await ids(observations, 1, 3, 99) == {1: "a", 3: "b"}


@pytest.mark.parametrize("phase", [phase for phase in ReadingPhase if phase is not ReadingPhase.LIVE])
async def test_journal_that_is_not_followed_live_tells_nothing(phase: ReadingPhase) -> None:
    observations = Observations(is_on=True)
    observations.publish(followed(live("a", 1), phase=phase))
    assert await ids(observations, 1) is None


async def test_id_that_is_younger_than_the_snapshot_is_waited_for() -> None:
    observations = Observations(is_on=True)
    observations.publish(followed(as_of_ms=NOW_MS - 1))
    waiting = asyncio.create_task(ids(observations, 1))
    await asyncio.sleep(0)
    observations.publish(followed(live("a", 1), number=2))
    assert await waiting == {1: "a"}


async def test_id_that_never_comes_is_not_waited_for_longer_than_a_second() -> None:
    observations = Observations(is_on=True)
    observations.publish(followed(as_of_ms=NOW_MS - 1))
    async with asyncio.timeout(5):
        assert await ids(observations, 1) == {}
