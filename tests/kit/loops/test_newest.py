"""A thread hands the newest value to the event loop once, and no later one is missed."""

from __future__ import annotations

import asyncio

from app.kit.loops.newest import Newest


async def test_a_loop_that_was_busy_gets_the_newest_only() -> None:
    taken: list[int] = []
    newest = Newest[int](asyncio.get_running_loop(), taken.append)
    for number in range(50):
        newest.put(number)
    await asyncio.sleep(0)
    assert taken == [49]
    newest.put(50)
    await asyncio.sleep(0)
    assert taken == [49, 50]


async def test_the_last_value_of_a_thread_arrives() -> None:
    taken: list[int] = []
    newest = Newest[int](asyncio.get_running_loop(), taken.append)

    def put_all() -> None:
        for number in range(10_000):
            newest.put(number)

    await asyncio.to_thread(put_all)
    await asyncio.sleep(0)
    assert taken[-1] == 9_999
    assert taken == sorted(set(taken))
