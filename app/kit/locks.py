"""Named locks that only one server holds at a time. They save work but fence nothing: each action is a row first."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class HeldLock(Protocol):
    async def is_held(self) -> bool:
        """Return whether the lock is still held; a lost database connection has released it."""
        ...


class NamedLocks(Protocol):
    def hold(self, name: str) -> AbstractAsyncContextManager[HeldLock]:
        """Wait for the lock, and release it on leaving. Raises UnavailableError without the database."""
        ...
