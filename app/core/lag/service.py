"""The lag of all observed clusters, for pages, REST, metrics and alerts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Brokers, PartitionOffsets
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.hanging.search import StableEnd
from app.core.journals.live_groups import LiveGroup
from app.core.lag.book import Answer, LagBook, gaps_filled, positions_of
from app.core.lag.report import GroupLag, LagReport, LagSample, PartitionLag
from app.kit.errors import FencelineError

T = TypeVar("T")
LiveEnds = PartitionOffsets | Refused

MOST_LIVE = 2_000
"""Partitions of one group that a request asks for; the others have the answers of the last round."""
_ASK_WITHIN_S = 3.0


class GroupLagDetail(msgspec.Struct, frozen=True, kw_only=True):
    """rows: by partition. history: of 24 hours. pipeline: whose group is paused."""

    total: GroupLag
    rows: tuple[PartitionLag, ...]
    history: tuple[LagSample, ...]


class Lags:
    """The books of this server, and the newest report of each cluster. Its methods are for the event loop."""

    def __init__(self) -> None:
        self._books: dict[str, LagBook] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._reports: dict[str, LagReport] = {}

    def publish(self, report: LagReport) -> None:
        self._reports[report.cluster] = report

    def forget(self, clusters: set[str]) -> None:
        """Forget the reports of these names."""
        for name in clusters & self._reports.keys():
            del self._reports[name]

    def report_of(self, cluster: str) -> LagReport:
        """Return the newest one; an empty one before the first."""
        return self._reports.get(cluster) or LagReport(cluster=cluster)

    def reports(self) -> list[LagReport]:
        """By the cluster's name."""
        return [self._reports[name] for name in sorted(self._reports)]

    def has_book(self, kafka_cluster_id: str) -> bool:
        return kafka_cluster_id in self._books

    def take_book(self, kafka_cluster_id: str, book: LagBook) -> None:
        self._books[kafka_cluster_id] = book

    async def with_book(self, kafka_cluster_id: str, work: Callable[[LagBook], T]) -> T:
        """Return the result of `work`, in a thread that has the book for itself."""
        book = self._books.setdefault(kafka_cluster_id, LagBook())
        lock = self._locks.setdefault(kafka_cluster_id, threading.Lock())

        def alone() -> T:
            with lock:
                return work(book)

        return await asyncio.to_thread(alone)

    async def of_group(
        self, cluster: Cluster, group: LiveGroup, *, live: Mapping[Partition, LiveEnds], now_ms: int
    ) -> GroupLagDetail:
        """Return a group's lag. live: newer answers than those of the last round."""
        report = self.report_of(cluster.name)
        before = report.groups.get(group.group)
        paused = None if before is None else before.pipeline
        newer: dict[Partition, Answer] = {at: as_answer(live[at]) for at in positions_of(group) if at in live}

        def read(book: LagBook) -> GroupLagDetail:
            period_ms = report.period_ms
            rows = book.lags(group, now_ms=now_ms, period_ms=period_ms, paused=paused, live=newer)
            return GroupLagDetail(
                total=book.summed(group, rows, paused, now_ms, period_ms),
                rows=tuple(rows),
                history=tuple(gaps_filled(book.history_of(group.group))),
            )

        return await self.with_book(cluster.kafka_cluster_id, read)


def as_answer(one: LiveEnds) -> Answer:
    """Return the answer without the earliest offset, which lag does not need."""
    return StableEnd(one.last_stable, one.high_watermark) if isinstance(one, PartitionOffsets) else one


async def ask_live(brokers: Brokers, cluster: Cluster, group: LiveGroup) -> Mapping[Partition, LiveEnds]:
    """Ask the leaders of a group's partitions once, of MOST_LIVE at most. Without an answer, the last samples count."""
    wanted = sorted(positions_of(group))[:MOST_LIVE]
    if not wanted:
        return {}
    try:
        return dict(await brokers.offsets_of_each(cluster.connection(), wanted, timeout_s=_ASK_WITHIN_S))
    except FencelineError:
        return {}
