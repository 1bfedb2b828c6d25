"""The common time of all servers of one database, which compare each other's rows with it (ADR 0018)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from app.kit.clock import Clock, SystemClock
from app.kit.errors import FencelineError

log = logging.getLogger(__name__)

_EVERY_S = 10.0
# The time of a slower answer is too inexact.
_CLOSE_ENOUGH_S = 1.0
_WORTH_A_WORD_S = 1.0


class DatabaseClock:
    """The Clock port: Postgres's time of the newest answer, plus the time since then by a monotonic clock.

    Before the first answer it is the machine's. It continues while Postgres does not answer.
    """

    def __init__(
        self,
        told: Callable[[], Awaitable[datetime]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        machine: Clock | None = None,
    ) -> None:
        self._told = told
        self._monotonic = monotonic
        self._machine = machine or SystemClock()
        self._known: tuple[datetime, float] | None = None
        self._said_s = 0.0

    def now(self) -> datetime:
        if self._known is None:
            return self._machine.now()
        at, at_s = self._known
        return at + timedelta(seconds=self._monotonic() - at_s)

    async def measure(self) -> None:
        """Ask once. Raises a FencelineError when Postgres does not answer."""
        asked_s = self._monotonic()
        told = await self._told()
        heard_s = self._monotonic()
        if self._known is not None and heard_s - asked_s > _CLOSE_ENOUGH_S:
            return
        # In the middle: its time was read somewhere in between.
        self._known = told, (asked_s + heard_s) / 2
        off_s = (self._machine.now() - self.now()).total_seconds()
        if abs(off_s - self._said_s) > _WORTH_A_WORD_S:
            self._said_s = off_s
            where = "ahead of" if off_s > 0 else "behind"
            log.warning("this machine's clock is %.1f s %s Postgres's", abs(off_s), where)

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.measure()
            except FencelineError:
                # Health and the callers of the database report the outage; the time continues.
                log.debug("Postgres does not report its time")
