"""The transactional ids of a cluster, managed and foreign."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from app.core.clusters.store import ClusterStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.journals import transaction_state
from app.core.journals.live_groups import CommittedOffset
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_pace import PaceSample
from app.core.mappings.mapping import TransactionalIdOwner
from app.core.observing import transaction_list
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot, SnapshotSource
from app.core.observing.transaction_list import IdOwnership, TransactionQuery, TransactionTally
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.kit.storable import storable_text

PACE_SPAN = timedelta(minutes=15)
LONGEST_PACE_SPAN = timedelta(hours=1)


class ObservedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """owner: the pipeline's task that owns the id; None: it is foreign. live: with times by this process's clock."""

    live: LiveTransaction
    owner: TransactionalIdOwner | None


class TransactionPage(msgspec.Struct, frozen=True, kw_only=True):
    """tally: of all ids, without the filter. pace: the last `pace_span`, second by second; see `_pace_of`."""

    items: tuple[ObservedTransaction, ...]
    next_cursor: str | None
    matching: int
    tally: TransactionTally
    pace: tuple[PaceSample, ...]
    journal: JournalStatus


class UncommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A pending offset of the id's open transaction."""

    group: str
    topic: str
    partition: int
    pending: CommittedOffset


class TransactionDetail(msgspec.Struct, frozen=True, kw_only=True):
    transaction: ObservedTransaction
    pending_offsets: tuple[UncommittedOffset, ...]
    journal: JournalStatus


async def list_transactions(
    uow: UnitOfWork,
    observations: Observations,
    *,
    cluster: str,
    query: TransactionQuery,
    now: datetime,
    pipeline: str | None = None,
    pace_span: timedelta = PACE_SPAN,
    after: str | None = None,
    limit: int = 50,
) -> TransactionPage:
    """Return one page; of one pipeline's ids only, if it is named. pace_span: LONGEST_PACE_SPAN at most.

    Raises NotFoundError for an unknown cluster, InvalidError.
    """
    kafka_cluster_id = (await uow.of(ClusterStore).get(cluster)).kafka_cluster_id
    snapshot = observations.of(cluster)
    ours = frozenset[str]()
    if pipeline is not None:
        query = msgspec.structs.replace(query, owner=IdOwnership.OURS)
        owned = await uow.of(TransactionalIdStore).of_pipeline(pipeline)
        ours = frozenset(one.transactional_id for one in owned if one.kafka_cluster_id == kafka_cluster_id)
    elif query.owner is not None:
        ours = frozenset(await uow.of(TransactionalIdStore).names(kafka_cluster_id=kafka_cluster_id))

    def choose() -> tuple[transaction_list.TransactionListPage, TransactionTally, tuple[PaceSample, ...]]:
        now_ms = int(now.timestamp() * 1000)
        ids = _counted(snapshot)
        page = transaction_list.select(ids, query, ours=ours, now_ms=now_ms, after=after, limit=limit)
        tally = ids.tally
        return page, tally, _pace_of(snapshot, tally, now=now, span=min(pace_span, LONGEST_PACE_SPAN))

    # With 50,000 ids it takes tens of milliseconds, which must not block the event loop.
    found, tally, pace = await asyncio.to_thread(choose)
    owners = {
        owner.transactional_id: owner
        for owner in await uow.of(TransactionalIdStore).owners(
            kafka_cluster_id=kafka_cluster_id, ids=_ownable(live.transactional_id for live in found.items)
        )
    }
    return TransactionPage(
        items=tuple(
            ObservedTransaction(live=_ours(snapshot, live), owner=owners.get(live.transactional_id))
            for live in found.items
        ),
        next_cursor=found.next_cursor,
        matching=found.matching,
        tally=tally,
        pace=pace,
        journal=snapshot.transaction_journal,
    )


class PaceReading(msgspec.Struct, frozen=True, kw_only=True):
    """tally: the current one. samples: the last PACE_SPAN, second by second; see `_pace_of`."""

    tally: TransactionTally
    samples: tuple[PaceSample, ...]
    journal: JournalStatus


