"""Named locks that only one server holds at a time. They save work; they are not a fence: every act is a row first."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class HeldLock(Protocol):
    async def is_held(self) -> bool:
        """Whether the lock is still ours; a lost connection to the database has given it up."""
        ...


class NamedLocks(Protocol):
    def hold(self, name: str) -> AbstractAsyncContextManager[HeldLock]:
        """Wait until the lock is ours, give it up on leaving. Raises UnavailableError while the database is away."""
        ...
