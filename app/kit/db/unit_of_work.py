"""The unit of work: one transaction, and the stores that work in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from app.kit.db.connection import Connection
from app.kit.db.store import DatabaseStore

CHANNEL = "fenceline_changes"
"""Postgres's channel for the notices of every unit of work."""
_NOTIFY = sa.text("SELECT pg_notify(:channel, notice) FROM unnest(CAST(:notices AS text[])) AS notice")
_RELAX = sa.text("SET LOCAL synchronous_commit = off")
MAX_NOTICES = 64
"""More notices than this are combined into one for all things."""

S = TypeVar("S", bound=DatabaseStore)
P = TypeVar("P")


class UnitOfWork:
    """All changes between entering and `commit` happen or none does; leaving without `commit` rolls back.

    Services never call `commit`: the edge that opened the unit does (a request, a loop's turn, a CLI command).
    After a database error the unit can only be left. It takes no connection before the first statement.
    """

    def __init__(self, engine: AsyncEngine, parts: Mapping[type, object]) -> None:
        self._db = Connection(engine)
        self._parts = parts
        self._notices: dict[str, None] = {}
        self._stores: dict[type[DatabaseStore], DatabaseStore] = {}

    def of(self, store: type[S]) -> S:
        """Return this unit's store of that class; made at the first request."""
        if store not in self._stores:
            self._stores[store] = store(self._db)
        return cast(Any, self._stores[store])

    def part(self, kind: type[P]) -> P:
        """The part of that class, which its `Database` was given. Raises LookupError when it was given none."""
        if kind not in self._parts:
            raise LookupError(f"this database was opened without {kind.__name__}: give it to `Database` as a part")
        return cast(Any, self._parts[kind])

    @property
    def connection(self) -> Connection:
        """For statements that no store has: tests break the schema's rules with it."""
        return self._db

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._db.close()

    def notify(self, noun: str, name: str) -> None:
        """Notify every server, on commit only, that the pages of `<noun>:<name>` have changed."""
        self._notices[f"{noun}:{name}"] = None

    async def relax_durability(self) -> None:
        """Do not wait for the disk on commit: for heartbeats, which the next second repeats."""
        await self._db.execute(_RELAX)

    async def commit(self) -> None:
        if self._notices:
            notices = list(self._notices) if len(self._notices) <= MAX_NOTICES else ["*:*"]
            await self._db.execute(_NOTIFY, {"channel": CHANNEL, "notices": notices})
            self._notices.clear()
        await self._db.commit()

    async def rollback(self) -> None:
        self._notices.clear()
        await self._db.rollback()


UnitOfWorkFactory = Callable[[], AbstractAsyncContextManager[UnitOfWork]]
