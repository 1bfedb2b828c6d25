"""Run the background loops: each under its named lock, turn after turn, with a back-off after errors.

WAITING (another server has the lock) ─▶ RUNNING ⇄ (a turn fails) BACKING_OFF ─▶ WAITING
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from app.kit.back_off import BackOff
from app.kit.changes import Changes, Subscription
from app.kit.errors import FencelineError
from app.kit.locks import NamedLocks

log = logging.getLogger(__name__)

LONGEST_BACK_OFF_S = 30.0
IDLE_S = 5.0
"""The longest pause of a loop without work, and the delay of its work when a notice was lost."""
TURN_EVERY_S = 2.0
"""The longest time in which glances replace the turns of a loop."""


class Loop(Protocol):
    """Repeated work. `turn` commits for itself; it may be cancelled between any two awaits."""

    @property
    def name(self) -> str: ...

    @property
    def period_s(self) -> float:
        """The pause between two turns."""
        ...

    async def turn(self) -> None: ...

    def interrupted(self) -> None:
        """The lock was lost or a turn failed: state in memory may be out of date."""
        ...


@runtime_checkable
class ClosedLoop(Protocol):
    """A loop with connections of its own, which go when the server ends."""

    async def close(self) -> None: ...


@runtime_checkable
class IdleLoop(Protocol):
    """A loop that knows that it has nothing to do before its tables change.

    is_idle: after its newest turn. wakes: the nouns of the notices (UnitOfWork.notify) of such a change.
    """

    @property
    def is_idle(self) -> bool: ...

    @property
    def wakes(self) -> frozenset[str]: ...


@runtime_checkable
class GlancingLoop(IdleLoop, Protocol):
    """A loop whose turns read tables that change only with one of its notices.

    A turn still comes every TURN_EVERY_S: a notice can be lost, and time can pass a limit.
    """

    async def glance(self) -> bool:
        """Return whether no turn is needed now if no notice came since the last turn. Reads no tables."""
        ...


class LoopState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    BACKING_OFF = "backing_off"


class LoopHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one loop, for /readyz and the metrics. WAITING is healthy: another server does the work."""

    name: str
    state: LoopState
    failures_in_a_row: int = 0
    last_error: str | None = None


class Supervisor:
    """Runs every loop until `run` is cancelled.

    Args:
        changes: ends the long pause of a loop without work; None: no loop has one.
    """

    def __init__(
        self,
        loops: Sequence[Loop],
        *,
        locks: NamedLocks,
        changes: Changes | None = None,
        first_back_off_s: float = 1.0,
    ) -> None:
        self._loops = list(loops)
        self._locks = locks
        self._changes = changes
        self._back_off_after = BackOff(first_back_off_s, LONGEST_BACK_OFF_S)
        self._health = {loop.name: LoopHealth(name=loop.name, state=LoopState.WAITING) for loop in loops}

    def health(self) -> list[LoopHealth]:
        """The state of every loop, in the given order."""
        return [self._health[loop.name] for loop in self._loops]

    async def run(self) -> None:
        """Run all loops until cancelled; one that fails does not disturb the others."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(self._keep_going(loop), name=f"loop {loop.name}")

    async def _keep_going(self, loop: Loop) -> None:
        while True:
            try:
                await self._hold_and_turn(loop)
            except FencelineError as error:
                log.warning("the loop %s: %s", loop.name, error.message)
                await self._back_off(loop, error.message)
            except Exception as error:
                # A bug in one loop must not end the server; it is logged completely and shown on /readyz.
                log.exception("the loop %s failed", loop.name)
                await self._back_off(loop, f"{type(error).__name__}: {error}")

    async def _hold_and_turn(self, loop: Loop) -> None:
        self._note(loop, state=LoopState.WAITING)
        async with self._locks.hold(loop.name) as lock, self._woken(loop) as woken:
            loop.interrupted()
            is_due = True
            turn_at = time.monotonic()
            while await lock.is_held():
                if is_due or time.monotonic() - turn_at >= TURN_EVERY_S or not await _needs_no_turn(loop):
                    turn_at = time.monotonic()
                    await loop.turn()
                self._note(loop, state=LoopState.RUNNING, failures_in_a_row=0, last_error=None)
                await asyncio.sleep(loop.period_s)
                if woken is not None and isinstance(loop, IdleLoop):
                    is_due = await woken.wait(timeout_s=IDLE_S if loop.is_idle else 0) or loop.is_idle

    @asynccontextmanager
    async def _woken(self, loop: Loop) -> AsyncGenerator[Subscription | None]:
        if self._changes is None or not isinstance(loop, IdleLoop):
            yield None
            return
        async with self._changes.subscribe(lambda notice: notice.partition(":")[0] in loop.wakes) as subscription:
            yield subscription

    async def _back_off(self, loop: Loop, error: str) -> None:
        loop.interrupted()
        failures = self._health[loop.name].failures_in_a_row + 1
        self._note(loop, state=LoopState.BACKING_OFF, failures_in_a_row=failures, last_error=error)
        await asyncio.sleep(self._back_off_after.wait_s(failures))

    def _note(self, loop: Loop, *, state: LoopState, **changes: object) -> None:
        health = self._health[loop.name]
        self._health[loop.name] = msgspec.structs.replace(health, state=state, **changes)


async def _needs_no_turn(loop: Loop) -> bool:
    return isinstance(loop, GlancingLoop) and await loop.glance()
