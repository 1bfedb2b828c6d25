"""Named locks that only one server holds at a time: Postgres' advisory locks, each on a connection of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
from sqlalchemy import make_url

from app.edges.db.keep_alive import lasting_conninfo
from app.kit.db.connection import answer_in_time
from app.kit.db.errors import translated

_ASK_AGAIN_AFTER_S = 0.5
_ANSWER_WITHIN_S = 5
SCHEMA_LOCK = "fenceline migrations"
"""Schema upgrades wait for it, so no server may hold it for its lifetime."""
_ASK_EVERY_S = 1.0
"""Many turns take milliseconds: a request before each one would cost more than they do."""
_TRY = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"


class PostgresLock:
    """A lock that was held when this was made; it ends with its connection."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[bool]]) -> None:
        self._connection = connection
        self._asked_at = time.monotonic()

    async def is_held(self) -> bool:
        """Return whether the lock was held within the last second; a lost database connection has released it."""
        now = time.monotonic()
        if now - self._asked_at < _ASK_EVERY_S:
            return True
        self._asked_at = now
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                await self._connection.execute("SELECT 1")
        except (psycopg.Error, OSError, TimeoutError):
            return False
        return True


class AdvisoryLocks:
    """Implements app/kit/locks.py. The locks of one database; another database on the same server has its own."""

    def __init__(self, database_url: str) -> None:
        self._url = make_url(database_url)
        self._where = f"{self._url.host or 'localhost'}:{self._url.port or 5432}"

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[PostgresLock]:
        """Wait for the lock, and release it on leaving. Raises UnavailableError without the database.

        Raises ValueError for the name of the schema's own lock.
        """
        key = f"fenceline {name}"
        if key == SCHEMA_LOCK:
            raise ValueError(f"{name!r} is the lock under which the schema is changed")
        begun = time.monotonic()
        try:
            connection = await self._take(name, key)
        except (psycopg.Error, OSError) as error:
            ours = translated(error, where=self._where, tried_s=time.monotonic() - begun)
            if ours is None:
                raise
            raise ours from error
        try:
            yield PostgresLock(connection)
        finally:
            # Closing the session releases the lock, also when no request is possible any more.
            await connection.close()

    async def _take(self, name: str, key: str) -> psycopg.AsyncConnection[tuple[bool]]:
        connection: psycopg.AsyncConnection[tuple[bool]] = await psycopg.AsyncConnection.connect(
            lasting_conninfo(self._url, application_name=f"fenceline lock {name}"), autocommit=True
        )
        try:
            while True:
                # A frozen Postgres keeps the connection open, and so does the kernel for a request to a lost host. The
                # time limit lets another Postgres be asked earlier.
                async with answer_in_time():
                    cursor = await connection.execute(_TRY, (key,))
                    row = await cursor.fetchone()
                if row is not None and row[0]:
                    return connection
                await asyncio.sleep(_ASK_AGAIN_AFTER_S)
        except BaseException:
            await connection.close()
            raise
