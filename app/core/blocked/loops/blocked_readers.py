"""Look for blocked readers: ask the brokers about partitions of transactions that are open for some time."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.readers import MOST_PARTITIONS, BlockedReport, OpenSince, blocked_readers
from app.core.blocked.service.explaining import ids_in
from app.core.blocked.service.owners import ask_of
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import FencelineError, NotFoundError

ASK_WITHIN_S = 5.0
KNOWN_FOR_MS = 15_000
"""Without permission to read the journal, coordinators are asked every few seconds."""


class BlockedReadersWatch:
    """Publishes a report of each observed cluster, by this server's own observer; each server has a loop of its own.

    Without a transaction that is open for some time, it asks neither brokers nor Postgres.
    """

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: TransactionBrokers,
        observations: Observations,
        clock: Clock,
        where: str,
        period_s: float = 2.0,
    ) -> None:
        self.name = f"blocked readers of {where}"
        self.period_s = period_s
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._observations = observations
        self._clock = clock
        self._since: dict[str, OpenSince] = {}

    def interrupted(self) -> None:
        """First sightings stay valid: they are of this server's own observer."""

    async def turn(self) -> None:
        snapshots = {snapshot.cluster: snapshot for snapshot in self._observations.all()}
        self._since = {name: self._since.get(name) or OpenSince() for name in snapshots}
        suspected = {name: await self._suspected(snapshot) for name, snapshot in snapshots.items()}
        quiet = [name for name, partitions in suspected.items() if not partitions]
        for name in quiet:
            self._observations.note_blocked(self._unasked(snapshots[name]))
        failures = await asyncio.gather(
            *(self._look(snapshots[name], partitions) for name, partitions in suspected.items() if partitions),
            return_exceptions=True,
        )
        for failure in failures:
            if failure is not None:
                # After the other clusters: an unreachable one delays them by ASK_WITHIN_S only.
                raise failure

    def _unasked(self, snapshot: Snapshot) -> BlockedReport:
        """Nothing is suspected: all is well only if the transactions are known."""
        journal, now_ms = snapshot.transaction_journal, self._now_ms()
        is_known = journal.as_of_ms >= 0 and now_ms - journal.as_of_ms < KNOWN_FOR_MS
        if is_known or journal.phase is ReadingPhase.ABSENT:
            return BlockedReport(cluster=snapshot.cluster, at_ms=now_ms)
        before = self._observations.blocked_of(snapshot.cluster)
        problem = journal.problem or "its transactions are not observed now"
        return replace(before, cluster=snapshot.cluster, problem=problem)

    async def _suspected(self, snapshot: Snapshot) -> list[Partition]:
        # Off the event loop: a check of 50,000 ids takes tens of milliseconds.
        search = self._observations.search_of(snapshot.cluster)
        return await asyncio.to_thread(self._since[snapshot.cluster].see, snapshot, search, now_ms=self._now_ms())

    async def _look(self, snapshot: Snapshot, suspected: list[Partition]) -> None:
        name = snapshot.cluster
        try:
            async with self._unit_of_work() as uow:
                cluster = await uow.of(ClusterStore).get(name)
            report = await self._asked(cluster, snapshot, suspected)
        except NotFoundError:
            # Removed meanwhile.
            return
        except FencelineError as error:
            before = self._observations.blocked_of(name)
            report = replace(before, problem=error.message)
        self._observations.note_blocked(report)

    async def _asked(self, cluster: Cluster, snapshot: Snapshot, suspected: list[Partition]) -> BlockedReport:
        asked = suspected[:MOST_PARTITIONS]
        facts = await self._brokers.look_at_partitions(cluster.connection(), asked, timeout_s=ASK_WITHIN_S)
        context = await ask_of(self._unit_of_work, self._observations, cluster, self._clock)(ids_in(facts))
        causes, unknown = blocked_readers(cluster.name, facts, context, snapshot.groups, self._since[cluster.name])
        return BlockedReport(
            cluster=cluster.name,
            at_ms=self._now_ms(),
            causes=causes,
            problem=unknown,
            left_out=len(suspected) - len(asked),
        )

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)
