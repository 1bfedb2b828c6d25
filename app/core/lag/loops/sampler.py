"""Sample the ends of the partitions that groups read, and publish the groups' lag."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from app.core.blocked.brokers import TransactionBrokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.hanging.brokers import SearchBrokers
from app.core.journals.live_groups import LiveGroup
from app.core.lag.book import LagBook, is_sampled
from app.core.lag.end_history import KEPT_MS
from app.core.lag.loops.leaders import Leaders
from app.core.lag.ports import LagStore
from app.core.lag.service import Lags
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.core.runs.store.runs import RestingGroup, RunStore
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import FencelineError, UnavailableError

log = logging.getLogger(__name__)

MOST_PARTITIONS = 5_000
"""Partitions of a round, which bounds the requests to brokers and the time of this server's processor."""
MOST_STRETCHES = 20
ASK_WITHIN_S = 5.0
_CURRENT_MS = 15_000
_SAVE_EVERY_MS = 300_000


class LagSampler:
    """Each server samples by its own observer, and keeps 24 hours of samples through restarts.

    A round asks at most MOST_PARTITIONS, those that were asked longest ago. The log is read only to find out whether
    lag that does not change is markers: at most MOST_STRETCHES short ranges a round, each once.
    """

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: SearchBrokers,
        transactions: TransactionBrokers,
        observations: Observations,
        lags: Lags,
        store: LagStore,
        clock: Clock,
        where: str,
        period_s: float = 15.0,
        most_partitions: int = MOST_PARTITIONS,
    ) -> None:
        self.name = f"lag of {where}"
        self.period_s = period_s
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._transactions = transactions
        self._observations = observations
        self._lags = lags
        self._store = store
        self._clock = clock
        self._most = most_partitions
        self._saved_ms: dict[str, int] = {}
        self._leaders: dict[str, Leaders] = {}

    def interrupted(self) -> None:
        """Samples stay valid: they are of this server's own observer."""

    async def close(self) -> None:
        """Save all books, and close the connections."""
        for kafka_cluster_id in list(self._saved_ms):
            await self._save(kafka_cluster_id)
        leaders, self._leaders = list(self._leaders.values()), {}
        await asyncio.gather(*(one.close() for one in leaders))

    async def turn(self) -> None:
        async with self._unit_of_work() as uow:
            clusters = await uow.of(ClusterStore).list_all()
            resting = await uow.of(RunStore).resting_groups()
        self._lags.forget({report.cluster for report in self._lags.reports()} - {one.name for one in clusters})
        # Several names may stand for one Kafka cluster, which is asked once.
        gone = [one for one in self._leaders.values() if one.cluster not in clusters]
        for one in gone:
            del self._leaders[one.cluster.kafka_cluster_id]
            await one.close()
        by_id: defaultdict[str, list[Cluster]] = defaultdict(list)
        for one in clusters:
            by_id[one.kafka_cluster_id].append(one)
        failures = await asyncio.gather(
            *(
                self._round(names, {one.group: one for one in resting if one.kafka_cluster_id == kafka_cluster_id})
                for kafka_cluster_id, names in by_id.items()
            ),
            return_exceptions=True,
        )
        for failure in failures:
            if failure is not None:
                # After the other clusters: an unreachable one delays them by ASK_WITHIN_S only.
                raise failure

    async def _round(self, names: Sequence[Cluster], resting: Mapping[str, RestingGroup]) -> None:
        cluster, kafka_cluster_id = names[0], names[0].kafka_cluster_id
        if not self._lags.has_book(kafka_cluster_id):
            self._lags.take_book(kafka_cluster_id, await asyncio.to_thread(self._store.load, kafka_cluster_id))
            self._saved_ms[kafka_cluster_id] = self._now_ms()
        snapshot = self._observations.of(cluster.name)
        problem = self._not_current(snapshot) or await self._sample(cluster, snapshot, resting)
        if problem:
            for one in names:
                before = self._lags.report_of(one.name)
                self._lags.publish(replace(before, problem=problem, sampled=0, unanswered=before.partitions))
            return
        for one in names[1:]:
            report = self._lags.report_of(cluster.name)
            self._lags.publish(replace(report, cluster=one.name))
        if self._now_ms() - self._saved_ms[kafka_cluster_id] >= _SAVE_EVERY_MS:
            await self._save(kafka_cluster_id)

    def _not_current(self, snapshot: Snapshot) -> str:
        """Return why committed offsets are not current: an old one must not look like a group that does not advance."""
        journal = snapshot.group_journal
        if journal.phase is ReadingPhase.ABSENT:
            return ""
        is_read = journal.phase in (ReadingPhase.LIVE, ReadingPhase.REFUSED)
        if is_read and journal.as_of_ms >= 0 and self._now_ms() - journal.as_of_ms < _CURRENT_MS:
            return ""
        return journal.problem or "committed offsets are not read completely now"

    async def _sample(self, cluster: Cluster, snapshot: Snapshot, resting: Mapping[str, RestingGroup]) -> str:
        """Ask once, and publish the result. Return the problem that prevented it."""
        at_ms = self._now_ms()
        with_book = partial(self._lags.with_book, cluster.kafka_cluster_id)

        def chosen(book: LagBook) -> tuple[list[LiveGroup], int, list[Partition]]:
            groups = [
                one
                for one in snapshot.groups.values()
                # A stopped pipeline's lag grows, however long ago its last commit was.
                if one.group in resting or is_sampled(one, since_ms=at_ms - KEPT_MS)
            ]
            wanted = {at for one in groups for at in book.positions(one)}
            return groups, len(wanted), book.due(wanted, self._most)

        groups, wanted, due = await with_book(chosen)
        try:
            answers = await self._leaders_of(cluster).ends(due) if due else {}
        except FencelineError as error:
            return error.message
        period_ms = int(self.period_s * 1000) * max(1, -(-wanted // self._most))
        paused = {
            one.group: found.pipeline
            for one in groups
            if (found := resting.get(one.group)) is not None and not (found.is_over and one.member_count)
        }

        def noted(book: LagBook) -> dict[Partition, tuple[int, int]]:
            book.note(groups, answers, at_ms=at_ms, period_ms=period_ms, paused=paused)
            return book.unclear(groups, MOST_STRETCHES)

        stretches = await with_book(noted)
        if stretches:
            await self._read(cluster, stretches)
        make = partial(LagBook.report, cluster=cluster.name, at_ms=at_ms, sampled=len(due), period_ms=period_ms)
        self._lags.publish(await with_book(make))
        return ""

    def _leaders_of(self, cluster: Cluster) -> Leaders:
        found = self._leaders.get(cluster.kafka_cluster_id)
        if found is None:
            found = self._leaders[cluster.kafka_cluster_id] = Leaders(cluster, self._brokers)
        return found

    async def _read(self, cluster: Cluster, stretches: Mapping[Partition, tuple[int, int]]) -> None:
        try:
            found = await self._transactions.stretches(cluster.connection(), stretches, timeout_s=ASK_WITHIN_S)
        except FencelineError as error:
            # Without permission to read a topic its lag stays what its offsets say.
            log.info("whether lag is markers is not known: %s", error.message)
            return
        quiet = {at: one.is_whole and not (one.records or one.undecided) for at, one in found.items()}
        await self._lags.with_book(cluster.kafka_cluster_id, lambda book: book.note_content(stretches, quiet))

    async def _save(self, kafka_cluster_id: str) -> None:
        self._saved_ms[kafka_cluster_id] = self._now_ms()
        try:
            await self._lags.with_book(kafka_cluster_id, lambda book: self._store.save(kafka_cluster_id, book))
        except UnavailableError as error:
            log.warning(error.message)

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)
