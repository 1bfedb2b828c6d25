"""Supervised loops: one server at a time, a restart after an error, without effects on others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from app.edges.db.changes import ChangeFeed
from app.kit.errors import UnavailableError
from app.kit.loops import supervisor as supervisor_module
from app.kit.loops.supervisor import LoopHealth, LoopState, Supervisor
from tests.support.waiting import wait_for_async


class OneLock:
    """A lock in this process, with the ways in which a real one is lost."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.is_ours = True
        self.is_away = False

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[OneLock]:
        if self.is_away:
            raise UnavailableError("Postgres does not answer")
        async with self.lock:
            self.is_ours = True
            yield self

    async def is_held(self) -> bool:
        return self.is_ours


class Counting:
    """Counts its turns; fails while `error` is set."""

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.period_s = 0.01
        self.turns = 0
        self.interruptions = 0
        self.error: Exception | None = None

    async def turn(self) -> None:
        if self.error is not None:
            raise self.error
        self.turns += 1

    def interrupted(self) -> None:
        self.interruptions += 1


@asynccontextmanager
async def supervised(*loops: Counting, locks: OneLock | None = None) -> AsyncGenerator[Supervisor]:
    supervisor = Supervisor(loops, locks=locks or OneLock(), first_back_off_s=0.01)
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Free(OneLock):
    """A lock that never excludes: for several loops that do not share a name."""

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[OneLock]:
        yield self


async def wait_for_turns(loop: Counting, more: int = 3) -> None:
    wanted = loop.turns + more

    async def has_turned() -> bool:
        return loop.turns >= wanted

    await wait_for_async(has_turned, 5, lambda: f"{wanted} turns of {loop.name}, it has had {loop.turns}")


async def wait_for_state(supervisor: Supervisor, state: LoopState) -> LoopHealth:
    async def is_there() -> LoopHealth | None:
        (health,) = supervisor.health()
        return health if health.state is state else None

    found = await wait_for_async(is_there, 5, lambda: f"{state}; it is {supervisor.health()}")
    assert found is not None
    return found


async def test_a_loop_turns_again_and_again() -> None:
    loop = Counting()
    async with supervised(loop) as supervisor:
        await wait_for_turns(loop)
        (health,) = supervisor.health()
        assert health.state is LoopState.RUNNING
        assert health.last_error is None


@pytest.mark.parametrize(
    "error", [UnavailableError("Postgres is down"), ValueError("a bug")], ids=lambda e: type(e).__name__
)
async def test_a_failing_loop_backs_off_says_why_and_comes_back(error: Exception) -> None:
    loop = Counting()
    loop.error = error
    async with supervised(loop) as supervisor:
        health = await wait_for_state(supervisor, LoopState.BACKING_OFF)
        assert str(error) in (health.last_error or "")
        assert health.failures_in_a_row >= 1
        loop.error = None
        await wait_for_turns(loop)
        (health,) = supervisor.health()
        assert (health.state, health.failures_in_a_row, health.last_error) == (LoopState.RUNNING, 0, None)


async def test_a_failing_loop_does_not_disturb_another() -> None:
    bad, good = Counting("bad"), Counting("good")
    bad.error = ValueError("a bug")
    async with supervised(bad, good, locks=Free()) as supervisor:
        await wait_for_turns(good, 10)
        assert [health.name for health in supervisor.health()] == ["bad", "good"]


async def test_a_second_server_waits_and_takes_over() -> None:
    lock, first, second = OneLock(), Counting("first"), Counting("second")
    async with supervised(first, locks=lock) as leading:
        await wait_for_turns(first)
        async with supervised(second, locks=lock) as waiting:
            await wait_for_turns(first)
            assert second.turns == 0
            assert [health.state for health in waiting.health()] == [LoopState.WAITING]
            assert [health.state for health in leading.health()] == [LoopState.RUNNING]
    async with supervised(second, locks=lock):
        await wait_for_turns(second)


async def test_a_lost_lock_ends_the_turns_until_it_is_held_again() -> None:
    lock, loop = OneLock(), Counting()
    async with supervised(loop, locks=lock):
        await wait_for_turns(loop)
        before = loop.interruptions
        lock.is_ours = False
        await wait_for_turns(loop)
        assert loop.interruptions > before, "what it remembered may be out of date"


