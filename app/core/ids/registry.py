"""The registry of a cluster's transactional ids: owner, use, expiry and contention."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.core.clocks.broker_clocks import BrokerClocks
from app.core.ids.transactional_id import is_named_as_ours
from app.core.journals import transaction_state
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.mappings.mapping import IdKind, PartitionMapping, ReportedIncarnation, TransactionalIdOwner
from app.kit.errors import InvalidError
from app.kit.page import checked_limit, decode_cursor, encode_cursor

UNTOLD_MS = 15_000
"""The longest time until a heartbeat reports a new producer, including a restart of the server."""
_NEVER_MS = 1 << 60
_AS_THEY_ARE = BrokerClocks()
# Source: Kafka, TransactionStateManager.enableTransactionalIdExpiration: the others never expire.
_CAN_EXPIRE = frozenset({TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})


class IdStanding(StrEnum):
    """OURS: a pipeline needs it. FOREIGN: no sign of Fenceline. ORPHANED: Fenceline's by name or by row, and unused.

    ARCHIVED: a migration of its pipeline retired it, and no producer may use it.
    """

    OURS = "ours"
    FOREIGN = "foreign"
    ORPHANED = "orphaned"
    ARCHIVED = "archived"


class Orphan(StrEnum):
    """The reason for which no pipeline uses an id."""

    NO_PIPELINE = "no_pipeline"
    NO_TASK = "no_task"
    NO_MAPPING = "no_mapping"


class Only(StrEnum):
    """The filter of a list. CONTESTED: another producer than its owner's uses it. UNSEEN: owned, and not on the
    brokers.
    """

    OURS = "ours"
    FOREIGN = "foreign"
    ORPHANED = "orphaned"
    ARCHIVED = "archived"
    CONTESTED = "contested"
    UNSEEN = "unseen"


class RegistrySort(StrEnum):
    """EXPIRES: soonest first, ids without expiry last. CHANGED: newest first."""

    ID = "id"
    EXPIRES = "expires"
    CHANGED = "changed"


class RegistryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """search: a part of the id."""

    search: str = ""
    only: Only | None = None
    sort: RegistrySort = RegistrySort.ID


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the database. owners: by id. of_tasks: ids that tasks use by the current definitions.

    partitions: by assigned id, the partitions that are read under it. `told`: the producers that tasks reported.
    of_queries: those of `of_tasks` whose writers report no producer.
    """

    owners: Mapping[str, TransactionalIdOwner]
    of_tasks: Collection[str]
    partitions: Mapping[str, tuple[str, ...]]
    told: Mapping[str, frozenset[tuple[int, int]]]
    of_queries: Collection[str] = frozenset()


class RegisteredId(msgspec.Struct, frozen=True, kw_only=True):
    """live: None if the brokers do not have it. expires_at_ms: None: without expiry, or not known.

    contested: a sentence if another producer uses it; empty if none is known.
    """

    transactional_id: str
    standing: IdStanding
    orphan: Orphan | None
    owner: TransactionalIdOwner | None
    partitions: tuple[str, ...]
    live: LiveTransaction | None
    expires_at_ms: int | None
    contested: str


class IdTally(NamedTuple):
    """ids: on the brokers. orphaned, archived, unseen: on the brokers or not."""

    ids: int
    ours: int
    foreign: int
    orphaned: int
    archived: int
    unseen: int
    contested: int


class IdCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of ids on the brokers at one moment, by owner."""

    at: datetime
    ids: int
    ours: int
    orphaned: int


class RegistryPage(NamedTuple):
    """matching: the number of results on all pages."""

    items: tuple[RegisteredId, ...]
    next_cursor: str | None
    matching: int
    tally: IdTally


def needed_of(
    owners: Iterable[TransactionalIdOwner],
    *,
    of_tasks: Collection[str],
    mappings: Iterable[PartitionMapping],
    told: Iterable[ReportedIncarnation],
    of_queries: Collection[str] = (),
) -> Needed:
    partitions: dict[str, list[str]] = {}
    for one in mappings:
        if one.assigned_id is not None:
            partitions.setdefault(one.assigned_id, []).append(f"{one.topic}-{one.partition}")
    producers: dict[str, set[tuple[int, int]]] = {}
    for said in told:
        producers.setdefault(said.transactional_id, set()).add((said.producer_id, said.epoch))
    return Needed(
        owners={one.transactional_id: one for one in owners},
        of_tasks=frozenset(of_tasks),
        partitions={name: tuple(found) for name, found in partitions.items()},
        told={name: frozenset(found) for name, found in producers.items()},
        of_queries=frozenset(of_queries),
    )


def select(
    transactions: Mapping[str, LiveTransaction],
    needed: Needed,
    query: RegistryQuery,
    *,
    expiration_ms: int | None,
    now_ms: int,
    after: str | None,
    limit: int,
    clocks: BrokerClocks = _AS_THEY_ARE,
) -> RegistryPage:
    """Return one page, with the tally of all ids. expiration_ms: `transactional.id.expiration.ms`.

    clocks: of the brokers that lead the journal. Times in the result are by this process's clock. Raises InvalidError.
    """
    checked_limit(limit)
    start = None if after is None else _position(after, query.sort)
    names = [*transactions, *(name for name in needed.owners if name not in transactions)]
    standings = {name: standing_of(name, needed)[0] for name in names}
    contested = frozenset(
        name for name in needed.owners if contested_by(name, transactions, needed, now_ms=now_ms, clocks=clocks)
    )
    matching = [name for name in names if _matches(name, query, standings[name], transactions, contested)]
    places = (
        (key, name)
        for name in matching
        for key in (_key(transactions.get(name), query.sort, expiration_ms),)
        if start is None or (key, name) > start
    )
    found = heapq.nsmallest(limit + 1, places)
    page = found[:limit]
    cursor = encode_cursor(query.sort, str(page[-1][0]), page[-1][1]) if len(found) > limit else None
    items = tuple(
        registered(name, transactions, needed, expiration_ms=expiration_ms, now_ms=now_ms, clocks=clocks)
        for _, name in page
    )
    tally = _tally(standings, transactions, needed, contested)
    return RegistryPage(items=items, next_cursor=cursor, matching=len(matching), tally=tally)


def tally_of(
    transactions: Mapping[str, LiveTransaction], needed: Needed, *, now_ms: int, clocks: BrokerClocks = _AS_THEY_ARE
) -> IdTally:
    standings = {name: standing_of(name, needed)[0] for name in (*transactions, *needed.owners)}
    contested = frozenset(
        name for name in needed.owners if contested_by(name, transactions, needed, now_ms=now_ms, clocks=clocks)
    )
    return _tally(standings, transactions, needed, contested)


def registered(
    name: str,
    transactions: Mapping[str, LiveTransaction],
    needed: Needed,
    *,
    expiration_ms: int | None,
    now_ms: int,
    clocks: BrokerClocks = _AS_THEY_ARE,
) -> RegisteredId:
    standing, orphan = standing_of(name, needed)
    live = transactions.get(name)
    live = None if live is None else clocks.ours(live)
    return RegisteredId(
        transactional_id=name,
        standing=standing,
        orphan=orphan,
        owner=needed.owners.get(name),
        partitions=needed.partitions.get(name, ()),
        live=live,
        expires_at_ms=None if live is None else expires_at_ms(live, expiration_ms),
        contested=contested_by(name, transactions, needed, now_ms=now_ms, clocks=clocks),
    )


def standing_of(name: str, needed: Needed) -> tuple[IdStanding, Orphan | None]:
    owner = needed.owners.get(name)
    if owner is None:
        return (IdStanding.ORPHANED, Orphan.NO_PIPELINE) if is_named_as_ours(name) else (IdStanding.FOREIGN, None)
    if owner.archived is not None:
        return IdStanding.ARCHIVED, None
    if owner.kind is IdKind.TASK:
        return (IdStanding.OURS, None) if name in needed.of_tasks else (IdStanding.ORPHANED, Orphan.NO_TASK)
    return (IdStanding.OURS, None) if name in needed.partitions else (IdStanding.ORPHANED, Orphan.NO_MAPPING)


def expires_at_ms(live: LiveTransaction, expiration_ms: int | None) -> int | None:
    """Return the time from which the coordinator may expire it, without further use; it checks once an hour.

    Source: Kafka, `transactional.id.expiration.ms` counts from the last update of the id's state, and
    `transaction.remove.expired.transaction.cleanup.interval.ms` is the interval of its checks.
    """
    if expiration_ms is None or live.state.status not in _CAN_EXPIRE:
        return None
    return live.state.last_update_ms + expiration_ms


def contested_by(
    name: str,
    transactions: Mapping[str, LiveTransaction],
    needed: Needed,
    *,
    now_ms: int,
    clocks: BrokerClocks = _AS_THEY_ARE,
) -> str:
    """Return a sentence if a managed id is used by a producer that no task has reported; empty otherwise.

    Only producers with a transaction count: an init alone, as by an operator's fence, is no use. An abort by the
    coordinator raises the epoch by one, so that the next epoch is its task's as well. The writers of a query report
    none.
    """
    owner, live = needed.owners.get(name), transactions.get(name)
    if owner is None or live is None or live.state.status is TransactionStatus.EMPTY or name in needed.of_queries:
        return ""
    state = live.state
    stamped_ms = live.steps[-1].at_ms if live.steps else state.last_update_ms
    began_ms = clocks.ours_ms(transaction_state.TOPIC, live.partition, stamped_ms)
    told = needed.told.get(name, frozenset())
    is_told = not told.isdisjoint(
        {(state.producer_id, state.producer_epoch), (state.producer_id, state.producer_epoch - 1)}
    )
    if is_told or now_ms - began_ms < UNTOLD_MS:
        return ""
    who = f"producer {state.producer_id} with epoch {state.producer_epoch}"
    if owner.kind is IdKind.IMPORTED and not told:
        return (
            f"The application that it was imported from used it last ({who}): a start of {owner.pipeline} with it "
            "fences that application"
        )
    return f"Used by {who}, which no task of {owner.pipeline} has reported: the next start of either fences the other"


def stale_mappings(
    mappings: Iterable[PartitionMapping], reads: Mapping[str, tuple[str, frozenset[str]]]
) -> Iterator[PartitionMapping]:
    """Return the mappings that no pipeline reads. reads: by pipeline, its group and its source topics."""
    for one in mappings:
        group, topics = reads.get(one.pipeline, ("", frozenset[str]()))
        if one.group != group or one.topic not in topics:
            yield one


def _matches(
    name: str,
    query: RegistryQuery,
    standing: IdStanding,
    transactions: Mapping[str, LiveTransaction],
    contested: Collection[str],
) -> bool:
    if query.search and query.search.casefold() not in name.casefold():
        return False
    match query.only:
        case None:
            return True
        case Only.CONTESTED:
            return name in contested
        case Only.UNSEEN:
            return name not in transactions
        case _:
            return standing == query.only.value


def _tally(
    standings: Mapping[str, IdStanding],
    transactions: Mapping[str, LiveTransaction],
    needed: Needed,
    contested: Collection[str],
) -> IdTally:
    found = list(standings.values())
    return IdTally(
        ids=len(transactions),
        ours=found.count(IdStanding.OURS),
        foreign=found.count(IdStanding.FOREIGN),
        orphaned=found.count(IdStanding.ORPHANED),
        archived=found.count(IdStanding.ARCHIVED),
        unseen=sum(1 for name in needed.owners if name not in transactions),
        contested=len(contested),
    )


def _key(live: LiveTransaction | None, sort: RegistrySort, expiration_ms: int | None) -> int:
    match sort:
        case RegistrySort.ID:
            return 0
        case RegistrySort.EXPIRES:
            at = None if live is None else expires_at_ms(live, expiration_ms)
            return _NEVER_MS if at is None else at
        case RegistrySort.CHANGED:
            return _NEVER_MS if live is None else _NEVER_MS - live.state.last_update_ms


def _position(after: str, sort: RegistrySort) -> tuple[int, str]:
    cursor_sort, key, name = decode_cursor(after, keys=3)
    if cursor_sort != sort or not (key.isascii() and key.isdecimal() and len(key) <= 20):
        raise InvalidError("this cursor belongs to another list: take it from next_cursor unchanged", field="after")
    return int(key), name
