"""A page of a cluster's transactional ids: which of them, and in which order."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.domain.errors import InvalidError
from app.domain.journals.live_transactions import LiveTransaction
from app.domain.page import checked_limit, decode_cursor, encode_cursor

_NEVER_MS = 1 << 60


class Owner(StrEnum):
    """OURS: a pipeline of this Fenceline owns the id."""

    OURS = "ours"
    FOREIGN = "foreign"


class TransactionSort(StrEnum):
    """OLDEST: open ones by how long they have been, the longest first, then the others. CHANGED: newest first."""

    OLDEST = "oldest"
    CHANGED = "changed"
    ID = "id"


class TransactionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """search: a part of the id. states: in Kafka's words; empty: all. min_open_ms: open for at least this long."""

    search: str = ""
    states: frozenset[str] = frozenset()
    is_open: bool | None = None
    min_open_ms: int = 0
    owner: Owner | None = None
    sort: TransactionSort = TransactionSort.OLDEST


class TransactionPage(NamedTuple):
    """matching: how many the query finds on all pages."""

    items: tuple[LiveTransaction, ...]
    next_cursor: str | None
    matching: int


def select(
    transactions: Mapping[str, LiveTransaction],
    query: TransactionQuery,
    *,
    ours: Collection[str],
    now_ms: int,
    after: str | None,
    limit: int,
) -> TransactionPage:
    """One page. `ours` is looked at only when the query asks for an owner. Raises InvalidError."""
    checked_limit(limit)
    start = None if after is None else _position(after, query.sort)
    matching = 0
    candidates: list[tuple[int, str]] = []
    for live in _matching(transactions.values(), query, ours, now_ms):
        matching += 1
        at = (_key(live, query.sort), live.transactional_id)
        if start is None or at > start:
            candidates.append(at)
    found = heapq.nsmallest(limit + 1, candidates)
    more = len(found) > limit
    page = found[:limit]
    cursor = encode_cursor(query.sort, str(page[-1][0]), page[-1][1]) if more else None
    return TransactionPage(tuple(transactions[name] for _, name in page), cursor, matching)


def _matching(
    candidates: Iterable[LiveTransaction], query: TransactionQuery, ours: Collection[str], now_ms: int
) -> Iterator[LiveTransaction]:
    search = query.search.casefold()
    is_open = True if query.min_open_ms > 0 else query.is_open
    started_before = now_ms - query.min_open_ms
    for live in candidates:
        state = live.state
        if is_open is not None and state.status.is_open is not is_open:
            continue
        if query.min_open_ms > 0 and state.start_ms > started_before:
            continue
        if query.states and state.status.word not in query.states:
            continue
        if search and search not in live.transactional_id.casefold():
            continue
        if query.owner is not None and (live.transactional_id in ours) is not (query.owner is Owner.OURS):
            continue
        yield live


def _key(live: LiveTransaction, sort: TransactionSort) -> int:
    if sort is TransactionSort.ID:
        return 0
    if sort is TransactionSort.OLDEST and live.state.status.is_open:
        return live.state.start_ms
    return _NEVER_MS - live.state.last_update_ms


def _position(after: str, sort: TransactionSort) -> tuple[int, str]:
    cursor_sort, key, name = decode_cursor(after, keys=3)
    if cursor_sort != sort or not key.lstrip("-").isascii() or not key.lstrip("-").isdigit():
        raise InvalidError("this cursor belongs to another list: take it from next_cursor unchanged", field="after")
    return int(key), name
