"""Read the journals of every Kafka cluster once in every server, for any number of viewers and registered names."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.journals import FoldStore, Journals
from app.core.observing.loops.cluster_observer import ClusterObserver
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import Snapshot
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.loops.newest import Newest

log = logging.getLogger(__name__)


class Observer:
    """The loop that keeps a reader for each registered Kafka cluster. The readers continue during an outage of
    Postgres.

    If one cluster has several names, the oldest is read, and the others show the same.

    Args:
        where: the name of this server; every server observes, so each has a loop of its own.
        on_steps: called on the event loop with a cluster and its ids with new steps (see ClusterObserver).
        groups: patterns of the groups to keep; none: all.
    """

    wakes = frozenset({"cluster"})

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
        # The readers are at work in threads of their own.
        self.is_idle = True
        self._unit_of_work = unit_of_work
        self._journals = journals
        self._store = store
        self._observations = observations
        self._clock = clock
        self._on_steps = on_steps
        self._groups = groups
        self._save_every_s = save_every_s
        # Both by the id that the brokers report.
        self._readers: dict[str, ClusterObserver] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    async def turn(self) -> None:
        async with self._unit_of_work() as uow:
            wanted = _oldest_first(await uow.of(ClusterStore).list_all())
        for kafka_cluster_id, reader in list(self._readers.items()):
            if wanted.get(kafka_cluster_id, [None])[0] != reader.cluster:
                del self._readers[kafka_cluster_id]
                await self._end(reader)
                self._call(kafka_cluster_id, ())
        for kafka_cluster_id, entries in wanted.items():
            self._call(kafka_cluster_id, tuple(entry.name for entry in entries))
            if kafka_cluster_id not in self._readers:
                self._readers[kafka_cluster_id] = self._begin(entries[0])

    def _call(self, kafka_cluster_id: str, names: tuple[str, ...]) -> None:
        """Show this cluster under these names only."""
        for name in set(self._names.pop(kafka_cluster_id, ())).difference(names):
            self._observations.forget(name)
        if names:
            self._names[kafka_cluster_id] = names

    def interrupted(self) -> None:
        """The readers need neither the lock nor Postgres."""

    async def close(self) -> None:
        """End all readers; their state is saved."""
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
        reader = self._readers.get(cluster.kafka_cluster_id)
        # An abandoned reader may continue some time later; its snapshots are ignored.
        if reader is None or reader.cluster != cluster:
            return
        for name in self._names[cluster.kafka_cluster_id]:
            self._observations.publish(snapshot if name == cluster.name else _as_read_under(snapshot, name))

    def _is_wanted(self, group: str) -> bool:
        return not self._groups or any(fnmatchcase(group, pattern) for pattern in self._groups)

    async def _end(self, reader: ClusterObserver) -> None:
        if not await asyncio.to_thread(reader.stop):
            log.warning("the observer of %s does not end; it is abandoned", reader.cluster.name)


def _oldest_first(clusters: Iterable[Cluster]) -> dict[str, list[Cluster]]:
    """By the id that brokers report: an added name does not change the reading."""
    found: defaultdict[str, list[Cluster]] = defaultdict(list)
    for cluster in sorted(clusters, key=lambda one: (one.created_at, one.name)):
        found[cluster.kafka_cluster_id].append(cluster)
    return dict(found)


def _as_read_under(snapshot: Snapshot, name: str) -> Snapshot:
    read_as = f"It is the same Kafka cluster as {snapshot.cluster}, and is read with its address and permissions."
    return msgspec.structs.replace(snapshot, cluster=name, note=" ".join(filter(None, (read_as, snapshot.note))))
