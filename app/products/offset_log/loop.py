"""The live replay of offset logs, which reports a contradiction within seconds."""

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
    """Check each pipeline with new events since the last turn, on one server at a time."""

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
                # The other pipelines are checked now, and this one again at the next turn.
                log.exception("the offset log of %s could not be checked", name)
                failures.append(error)
        if failures:
            raise failures[0]
        self._checked_at = now

    async def _check(self, name: str) -> None:
        async with self._unit_of_work() as uow:
            try:
                new = await check_live(uow, self._observations, pipeline=name, now=self._clock.now())
            except NotFoundError:
                return  # the pipeline was deleted meanwhile
            await uow.commit()
        if new:
            log.error("the offset events of %s contradict each other: %d new contradictions", name, new)

    def interrupted(self) -> None:
        """Make the next turn check an hour again, since another server may have checked meanwhile."""
        self._checked_at = None
