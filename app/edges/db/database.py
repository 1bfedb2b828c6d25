"""The database as a whole: one pool of connections, and the units of work that use it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

import psycopg
import sqlalchemy as sa
from sqlalchemy import event, exc, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from app.kit.db.connection import STATEMENT_TIMEOUT_S, Connection, address_of
from app.kit.db.unit_of_work import UnitOfWork

_OPTIONS = (
    f"-c statement_timeout={STATEMENT_TIMEOUT_S}s -c lock_timeout=5s"
    " -c idle_in_transaction_session_timeout=60s -c timezone=UTC"
)
"""Limits for a statement, a wait for a lock and a forgotten transaction, all longer than Fenceline's own take."""

_IDLE_S = 1.0
_USED_AT = "used_at"
POOL_SIZE = 10
CONNECT_TIMEOUT_S = 5


def database_url(url: str) -> str:
    """`url` with the driver that we use: `postgresql://…` and `postgres://…` mean psycopg here."""
    parsed = make_url(url.replace("postgres://", "postgresql://", 1) if url.startswith("postgres://") else url)
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _replace_broken_connections(engine: sa.Engine) -> None:
    """Test each idle connection before its use, and replace all of them if a restart of Postgres has broken it.

    The library's own option tests before every use, a request that would be a sixth of all.
    """

    @event.listens_for(engine, "checkin")
    def note(_: object, record: ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def test(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - record.info.get(_USED_AT, -math.inf) < _IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except psycopg.Error as error:
            raise exc.InvalidatePoolError from error


class Database:
    """Opens nothing until it is used, and comes back by itself after Postgres was away. `close` when done.

    parts: what services ask a unit of work for beside its stores, by class.
    """

    def __init__(
        self, url: str, *, parts: Mapping[type, object] = MappingProxyType({}), pool_size: int = POOL_SIZE
    ) -> None:
        self._parts = parts
        self.url = database_url(url)
        self.engine = create_async_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=CONNECT_TIMEOUT_S,
            # The newest connection first: the others become idle.
            pool_use_lifo=True,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "options": _OPTIONS,
                "application_name": "fenceline",
            },
        )
        _replace_broken_connections(self.engine.sync_engine)

    @property
    def address(self) -> str:
        """`host:port`, as sentences name it."""
        return address_of(self.engine)

    def unit_of_work(self) -> UnitOfWork:
        return UnitOfWork(self.engine, self._parts)

    async def ping(self) -> None:
        """Raise UnavailableError with address, error and waiting time if Postgres does not answer."""
        db = Connection(self.engine)
        try:
            await db.execute(sa.text("SELECT 1"))
        finally:
            await db.close()

    async def now(self) -> datetime:
        """Postgres's own time. Raises UnavailableError as `ping`."""
        db = Connection(self.engine)
        try:
            told: datetime = (await db.execute(sa.text("SELECT clock_timestamp()"))).scalar_one()
        finally:
            await db.close()
        return told

    async def close(self) -> None:
        await self.engine.dispose()
