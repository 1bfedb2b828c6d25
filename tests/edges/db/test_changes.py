"""The change feed: readers wake on commit only, from any server, and after an outage of Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import sqlalchemy as sa

from app.edges.db.changes import EVERYTHING, ChangeFeed
from app.edges.db.database import Database
from app.edges.embedded.postgres import EmbeddedPostgres
from tests.support.waiting import wait_for_async

DEADLINE_S = 10.0


@asynccontextmanager
async def listening(url: str) -> AsyncGenerator[ChangeFeed]:
    feed = ChangeFeed(url)
    task = asyncio.create_task(feed.run())
    try:
        await wait_for_async(lambda: _is_listening(feed), DEADLINE_S, "the feed listens")
        yield feed
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _is_listening(feed: ChangeFeed) -> bool:
    return feed.is_listening


async def say(database: Database, noun: str, name: str, *, commit: bool = True) -> None:
    async with database.unit_of_work() as uow:
        uow.notify(noun, name)
        if commit:
            await uow.commit()


async def test_a_commit_wakes_and_a_rollback_does_not(database: Database) -> None:
    async with listening(database.url) as feed, feed.subscribe() as subscription:
        await say(database, "run", "rolled-back", commit=False)
        await say(database, "run", "committed")
        assert await subscription.changes(timeout_s=DEADLINE_S) == {"run:committed"}


async def test_many_changes_are_one(database: Database) -> None:
    async with listening(database.url) as feed, feed.subscribe() as subscription:
        for _ in range(5):
            await say(database, "run", "a")
        await say(database, "run", "last")
        seen: set[str] = set()
        while "run:last" not in seen:
            news = await subscription.changes(timeout_s=DEADLINE_S)
            assert news, f"nothing more came; seen: {seen}"
            seen |= news
        assert seen == {"run:a", "run:last"}


async def test_a_reader_gets_only_the_notices_that_it_wants(database: Database) -> None:
    mine = "pipeline:mine"
    async with listening(database.url) as feed, feed.subscribe(lambda notice: notice == mine) as subscription:
        await say(database, "pipeline", "other")
        await say(database, "pipeline", "mine")
        assert await subscription.changes(timeout_s=DEADLINE_S) == {mine}


async def test_a_wait_without_a_notice_ends_in_time(database: Database) -> None:
    async with listening(database.url) as feed, feed.subscribe() as subscription:
        assert not await subscription.wait(timeout_s=0.05)


async def test_a_unit_of_work_that_changes_very_much_says_look_at_everything(database: Database) -> None:
    async with listening(database.url) as feed, feed.subscribe() as subscription:
        async with database.unit_of_work() as uow:
            for number in range(500):
                uow.notify("run", str(number))
            await uow.commit()
        assert await subscription.changes(timeout_s=DEADLINE_S) == {EVERYTHING}


async def test_a_lost_backend_is_replaced_and_all_readers_are_woken(database: Database) -> None:
    async with listening(database.url) as feed, feed.subscribe() as subscription:
        async with database.engine.connect() as connection:
            ended = await connection.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'fenceline changes' AND datname = current_database()"
                )
            )
            assert ended.scalars().all() == [True]
        assert await subscription.changes(timeout_s=DEADLINE_S) == {EVERYTHING}
        await say(database, "run", "after")
        assert await subscription.changes(timeout_s=DEADLINE_S) == {"run:after"}


@pytest.mark.slow
async def test_postgres_is_killed_and_comes_back() -> None:
    with EmbeddedPostgres.start() as postgres:
        database = Database(postgres.url)
        try:
            async with listening(postgres.url) as feed, feed.subscribe() as subscription:
                await say(database, "run", "before")
                assert await subscription.changes(timeout_s=DEADLINE_S) == {"run:before"}
                postgres.kill()
                postgres.restart()
                assert EVERYTHING in await subscription.changes(timeout_s=DEADLINE_S)
                await say(database, "run", "after")
                assert await subscription.changes(timeout_s=DEADLINE_S) == {"run:after"}
        finally:
            await database.close()
