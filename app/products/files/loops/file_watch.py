"""Read the references of every pipeline with a file sink as they are committed, and store them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.products.files.loops.cluster_files import ClusterFiles
from app.products.files.reading import WatchedPipeline
from app.products.files.store.readings import FileReadingStore
from app.products.files.topic_ports import ReferenceTopics

log = logging.getLogger(__name__)


class FileWatch:
    """Give each cluster with file pipelines its turn, on one server at a time.

    References and the position are stored in one transaction. So a reference is counted once, also while a server that
    has lost the lock does not know it yet.

    A turn takes one statement in Postgres if no pipeline writes files. Otherwise it takes three, one more for each
    pipeline with a problem, and about ten for each batch with references. A topic has at most MOST_BATCHES in a turn.
    """

    name = "files"

    def __init__(
        self, *, unit_of_work: UnitOfWorkFactory, topics: ReferenceTopics, clock: Clock, period_s: float = 2.0
    ) -> None:
        self._unit_of_work = unit_of_work
        self._make: Callable[[Cluster], ClusterFiles] = lambda cluster: ClusterFiles(
            cluster, unit_of_work=unit_of_work, topics=topics, clock=clock
        )
        self._clusters: dict[str, ClusterFiles] = {}
        self.period_s = period_s

    async def turn(self) -> None:
        watched, clusters = await self._look()
        for name in [name for name, one in self._clusters.items() if clusters.get(name) != one.cluster]:
            await self._clusters.pop(name).close()
        for name, cluster in clusters.items():
            if name not in self._clusters:
                self._clusters[name] = self._make(cluster)
        # Each limits the time of its requests and backs off after a failure, so that it hardly delays the others.
        failures = await asyncio.gather(
            *(one.turn([of for of in watched if of.cluster == name]) for name, one in self._clusters.items()),
            return_exceptions=True,
        )
        for failure in failures:
            if failure is not None:
                raise failure

    async def _look(self) -> tuple[list[WatchedPipeline], dict[str, Cluster]]:
        """Return the pipelines that write files, and their clusters by name."""
        async with self._unit_of_work() as uow:
            watched = await uow.of(FileReadingStore).watched()
            known = await uow.of(ClusterStore).list_all() if watched else []
        names = {one.cluster for one in watched}
        return watched, {cluster.name: cluster for cluster in known if cluster.name in names}

    def interrupted(self) -> None:
        """Forget the recorded states, since another server may have read meanwhile; each turn reads the position."""
        for one in self._clusters.values():
            one.forget()

    async def close(self) -> None:
        """Close all connections."""
        clusters, self._clusters = list(self._clusters.values()), {}
        await asyncio.gather(*(one.close() for one in clusters))
