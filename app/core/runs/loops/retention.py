"""Once a minute: thin old samples and remove expired rows."""

from __future__ import annotations

import logging
from collections import Counter

from app.core.runs.service import retention
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory

log = logging.getLogger(__name__)


class Retention:
    """The loop that bounds the growth of the database over time."""

    name = "retention"

    def __init__(self, *, unit_of_work: UnitOfWorkFactory, clock: Clock, period_s: float = 60.0) -> None:
        self._unit_of_work = unit_of_work
        self._clock = clock
        self.period_s = period_s

    async def turn(self) -> None:
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            thinned = await retention.thin_samples(uow, now=now)
            expired = await retention.expire(uow, now=now)
            await uow.commit()
        removed = Counter(expired) + Counter(run_samples=thinned)
        if removed:
            log.info("removed %s", ", ".join(f"{rows} from {table}" for table, rows in sorted(removed.items())))

    def interrupted(self) -> None:
        """Nothing is kept between turns."""
