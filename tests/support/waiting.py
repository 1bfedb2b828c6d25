"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_INTERVAL_S = 0.05


def wait_for(condition: Callable[[], T], deadline_s: float, describe: str | Callable[[], str]) -> T:
    """The first truthy value of `condition()`, called every 50 ms.

    Args:
        condition: called again and again; its exception is the test's failure, not a "not yet".
        deadline_s: seconds until the wait ends.
        describe: the awaited condition; a function may add the known state at the deadline.

    Raises:
        AssertionError: time is up; the message has the condition and the last state.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(_message(deadline_s, describe, seen))
        time.sleep(_INTERVAL_S)


async def wait_for_async(
    condition: Callable[[], Awaitable[T]], deadline_s: float, describe: str | Callable[[], str]
) -> T:
    """`wait_for` for a coroutine function as condition."""
    deadline = time.monotonic() + deadline_s
    while True:
        seen = await condition()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(_message(deadline_s, describe, seen))
        await asyncio.sleep(_INTERVAL_S)


def _message(deadline_s: float, describe: str | Callable[[], str], seen: object) -> str:
    what = describe if isinstance(describe, str) else describe()
    return f"waited {deadline_s:g} s for: {what}; last seen: {seen!r}"
