"""An event loop on a thread of its own, for what listens while a test does something else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_ANSWER_S = 10.0


class LoopThread:
    """Begins with its making and runs until `close`. Its methods may be called from any other thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def ask(self, what: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result or exception; TimeoutError if it takes more than ten seconds."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_ANSWER_S)

    def close(self) -> None:
        """Cancels what still runs and waits for its end, then for the thread's."""
        self.ask(_end_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_S)
        self._loop.close()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
