"""A running observer of one cluster, and the newest snapshot that it has published."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.core.clusters.cluster import Cluster
from app.core.observing.fold_files import FoldFiles
from app.core.observing.journals import FoldStore, Journals
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.loops.cluster_observer import ClusterObserver
from app.core.observing.loops.observer import Observer
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.journal_tail import KafkaJournals
from app.kit.clock import SystemClock
from tests.support.waiting import wait_for

DEADLINE_S = 60.0


def cluster_at(bootstrap_servers: str, kafka_cluster_id: str) -> Cluster:
    return Cluster(
        name="c",
        kafka_cluster_id=kafka_cluster_id,
        bootstrap_servers=bootstrap_servers,
        created_at=datetime.now(UTC),
        created_by="somebody",
    )


class Watched:
    def __init__(self, cluster: Cluster, *, journals: Journals, store: FoldStore, save_every_s: float = 60.0) -> None:
        self.newest: Snapshot | None = None
        self.observer = ClusterObserver(
            cluster,
            journals=journals,
            store=store,
            publish=self._publish,
            is_wanted=lambda _: True,
            now_ms=lambda: int(time.time() * 1000),
            save_every_s=save_every_s,
        )

    def _publish(self, snapshot: Snapshot) -> None:
        self.newest = snapshot

    def until(self, condition: Callable[[Snapshot], object], what: str) -> Snapshot:
        """The first snapshot that is as the condition wants it."""
        wait_for(
            lambda: self.newest is not None and condition(self.newest), DEADLINE_S, lambda: f"{what}: {self._seen()}"
        )
        assert self.newest is not None
        return self.newest

    def until_live(self) -> Snapshot:
        """Both journals are read to their ends."""
        return self.until(
            lambda seen: (
                seen.transaction_journal.phase is ReadingPhase.LIVE and seen.group_journal.phase is ReadingPhase.LIVE
            ),
            "both journals are read",
        )

    def _seen(self) -> object:
        if self.newest is None:
            return None
        return (self.newest.transaction_journal, self.newest.group_journal, sorted(self.newest.transactions)[:20])


@contextmanager
def watching(kafka: KafkaCluster, folder: Path, *, save_every_s: float = 60.0) -> Generator[Watched]:
    """An observer of this cluster that keeps its folds in `folder`."""
    cluster_id = kafka.cluster_id
    watched = Watched(
        cluster_at(kafka.bootstrap_servers, cluster_id),
        journals=KafkaJournals(environment={}, secrets_dir=None, topics=JOURNALS),
        store=FoldFiles(folder, groups=()),
        save_every_s=save_every_s,
    )
    watched.observer.start()
    try:
        yield watched
    finally:
        assert watched.observer.stop(timeout_s=30)


def observer_of(database: Database, folder: Path, observations: Observations, **more: Any) -> Observer:
    """A server's observer, as app/edges/main/server.py puts it together."""
    return Observer(
        unit_of_work=database.unit_of_work,
        journals=KafkaJournals(environment={}, secrets_dir=None, topics=JOURNALS),
        store=FoldFiles(folder, groups=()),
        observations=observations,
        clock=SystemClock(),
        where=str(folder),
        **more,
    )
