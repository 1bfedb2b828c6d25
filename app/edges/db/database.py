"""The database as a whole: one pool of connections, and the units of work that use it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

import sqlalchemy as sa
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from app.kit.db.connection import STATEMENT_TIMEOUT_S, Connection, address_of
from app.kit.db.unit_of_work import UnitOfWork

_OPTIONS = (
    f"-c statement_timeout={STATEMENT_TIMEOUT_S}s -c lock_timeout=5s"
    " -c idle_in_transaction_session_timeout=60s -c timezone=UTC"
)
"""Limits for a statement, a wait for a lock and a forgotten transaction, all longer than Fenceline's own take."""

POOL_SIZE = 10
CONNECT_TIMEOUT_S = 5


def database_url(url: str) -> str:
    """`url` with the driver that we use: `postgresql://…` and `postgres://…` mean psycopg here."""
    parsed = make_url(url.replace("postgres://", "postgresql://", 1) if url.startswith("postgres://") else url)
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


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
            # A connection that a restart of Postgres has broken is replaced before its use.
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "options": _OPTIONS,
                "application_name": "fenceline",
            },
        )

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
