"""The offset log, replayed live: the first contradiction is marked and told within seconds."""

from __future__ import annotations

import logging
from datetime import datetime

from app.core.observing.service.observations import Observations
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import NotFoundError, UnavailableError
from app.products.offset_log.service import LIVE_SPAN, check_live
from app.products.offset_log.store import OffsetLogStore

log = logging.getLogger(__name__)


class OffsetWatch:
    """The loop that checks each pipeline of which something was told since its last turn. One server at a time does."""

    name = "offsets"

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        observations: Observations,
        clock: Clock,
        period_s: float = 10.0,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._observations = observations
        self._clock = clock
        self._checked_at: datetime | None = None
        self.period_s = period_s

    async def turn(self) -> None:
        now = self._clock.now()
        since = self._checked_at or now - LIVE_SPAN
        async with self._unit_of_work() as uow:
            names = await uow.of(OffsetLogStore).told_since(since)
        failures: list[Exception] = []
        for name in names:
            try:
                await self._check(name)
            except UnavailableError:
                raise
            except Exception as error:
                # The pipelines behind it are checked all the same, and it is tried again at the next turn.
                log.exception("what tasks of %s recorded of their offsets could not be checked", name)
                failures.append(error)
        if failures:
            raise failures[0]
        self._checked_at = now

    async def _check(self, name: str) -> None:
        async with self._unit_of_work() as uow:
            try:
                new = await check_live(uow, self._observations, pipeline=name, now=self._clock.now())
            except NotFoundError:
                # Deleted since it was named.
                return
            await uow.commit()
        if new:
            log.error("what tasks of %s recorded of their offsets contradicts itself: %d new contradictions", name, new)

    def interrupted(self) -> None:
        """The next turn looks at an hour again: another server may have checked meanwhile."""
        self._checked_at = None
