"""Hand only the newest value from a thread to the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Newest(Generic[T]):
    """`put` is for any thread. `take` is called on the loop, and returns the newest value since its last call.

    With a snapshot every 50 ms, a loop that is busy for a second would queue twenty, each with all names of a cluster.
    That is some hundred megabytes, of which it needs the last snapshot.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[T], None]) -> None:
        self._loop = loop
        self._take = take
        self._lock = threading.Lock()
        self._waiting: list[T] = []

    def put(self, value: T) -> None:
        with self._lock:
            is_called = bool(self._waiting)
            self._waiting = [value]
        if not is_called:
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for value in waiting:
            self._take(value)