async def test_an_absent_database_is_waited_for() -> None:
    lock, loop = OneLock(), Counting()
    lock.is_away = True
    async with supervised(loop, locks=lock) as supervisor:
        health = await wait_for_state(supervisor, LoopState.BACKING_OFF)
        assert health.last_error == "Postgres does not answer"
        assert loop.turns == 0
        lock.is_away = False
        await wait_for_turns(loop)


class Idle(Counting):
    """Has nothing to do until it is told so."""

    wakes = frozenset({"drill"})

    def __init__(self) -> None:
        super().__init__()
        self.is_idle = True


async def is_resting(loop: Counting) -> bool:
    before = loop.turns
    await asyncio.sleep(20 * loop.period_s)
    return loop.turns == before


async def test_a_loop_without_work_rests_until_a_notice_of_its_own() -> None:
    loop, feed = Idle(), ChangeFeed("postgresql://nobody@127.0.0.1:1/none")
    supervisor = Supervisor([loop], locks=OneLock(), changes=feed)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(supervisor.run())
        await wait_for_turns(loop, 1)
        assert await is_resting(loop)
        feed.announce("pipeline:p")
        assert await is_resting(loop)
        feed.announce("drill:d")
        await wait_for_turns(loop, 1)
        loop.is_idle = False
        feed.announce("drill:d")
        await wait_for_turns(loop, 5)
        running.cancel()


async def test_a_notice_during_a_turn_is_not_lost() -> None:
    loop, feed = Idle(), ChangeFeed("postgresql://nobody@127.0.0.1:1/none")
    turn = loop.turn

    async def turn_and_hear() -> None:
        await turn()
        if loop.turns == 1:
            feed.announce("drill:d")

    loop.turn = turn_and_hear
    async with asyncio.TaskGroup() as group:
        running = group.create_task(Supervisor([loop], locks=OneLock(), changes=feed).run())
        await wait_for_turns(loop, 2)
        assert await is_resting(loop)
        running.cancel()


async def test_without_a_feed_a_loop_without_work_turns_as_the_others() -> None:
    loop = Idle()
    async with supervised(loop):
        await wait_for_turns(loop, 5)


class Glancing(Idle):
    """Has work all the time, which changes with its notices only."""

    def __init__(self) -> None:
        super().__init__()
        self.is_idle = False
        self.glances = 0
        self.sees_work = False

    async def glance(self) -> bool:
        self.glances += 1
        return not self.sees_work


@asynccontextmanager
async def glancing(feed: ChangeFeed | None) -> AsyncGenerator[Glancing]:
    loop = Glancing()
    running = asyncio.create_task(Supervisor([loop], locks=OneLock(), changes=feed).run())
    try:
        await wait_for_turns(loop, 1)
        yield loop
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_loop_that_sees_no_work_glances_until_a_notice() -> None:
    feed = ChangeFeed("postgresql://nobody@127.0.0.1:1/none")
    async with glancing(feed) as loop:
        assert await is_resting(loop)
        assert loop.glances > 1
        feed.announce("pipeline:p")
        assert await is_resting(loop)
        feed.announce("drill:d")
        await wait_for_turns(loop, 1)
        assert await is_resting(loop), "one notice is one turn"


async def test_a_loop_whose_glance_sees_work_turns_at_once() -> None:
    async with glancing(ChangeFeed("postgresql://nobody@127.0.0.1:1/none")) as loop:
        loop.sees_work = True
        await wait_for_turns(loop, 5)


async def test_a_glancing_loop_turns_without_a_notice_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "TURN_EVERY_S", 0.1)
    async with glancing(ChangeFeed("postgresql://nobody@127.0.0.1:1/none")) as loop:
        turns, glances = loop.turns, loop.glances
        await wait_for_turns(loop, 3)
        assert loop.glances - glances > loop.turns - turns


async def test_without_a_feed_every_turn_of_a_glancing_loop_is_whole() -> None:
    async with glancing(None) as loop:
        await wait_for_turns(loop, 5)
        assert loop.glances == 0
