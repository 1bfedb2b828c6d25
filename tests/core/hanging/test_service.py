"""Each hanging transaction and its end are stored once, for any number of servers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from app.core.hanging.hanging_transaction import HangingEnding, HangingOutcome, HangingTransaction
from app.core.hanging.record import KEPT_FOR, HangingRecord
from app.core.hanging.service import record_ended, record_found
from app.core.hanging.store import HangingStore
from app.core.runs.store.retention import RetentionStore
from app.edges.db.database import Database
from tests.support.hanging_samples import hanging_transaction

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def ended(one: HangingTransaction, *, at_ms: int = NOW_MS) -> HangingOutcome:
    return HangingOutcome(transaction=one, ending=HangingEnding.ABORTED, at_ms=at_ms, marker_offset=41)


async def kept(database: Database) -> list[HangingRecord]:
    async with database.unit_of_work() as uow:
        return list((await uow.of(HangingStore).list("kafka-1", after=None, limit=10)).items)


async def test_two_servers_store_it_once_and_its_end_once(database: Database) -> None:
    one = hanging_transaction(seen_ms=NOW_MS)
    told: list[int] = []
    for _ in range(2):
        async with database.unit_of_work() as uow:
            told.append(len(await record_found(uow, [one], now=NOW)))
            await uow.commit()
    async with database.unit_of_work() as uow:
        assert await uow.of(HangingStore).open_ones("kafka-1") == [one]
        assert await uow.of(HangingStore).open_ones("kafka-2") == []
    for _ in range(2):
        async with database.unit_of_work() as uow:
            told.append(len(await record_ended(uow, [ended(one)], now=NOW)))
            await uow.commit()
    assert told == [1, 0, 1, 0]
    (record,) = await kept(database)
    assert (record.ended_at, record.ending, record.marker_offset) == (NOW, HangingEnding.ABORTED, 41)
    async with database.unit_of_work() as uow:
        assert await uow.of(HangingStore).open_ones("kafka-1") == []


async def test_result_older_than_the_end_does_not_open_it_again(database: Database) -> None:
    """Another server has checked before, and writes later."""
    one = hanging_transaction(seen_ms=NOW_MS - 1)
    async with database.unit_of_work() as uow:
        await record_found(uow, [one], now=NOW)
        await record_ended(uow, [ended(one)], now=NOW)
        assert await record_found(uow, [one], now=NOW) == []
        seen_later = hanging_transaction(seen_ms=NOW_MS + 1)
        assert await record_found(uow, [seen_later], now=NOW) == [seen_later]
        await uow.commit()
    (record,) = await kept(database)
    assert (record.ended_at, record.ending) == (None, None)


async def test_brokers_clock_ahead_sets_no_end_in_the_future(database: Database) -> None:
    one = hanging_transaction(seen_ms=NOW_MS)
    async with database.unit_of_work() as uow:
        await record_found(uow, [one], now=NOW)
        await record_ended(uow, [ended(one, at_ms=NOW_MS + 60_000)], now=NOW)
        await uow.commit()
    assert (await kept(database))[0].ended_at == NOW


async def test_ended_ones_are_removed_and_hanging_ones_stay(database: Database) -> None:
    first, second = hanging_transaction(seen_ms=NOW_MS), hanging_transaction(seen_ms=NOW_MS, start_offset=99)
    async with database.unit_of_work() as uow:
        await record_found(uow, [first, second], now=NOW)
        await record_ended(uow, [ended(first)], now=NOW)
        await uow.commit()
    async with database.unit_of_work() as uow:
        removed = await uow.of(RetentionStore).expire(now=NOW + KEPT_FOR + timedelta(seconds=1))
        assert removed["hanging_transactions"] == 1
        await uow.commit()
    assert [one.transaction.key for one in await kept(database)] == [second.key]
