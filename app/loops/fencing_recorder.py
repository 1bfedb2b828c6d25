"""What the observer sees of fencing is written down; each server does it, and each event is one row."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from app.domain.clusters.cluster import Cluster
from app.domain.fencing_events.fencing_event import Case
from app.domain.fencing_events.steps import cases_of
from app.domain.journals.live_transactions import LiveTransaction
from app.ports.clock import Clock
from app.ports.unit_of_work import UnitOfWorkFactory
from app.services.fencing_events import record_cases

log = logging.getLogger(__name__)

IDS_A_TURN = 200
"""One transaction's worth: a server that starts sees every id with a past at once."""


class FencingRecorder:
    """Takes ids that had a step, at any rate, and writes what their steps prove as fast as Postgres takes it.

    Only the newest state of an id waits, so what waits is bounded by the number of ids, however long Postgres is away.
    """

    def __init__(self, *, unit_of_work: UnitOfWorkFactory, clock: Clock, where: str, period_s: float = 0.5) -> None:
        self.name = f"fencing recorder of {where}"
        self.period_s = period_s
        self._unit_of_work = unit_of_work
        self._clock = clock
        self._waiting: dict[tuple[str, str], LiveTransaction] = {}

    def take(self, cluster: Cluster, stepped: Sequence[LiveTransaction]) -> None:
        """For the observer's `on_steps`; on the event loop, returns at once."""
        for live in stepped:
            if live.is_stepped:
                # The newest state goes to the end, so that an id in a storm does not keep the others waiting.
                self._waiting.pop((cluster.kafka_cluster_id, live.transactional_id), None)
                self._waiting[cluster.kafka_cluster_id, live.transactional_id] = live

    @property
    def waiting(self) -> int:
        """Ids that are not written down yet."""
        return len(self._waiting)

    async def turn(self) -> None:
        while self._waiting:
            taken = dict(list(self._waiting.items())[:IDS_A_TURN])
            cases: list[Case] = [
                case for (cluster_id, _), live in taken.items() for case in cases_of(live, kafka_cluster_id=cluster_id)
            ]
            async with self._unit_of_work() as uow:
                changed = await record_cases(uow, cases, now=self._clock.now())
                await uow.commit()
            for verdict in (event.verdict for event in changed):
                if verdict.cause.is_fencing:
                    log.info("fencing, %s, %s: %s", verdict.cause, verdict.confidence, verdict.sentence)
            for name, live in taken.items():
                if self._waiting.get(name) is live:
                    del self._waiting[name]

    def interrupted(self) -> None:
        """What was not committed still waits."""
