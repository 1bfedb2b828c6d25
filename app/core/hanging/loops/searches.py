"""Search every registered cluster for hanging transactions, continuously and with bounded load; each server does it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.hanging.brokers import SearchBrokers
from app.core.hanging.loops.cluster_search import ClusterSearch
from app.core.observing.service.observations import Observations
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory

log = logging.getLogger(__name__)


class HangingSearch:
    """The loop that gives each cluster's search its turns. Observations stay valid during an outage of Postgres: a last
    stable offset never decreases, so an equal one was unchanged all the time.

    Args:
        where: the name of this server; every server searches, so each has a loop of its own.
    """

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: SearchBrokers,
        observations: Observations,
        clock: Clock,
        where: str,
        asks_per_s: float,
        sweep_every_s: float,
        unaccounted_ms: int | None = None,
        period_s: float = 1.0,
    ) -> None:
        self.name = f"hanging search of {where}"
        self.period_s = period_s
        self._unit_of_work = unit_of_work
        self._observations = observations
        self._make: Callable[[Cluster], ClusterSearch] = lambda cluster: ClusterSearch(
            cluster,
            unit_of_work=unit_of_work,
            brokers=brokers,
            observations=observations,
            clock=clock,
            asks_per_s=asks_per_s,
            sweep_every_s=sweep_every_s,
            unaccounted_ms=unaccounted_ms,
        )
        self._searches: dict[str, ClusterSearch] = {}

    @property
    def searches(self) -> tuple[ClusterSearch, ...]:
        """Sorted by the cluster's name."""
        return tuple(self._searches[name] for name in sorted(self._searches))

    async def turn(self) -> None:
        async with self._unit_of_work() as uow:
            clusters = {cluster.name: cluster for cluster in await uow.of(ClusterStore).list_all()}
        gone = [one for name, one in self._searches.items() if clusters.get(name) != one.cluster]
        for search in gone:
            del self._searches[search.cluster.name]
            await search.close()
            self._observations.forget_search(search.cluster.name)
        for name, cluster in clusters.items():
            if name not in self._searches:
                self._searches[name] = self._make(cluster)
        # Each bounds its requests and backs off after a failure, so an unreachable cluster hardly delays the others.
        failures = await asyncio.gather(*(one.turn() for one in self._searches.values()), return_exceptions=True)
        for failure in failures:
            if failure is not None:
                raise failure

    def interrupted(self) -> None:
        """Results that are not stored yet stay in the queue."""

    async def close(self) -> None:
        """Close all connections."""
        searches, self._searches = list(self._searches.values()), {}
        await asyncio.gather(*(one.close() for one in searches))
