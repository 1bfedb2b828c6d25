"""A unit of work without a database, for tests that play the stores themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from app.kit.db.store import DatabaseStore
from app.kit.db.unit_of_work import S, UnitOfWork


class UnitOf(UnitOfWork):
    """Gives the played stores by the class that they stand for; any other store is a KeyError."""

    def __init__(self, played: Mapping[type[DatabaseStore], object] | None = None) -> None:
        self._played = dict(played or {})

    def of(self, store: type[S]) -> S:
        return cast(Any, self._played[store])

    async def __aexit__(self, *_: object) -> None: ...

    def notify(self, noun: str, name: str) -> None: ...

    async def relax_durability(self) -> None: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...
