"""Store, once a minute, the number of transactional ids of each cluster, and of the managed ones."""

from __future__ import annotations

from app.core.ids.service.registry import count_ids
from app.core.observing.service.observations import Observations
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory


class IdCensus:
    """The loop that records their growth. One server at a time runs it."""

    name = "id census"

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        observations: Observations,
        clock: Clock,
        period_s: float = 60.0,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._observations = observations
        self._clock = clock
        self.period_s = period_s

    async def turn(self) -> None:
        async with self._unit_of_work() as uow:
            if await count_ids(uow, self._observations, now=self._clock.now()):
                await uow.commit()

    def interrupted(self) -> None:
        """Turns share no state."""
