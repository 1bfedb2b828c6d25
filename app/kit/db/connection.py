"""One transaction's connection, taken when the first statement needs it, with errors translated where they arise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.kit.db.errors import translated

STATEMENT_TIMEOUT_S = 10
"""No statement of Fenceline takes this long; Postgres ends those that do."""
ANSWER_WITHIN_S = STATEMENT_TIMEOUT_S + 2


class Connection:
    """Executes the statements of the stores."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None

    async def execute(self, statement: sa.Executable, parameters: Any = None) -> sa.CursorResult[Any]:
        """Return the statement's complete result. Raises Fenceline's errors only."""
        with self.translating():
            async with answer_in_time():
                if self._connection is None:
                    self._connection = await self._engine.connect()
                return await self._connection.execute(statement, parameters)

    async def rows(self, statement: sa.Executable, parameters: Any = None) -> Sequence[sa.Row[Any]]:
        return (await self.execute(statement, parameters)).all()

    async def row(self, statement: sa.Executable, parameters: Any = None) -> sa.Row[Any] | None:
        """Return the only row, or None."""
        return (await self.execute(statement, parameters)).one_or_none()

    async def commit(self) -> None:
        if self._connection is not None:
            with self.translating():
                async with answer_in_time():
                    await self._connection.commit()

    async def rollback(self) -> None:
        if self._connection is not None:
            with self.translating():
                await self._connection.rollback()

    async def close(self) -> None:
        """Return the connection; uncommitted changes are rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with self.translating():
                await connection.close()

    @contextmanager
    def translating(self) -> Generator[None]:
        """Raise a Fenceline error in place of a library's; others pass unchanged."""
        begun = time.monotonic()
        try:
            yield
        except Exception as error:
            ours = translated(error, where=address_of(self._engine), tried_s=time.monotonic() - begun)
            if ours is None:
                raise
            raise ours from error


@asynccontextmanager
async def answer_in_time() -> AsyncGenerator[None]:
    """Limit the wait on the client's side as well: a frozen Postgres keeps its connections and ends no statement.

    psycopg then tries to cancel the statement and to close the connection in order, for up to 5 s each.
    """
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            yield
    except TimeoutError as error:
        raise TimeoutError("the connection is open, but no answer comes") from error


def address_of(engine: AsyncEngine) -> str:
    """`host:port` of the database, as sentences name it."""
    return f"{engine.url.host or 'localhost'}:{engine.url.port or 5432}"
