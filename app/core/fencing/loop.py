"""Record the fencing events that the observer finds; each server does it, and each event is one row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from app.core.clocks.broker_clocks import BrokerClocks
from app.core.clusters.cluster import Cluster
from app.core.fencing.comeback import groups_by_producer, with_members
from app.core.fencing.fencing_event import Case
from app.core.fencing.service.events import record_cases
from app.core.fencing.steps import cases_of
from app.core.journals import group_records
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory

log = logging.getLogger(__name__)

IDS_A_TURN = 200
"""The ids of one database transaction: a server that starts finds all ids with a history at once."""


class FencingRecorder:
    """Take ids with new steps, at any rate, and write the events that their steps prove, at the rate of Postgres.

    Only the newest state of an id is queued, so the queue is bounded by the number of ids during any outage of
    Postgres.

    groups: of a cluster, by its name, as this server has read them; they show departures and returns of members.
    clocks: of that cluster's brokers. All times of a case are by the server's clock, as far as the clocks are measured.
    """

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        clock: Clock,
        where: str,
        groups: Callable[[str], Mapping[str, LiveGroup]] = lambda _: {},
        clocks: Callable[[str], BrokerClocks] = lambda _: BrokerClocks(),
        period_s: float = 0.5,
    ) -> None:
        self.name = f"fencing recorder of {where}"
        self.period_s = period_s
        self._unit_of_work = unit_of_work
        self._clock = clock
        self._groups = groups
        self._clocks = clocks
        self._waiting: dict[tuple[str, str], LiveTransaction] = {}
        self._names: dict[str, str] = {}

    def take(self, cluster: Cluster, stepped: Sequence[LiveTransaction]) -> None:
        """For the observer's `on_steps`; on the event loop, returns at once."""
        self._names[cluster.kafka_cluster_id] = cluster.name
        for live in stepped:
            if live.is_stepped:
                # The newest state goes to the end, so that an id with many steps does not delay the others.
                self._waiting.pop((cluster.kafka_cluster_id, live.transactional_id), None)
                self._waiting[cluster.kafka_cluster_id, live.transactional_id] = live

    @property
    def waiting(self) -> int:
        """Ids that are not written yet."""
        return len(self._waiting)

    async def turn(self) -> None:
        members = _Members(
            {cluster_id: self._groups(name) for cluster_id, name in self._names.items()},
            {cluster_id: self._clocks(name) for cluster_id, name in self._names.items()},
        )
        while self._waiting:
            taken = dict(list(self._waiting.items())[:IDS_A_TURN])
            # A cluster may have thousands of groups; their offsets are read once.
            cases = await asyncio.to_thread(members.cases_of_all, taken)
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
        """States that were not committed stay in the queue."""


class _Members:
    """The groups of one turn, by cluster id, and the groups that have offsets of a producer id."""

    def __init__(self, groups: Mapping[str, Mapping[str, LiveGroup]], clocks: Mapping[str, BrokerClocks]) -> None:
        self._groups = groups
        self._clocks = clocks
        self._by_producer: dict[str, dict[int, list[str]]] = {}

    def cases_of_all(self, taken: Mapping[tuple[str, str], LiveTransaction]) -> list[Case]:
        return [
            with_members(
                case,
                self._groups[cluster_id],
                partial(self._names, cluster_id),
                shift_ms=partial(self._clocks[cluster_id].shift_ms, group_records.TOPIC),
            )
            for (cluster_id, _), live in taken.items()
            for case in cases_of(self._clocks[cluster_id].ours(live), kafka_cluster_id=cluster_id)
        ]

    def _names(self, cluster_id: str, producer_id: int) -> list[str]:
        if cluster_id not in self._by_producer:
            self._by_producer[cluster_id] = groups_by_producer(self._groups[cluster_id].values())
        return self._by_producer[cluster_id].get(producer_id, [])
