"""The search for hanging transactions on one cluster: sweeps, checks, and the storage and display of results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

import msgspec

from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.service import refuse_other_cluster
from app.core.fencing.cases import case_of_marker, case_of_torn
from app.core.fencing.evidence import MarkerRecord
from app.core.fencing.fencing_event import Case
from app.core.fencing.service.events import record_cases
from app.core.hanging.accounting import UNACCOUNTED_MS, Accounts, is_followed
from app.core.hanging.brokers import PARTITIONS_A_REQUEST, SearchBrokers, SearchConnection
from app.core.hanging.corroboration import corroborated, is_news
from app.core.hanging.hanging_transaction import HangingEnding, HangingOutcome, HangingTransaction
from app.core.hanging.report import UNCLEAR_SHOWN, SearchReport
from app.core.hanging.search import PartitionSearch
from app.core.hanging.service import record_ended, record_found
from app.core.hanging.store import HangingStore
from app.core.hanging.torn import Torn, TornSearch
from app.core.journals.record_batch import MarkerType
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import Snapshot
from app.kit.back_off import BackOff
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import FencelineError

log = logging.getLogger(__name__)

T = TypeVar("T")

_ANSWER_WITHIN_S = 5.0
_PARTITIONS_AGAIN_S = 60.0
_MOVED_AGAIN_S = 10.0
_JOURNAL_WITHIN_S = 1.0
_LOOKS_FOR_A_MARKER = 5
BACK_OFF = BackOff(1.0, 60.0)


class _Over(msgspec.Struct):
    """A transaction that is no longer open; looks: the number of searches for its marker."""

    transaction: HangingTransaction
    ending: HangingEnding | None
    looks: int = 0


class ClusterSearch:
    """`turn` is one step, bounded in time. Broker failures are in the report, those of Postgres are raised."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: SearchBrokers,
        observations: Observations,
        clock: Clock,
        asks_per_s: float,
        sweep_every_s: float,
        unaccounted_ms: int | None = None,
    ) -> None:
        self.cluster = cluster
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._observations = observations
        self._clock = clock
        self._asks_per_s = asks_per_s
        self._sweep_every_s = sweep_every_s
        self._unaccounted_ms = UNACCOUNTED_MS if unaccounted_ms is None else unaccounted_ms
        self._search: PartitionSearch | None = None
        self._held_open = ExitStack()
        self._connection: SearchConnection | None = None
        self._thread = _thread_of(cluster)
        self._failures = 0
        self._not_before = 0.0
        self._partitions: tuple[Partition, ...] = ()
        self._partitions_at = float("-inf")
        self._to_sweep: list[Partition] = []
        self._sweep_began = float("-inf")
        self._silent: dict[str, None] = {}
        self._is_stale = False
        self._report = SearchReport(cluster=cluster.name, sweep_every_ms=int(sweep_every_s * 1000))
        self._found: list[HangingTransaction] = []
        self._over: list[_Over] = []
        self._ended: list[HangingOutcome] = []
        self._cases: list[Case] = []
        self._torn_search = TornSearch()
        self._torn: list[Torn] = []

    async def turn(self) -> None:
        search = self._search
        if search is None:
            async with self._unit_of_work() as uow:
                known = await uow.of(HangingStore).open_ones(self.cluster.kafka_cluster_id)
            search = self._search = PartitionSearch(
                self.cluster.kafka_cluster_id, asks_per_s=self._asks_per_s, known=known
            )
        if time.monotonic() >= self._not_before:
            try:
                await self._ask(search)
            except FencelineError as error:
                await self._lost(error)
        await self._write()

    async def close(self) -> None:
        """Close the connection; a request in progress fails."""
        self._connection = None
        held_open, self._held_open = self._held_open, ExitStack()
        await self._in_thread(held_open.close)
        self._thread.shutdown(wait=False)
        self._thread = _thread_of(self.cluster)

    async def _ask(self, search: PartitionSearch) -> None:
        connection = self._connection or await self._connect()
        await self._sweep_on(connection, search)
        await self._look(connection, search)
        await self._find_ends(connection)
        await self._find_foreign_markers(connection)
        self._failures = 0

    async def _connect(self) -> SearchConnection:
        opening = await self._in_thread(
            lambda: self._brokers.open_search(self.cluster.connection(), timeout_s=_ANSWER_WITHIN_S)
        )
        self._connection = self._held_open.enter_context(opening)
        refuse_other_cluster(self.cluster, self._connection.kafka_cluster_id)
        return self._connection

    async def _lost(self, error: FencelineError) -> None:
        if error.message != self._report.problem:
            log.warning("the search for hanging transactions of %s: %s", self.cluster.name, error.message)
        self._failures += 1
        self._not_before = time.monotonic() + BACK_OFF.wait_s(self._failures)
        self._tell(problem=error.message)
        await self.close()
        # Brokers may have other addresses now, and partitions other leaders.
        self._partitions_at = float("-inf")
        self._to_sweep = []

    async def _sweep_on(self, connection: SearchConnection, search: PartitionSearch) -> None:
        """Ask for the ends of the next partitions; start again with all of them when the interval is over."""
        now = time.monotonic()
        if not self._to_sweep:
            if now - self._sweep_began < self._sweep_every_s:
                return
            again_s = _MOVED_AGAIN_S if self._is_stale else _PARTITIONS_AGAIN_S
            if now - self._partitions_at >= again_s:
                self._partitions = await self._in_thread(connection.all_partitions)
                self._partitions_at = now
                search.note_partitions(frozenset(self._partitions))
            self._to_sweep = list(self._partitions)
            self._sweep_began = now
            self._silent, self._is_stale = {}, False
        some, self._to_sweep = self._to_sweep[:PARTITIONS_A_REQUEST], self._to_sweep[PARTITIONS_A_REQUEST:]
        answer = await self._in_thread(lambda: connection.stable_ends(some))
        search.note_ends(answer.ends, now_ms=self._now_ms())
        self._silent |= dict.fromkeys(answer.silent)
        self._is_stale |= answer.is_stale
        if not self._to_sweep:
            self._tell(
                problem="",
                swept_ms=self._now_ms(),
                sweep_took_ms=int((time.monotonic() - self._sweep_began) * 1000),
                partitions=len(self._partitions),
                silent=tuple(self._silent),
            )

    async def _look(self, connection: SearchConnection, search: PartitionSearch) -> None:
        snapshot, now_ms = self._observations.of(self.cluster.name), self._now_ms()
        suspects = search.suspects(for_ms=self._unaccounted_ms, now_ms=now_ms)
        # With 50,000 ids it takes tens of milliseconds, which must not block the event loop.
        accounts = await asyncio.to_thread(Accounts, snapshot, suspects, unaccounted_ms=self._unaccounted_ms)
        self._torn_search.note_moved(search.take_moved())
        due = search.due(accounts, now_ms=now_ms, torn=self._torn_search.due(snapshot))
        if not due:
            return
        looked = await self._in_thread(lambda: connection.look(due))
        snapshot = await self._observations.until(
            self.cluster.name,
            lambda one: not is_followed(one) or all(is_news(one, facts) for facts in looked),
            timeout_s=_JOURNAL_WITHIN_S,
        )
        for facts in looked:
            changed = search.note_look(corroborated(facts, snapshot), now_ms=self._now_ms())
            self._found += changed.found
            self._over += [_Over(one, ending) for one, ending in changed.over]
            self._torn += self._torn_search.note_look(facts, snapshot)
        self._tell(asked=self._report.asked + len(due))

    async def _find_ends(self, connection: SearchConnection) -> None:
        """Find the ends of those that are no longer open. Each stays on the list until its end is known."""
        for over in list(self._over):
            ended = await self._end_of(connection, over)
            if ended is not None:
                self._ended.append(ended)
                self._over.remove(over)

    async def _end_of(self, connection: SearchConnection, over: _Over) -> HangingOutcome | None:
        """Return None while its marker may be on its way to the replicas: the leader reports the end at once."""
        one, ending = over.transaction, over.ending
        marker = None
        if ending is None:
            marker = await self._in_thread(lambda: _marker_behind(connection, one))
            over.looks += 1
            if marker is None and over.looks < _LOOKS_FOR_A_MARKER:
                return None
        if marker is None:
            return HangingOutcome(transaction=one, ending=ending or HangingEnding.GONE, at_ms=self._now_ms())
        await self._note_marker(one, marker)
        ending = HangingEnding.ABORTED if marker.type is MarkerType.ABORT else HangingEnding.COMMITTED
        return HangingOutcome(transaction=one, ending=ending, at_ms=marker.at_ms, marker_offset=marker.offset)

    async def _find_foreign_markers(self, connection: SearchConnection) -> None:
        """Find the markers of torn transactions, as evidence of fencing events."""
        while self._torn:
            one = self._torn[-1]
            marker = await self._in_thread(partial(_foreign_marker, connection, one))
            self._torn.pop()
            if marker is None:
                continue
            case = case_of_torn(
                marker,
                kafka_cluster_id=self.cluster.kafka_cluster_id,
                transactional_id=one.transactional_id,
                known=one.known,
            )
            if case is not None:
                self._cases.append(case)

    async def _note_marker(self, one: HangingTransaction, marker: MarkerRecord) -> None:
        """Add the marker as evidence of a fencing event: no coordinator decided it."""
        snapshot = await self._observations.until(
            self.cluster.name, lambda found: _is_read_to(found, marker.at_ms), timeout_s=_JOURNAL_WITHIN_S
        )
        owners = (live for live in snapshot.transactions.values() if live.state.producer_id == one.key.producer_id)
        live = next((live for live in owners if live.is_from_journal), None)
        if live is None and one.transactional_id is not None:
            # Only its coordinator's answer names its id, without a record as evidence.
            return
        case = case_of_marker(
            marker,
            kafka_cluster_id=self.cluster.kafka_cluster_id,
            producer_id=one.key.producer_id,
            producer_epoch=one.key.producer_epoch,
            live=live,
        )
        if case is not None:
            self._cases.append(case)

    async def _write(self) -> None:
        if not (self._found or self._ended or self._cases):
            return
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            found = await record_found(uow, self._found, now=now)
            ended = await record_ended(uow, self._ended, now=now)
            events = await record_cases(uow, self._cases, now=now)
            await uow.commit()
        self._found, self._ended, self._cases = [], [], []
        for one in found:
            log.warning("%s: %s", self.cluster.name, one.sentence)
        for verdict in (event.verdict for event in events):
            log.info("fencing, %s, %s: %s", verdict.cause, verdict.confidence, verdict.sentence)
        for one in ended:
            log.info("%s: the hanging transaction in %s ended: %s", self.cluster.name, one.transaction.name, one.ending)

    def _tell(self, **changes: object) -> None:
        search = self._search
        if search is not None:
            unclear = search.unclear
            changes |= {
                "held_back": len(search.held),
                "unclear": unclear[:UNCLEAR_SHOWN],
                "unclear_count": len(unclear),
                "hanging": search.found,
            }
        self._report = msgspec.structs.replace(self._report, **changes)
        self._observations.note_search(self._report)

    async def _in_thread(self, question: Callable[[], T]) -> T:
        """Use this search's own thread: frozen brokers block only that one."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question)

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)


def _thread_of(cluster: Cluster) -> ThreadPoolExecutor:
    """The thread starts with its first request."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"hanging search of {cluster.name}")


def _marker_behind(connection: SearchConnection, one: HangingTransaction) -> MarkerRecord | None:
    return connection.find_marker(one.at, producer_id=one.key.producer_id, from_offset=one.high_watermark)


def _foreign_marker(connection: SearchConnection, one: Torn) -> MarkerRecord | None:
    return connection.find_marker(
        Partition(one.topic, one.partition),
        producer_id=one.producer_id,
        from_offset=one.from_offset,
        until_offset=one.until_offset,
    )


def _is_read_to(snapshot: Snapshot, at_ms: int) -> bool:
    """Return True if the journal is read up to then, or is not followed."""
    return not is_followed(snapshot) or snapshot.transaction_journal.as_of_ms >= at_ms