async def get_pace(uow: UnitOfWork, observations: Observations, *, cluster: str, now: datetime) -> PaceReading:
    """Return the open transactions, the age of the oldest, commits and aborts a second. Raises NotFoundError."""
    await uow.of(ClusterStore).get(cluster)
    snapshot = observations.of(cluster)
    tally = _counted(snapshot).tally
    return PaceReading(tally=tally, samples=_pace_of(snapshot, tally, now=now), journal=snapshot.transaction_journal)


async def get_transaction(
    uow: UnitOfWork, observations: Observations, *, cluster: str, transactional_id: str
) -> TransactionDetail:
    """Return one id with its pending offsets. Raises NotFoundError, with the progress of the reading."""
    kafka_cluster_id = (await uow.of(ClusterStore).get(cluster)).kafka_cluster_id
    snapshot = observations.of(cluster)
    live = snapshot.transactions.get(transactional_id)
    if live is None:
        raise NotFoundError(f"no transactional id {transactional_id} is known on {cluster}{_unless(snapshot)}")
    owners = await uow.of(TransactionalIdStore).owners(
        kafka_cluster_id=kafka_cluster_id, ids=_ownable([transactional_id])
    )
    return TransactionDetail(
        transaction=ObservedTransaction(live=_ours(snapshot, live), owner=owners[0] if owners else None),
        pending_offsets=pending_offsets_of(snapshot, live.state.producer_id),
        journal=snapshot.transaction_journal,
    )


def _counted(snapshot: Snapshot) -> transaction_list.CountedTransactions:
    shifts = snapshot.clocks.shifts(transaction_state.TOPIC)
    still_open = snapshot.open_transactions.values()
    return transaction_list.CountedTransactions(snapshot.transactions, still_open, snapshot.transactional_ids, shifts)


def _ours(snapshot: Snapshot, live: LiveTransaction) -> LiveTransaction:
    return snapshot.clocks.ours(live)


def pending_offsets_of(snapshot: Snapshot, producer_id: int) -> tuple[UncommittedOffset, ...]:
    """By group, topic and partition."""
    return tuple(
        UncommittedOffset(
            group=name, topic=topic, partition=partition, pending=group.pending[topic, partition, producer]
        )
        # Few of thousands have any: only these are sorted, many times a second.
        for name, group in sorted((name, group) for name, group in snapshot.groups.items() if group.pending)
        for topic, partition, producer in sorted(group.pending)
        if producer == producer_id
    )


def _pace_of(
    snapshot: Snapshot, tally: TransactionTally, *, now: datetime, span: timedelta = PACE_SPAN
) -> tuple[PaceSample, ...]:
    """Return the last seconds except the current one; empty without a journal.

    Seconds are by the brokers' clocks; records ahead of this process's clock are not included yet.
    """
    journal = snapshot.transaction_journal
    if journal.source is not SnapshotSource.JOURNAL:
        return ()
    # Without answers, later seconds are not known.
    heard_ms = int(now.timestamp() * 1000) if journal.phase is ReadingPhase.LIVE else journal.as_of_ms
    # If coordinators' clocks differ, the end is by the one that is least behind.
    heard_s = (heard_ms - min(snapshot.clocks.shifts(transaction_state.TOPIC).values(), default=0)) // 1000
    first_s = heard_s - int(span.total_seconds())
    if journal.complete_since_ms is not None:
        first_s = max(first_s, journal.complete_since_ms // 1000 + 1)
    oldest_start_ms = None if tally.oldest is None else tally.oldest.state.start_ms
    samples = snapshot.pace.samples(
        open_now=tally.open, oldest_start_ms=oldest_start_ms, first_s=first_s, last_s=heard_s - 1
    )
    return tuple(samples)


def _ownable(ids: Iterable[str]) -> list[str]:
    """Kafka accepts characters that a database does not; ids with one have no owner."""
    return [name for name in ids if storable_text(name) == name]


def _unless(snapshot: Snapshot) -> str:
    journal = snapshot.transaction_journal
    if journal.problem:
        return f"; {journal.problem}"
    behind = journal.partitions - journal.partitions_caught_up
    return f"; {behind} of {journal.partitions} partitions of {journal.topic} are still being read" if behind else ""
