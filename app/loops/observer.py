"""Every server reads the journals of every registered cluster once, whoever looks at them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from app.domain.clusters.cluster import Cluster
from app.domain.journals.live_transactions import LiveTransaction
from app.domain.observing.snapshot import Snapshot
from app.loops.cluster_observer import ClusterObserver
from app.loops.newest import Newest
from app.ports.clock import Clock
from app.ports.journals import FoldStore, Journals
from app.ports.unit_of_work import UnitOfWorkFactory
from app.services.observing.observations import Observations

log = logging.getLogger(__name__)


class Observer:
    """The loop that keeps a reader for each registered cluster. The readers go on while Postgres is away.

    Args:
        where: of this server; every server observes, so each has a loop of its own.
        on_steps: called on the event loop with a cluster and its ids that had a step (see ClusterObserver).
        groups: patterns of the groups that are kept; none: all.
    """

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        journals: Journals,
        store: FoldStore,
        observations: Observations,
        clock: Clock,
        where: str,
        on_steps: Callable[[Cluster, Sequence[LiveTransaction]], None] = lambda _, __: None,
        groups: tuple[str, ...] = (),
        save_every_s: float = 60.0,
        period_s: float = 1.0,
    ) -> None:
        self.name = f"observer of {where}"
        self.period_s = period_s
        self._unit_of_work = unit_of_work
        self._journals = journals
        self._store = store
        self._observations = observations
        self._clock = clock
        self._on_steps = on_steps
        self._groups = groups
        self._save_every_s = save_every_s
        self._readers: dict[str, ClusterObserver] = {}

    async def turn(self) -> None:
        async with self._unit_of_work() as uow:
            clusters = {cluster.name: cluster for cluster in await uow.clusters.list_all()}
        gone = [reader for name, reader in self._readers.items() if clusters.get(name) != reader.cluster]
        for reader in gone:
            del self._readers[reader.cluster.name]
            await self._end(reader)
            self._observations.forget(reader.cluster.name)
        for name, cluster in clusters.items():
            if name not in self._readers:
                self._readers[name] = self._begin(cluster)

    def interrupted(self) -> None:
        """The readers need neither the lock nor Postgres."""

    async def close(self) -> None:
        """End all readers; what they have folded is saved."""
        readers, self._readers = list(self._readers.values()), {}
        await asyncio.gather(*(self._end(reader) for reader in readers))

    def _begin(self, cluster: Cluster) -> ClusterObserver:
        loop = asyncio.get_running_loop()
        newest = Newest[Snapshot](loop, lambda snapshot: self._publish(cluster, snapshot))

        def on_steps(stepped: Sequence[LiveTransaction]) -> None:
            loop.call_soon_threadsafe(self._on_steps, cluster, stepped)

        reader = ClusterObserver(
            cluster,
            journals=self._journals,
            store=self._store,
            publish=newest.put,
            on_steps=on_steps,
            is_wanted=self._is_wanted,
            now_ms=lambda: int(self._clock.now().timestamp() * 1000),
            save_every_s=self._save_every_s,
        )
        reader.start()
        return reader

    def _publish(self, cluster: Cluster, snapshot: Snapshot) -> None:
        reader = self._readers.get(cluster.name)
        # One that was left behind wakes up some time, and has no say any more.
        if reader is not None and reader.cluster == cluster:
            self._observations.publish(snapshot)

    def _is_wanted(self, group: str) -> bool:
        return not self._groups or any(fnmatchcase(group, pattern) for pattern in self._groups)

    async def _end(self, reader: ClusterObserver) -> None:
        if not await asyncio.to_thread(reader.stop):
            log.warning("the observer of %s does not end; it is left behind", reader.cluster.name)
