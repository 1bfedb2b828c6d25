"""The port of the change feed (app/edges/db/changes.py)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Subscription(Protocol):
    async def wait(self, *, timeout_s: float) -> bool:
        """Wait for a change since the last call; False if none came in time. Many changes count as one."""
        ...


class Changes(Protocol):
    """Wakes readers when data was committed with a notice (UnitOfWork.notify), by any server."""

    def subscribe(self, wants: Callable[[str], bool] = ...) -> AbstractAsyncContextManager[Subscription]:
        """`wants` chooses by `<noun>:<name>`; without it every change wakes."""
        ...
