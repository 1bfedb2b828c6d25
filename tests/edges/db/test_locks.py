"""Named locks: one holder, the next when it is gone, also when it was killed."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from app.edges.db import migrations
from app.edges.db.database import Database
from app.edges.db.locks import AdvisoryLocks
from app.edges.embedded.postgres import EmbeddedPostgres
from app.kit.errors import UnavailableError
from tests.support.waiting import wait_for_async

DEADLINE_S = 10.0


async def test_a_lock_is_held_by_one_and_then_by_the_next(database: Database) -> None:
    one, two = AdvisoryLocks(database.url), AdvisoryLocks(database.url)
    order: list[str] = []

    async def second() -> None:
        async with two.hold("reconciler"):
            order.append("second")

    async with one.hold("reconciler") as held:
        assert await held.is_held()
        waiting = asyncio.create_task(second())
        async with two.hold("retention"):
            order.append("another lock is free")
        order.append("first lets go")
    async with asyncio.timeout(DEADLINE_S):
        await waiting
    assert order == ["another lock is free", "first lets go", "second"]


async def test_no_server_can_hold_the_lock_of_schema_changes(database: Database) -> None:
    """Such a holder would keep every other server from starting, and every command that checks the schema first."""
    with pytest.raises(ValueError, match="schema"):
        async with AdvisoryLocks(database.url).hold("migrations"):
            pass
    async with asyncio.timeout(DEADLINE_S):
        await migrations.upgrade(database.url)


async def test_a_holder_whose_session_was_ended_knows_it(database: Database) -> None:
    async with AdvisoryLocks(database.url).hold("reconciler") as held:
        async with database.engine.connect() as connection:
            await connection.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'fenceline lock reconciler' AND datname = current_database()"
                )
            )

        async def is_lost() -> bool:
            return not await held.is_held()

        await wait_for_async(is_lost, DEADLINE_S, "the holder notices")


async def test_a_cancelled_wait_leaves_no_session(database: Database) -> None:
    locks = AdvisoryLocks(database.url)
    async with locks.hold("reconciler"):

        async def wait() -> None:
            async with locks.hold("reconciler"):
                raise AssertionError("two hold one lock")

        waiting = asyncio.create_task(wait())
        await wait_for_async(lambda: sessions(database, 2), DEADLINE_S, "the second session waits")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await wait_for_async(lambda: sessions(database, 1), DEADLINE_S, "its session is gone")


async def sessions(database: Database, wanted: int) -> bool:
    async with database.engine.connect() as connection:
        found = await connection.execute(
            sa.text(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fenceline lock reconciler'"
                " AND datname = current_database()"
            )
        )
        return found.scalar_one() == wanted


async def test_a_database_that_is_away_is_named(database: Database) -> None:
    url = sa.make_url(database.url).set(port=1).render_as_string(hide_password=False)
    with pytest.raises(UnavailableError, match=r"Postgres at 127\.0\.0\.1:1 does not answer"):
        async with AdvisoryLocks(url).hold("reconciler"):
            pass


@pytest.mark.slow
async def test_a_wait_on_a_frozen_postgres_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kit.db.connection.ANSWER_WITHIN_S", 1.0)
    with EmbeddedPostgres.start() as postgres:
        locks = AdvisoryLocks(postgres.url)
        async with locks.hold("reconciler"):

            async def wait() -> None:
                async with locks.hold("reconciler"):
                    raise AssertionError("two hold one lock")

            waiting = asyncio.create_task(wait())
            database = Database(postgres.url)
            try:
                await wait_for_async(lambda: sessions(database, 2), DEADLINE_S, "the second session waits")
            finally:
                await database.close()
            postgres.pause()
            try:
                async with asyncio.timeout(20):  # 1 s of ours and 10 s of psycopg's
                    with pytest.raises(UnavailableError, match="the connection is open, but no answer comes"):
                        await waiting
            finally:
                postgres.resume()
