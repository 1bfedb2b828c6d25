"""A page of a cluster's transactional ids: filters and order."""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import msgspec

from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import IS_OPEN, TransactionStatus
from app.kit.errors import InvalidError
from app.kit.page import checked_limit, decode_cursor, encode_cursor

_NEVER_MS = 1 << 60
_LONG_MS = 1_000
_Place = tuple[int, str]
# As many digits as any time has: longer numbers are foreign, and expensive to parse.
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")


class IdOwnership(StrEnum):
    """OURS: a Fenceline pipeline owns the id."""

    OURS = "ours"
    FOREIGN = "foreign"


class TransactionSort(StrEnum):
    """OLDEST: open transactions by age, the oldest first, then the others. CHANGED: newest first.

    LONG_OPEN: transactions that are open for a second or longer, the oldest first, then all others by id. With short
    transactions the order is stable, and a hanging one moves to the top.
    """

    OLDEST = "oldest"
    CHANGED = "changed"
    ID = "id"
    LONG_OPEN = "long_open"


class TransactionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """search: a part of the id. states: Kafka's names; empty: all. min_open_ms: open for at least this time."""

    search: str = ""
    states: frozenset[str] = frozenset()
    is_open: bool | None = None
    min_open_ms: int = 0
    owner: IdOwnership | None = None
    sort: TransactionSort = TransactionSort.OLDEST


class TransactionListPage(NamedTuple):
    """matching: the number of results on all pages."""

    items: tuple[LiveTransaction, ...]
    next_cursor: str | None
    matching: int


class TransactionTally(NamedTuple):
    """The number of ids, the number of open transactions, and the id with the oldest of these."""

    ids: int
    open: int
    oldest: LiveTransaction | None


class CountedTransactions(NamedTuple):
    """All ids, with those that have an open transaction. names: of all, in order.

    shifts: by partition of the journal, the difference of its coordinator's clock to this process's, if there is one.
    """

    transactions: Mapping[str, LiveTransaction]
    still_open: Collection[LiveTransaction]
    names: Sequence[str]
    shifts: Mapping[int, int] = {}

    def started_ms(self, live: LiveTransaction) -> int:
        return live.state.start_ms + self.shifts.get(live.partition, 0)

    def changed_ms(self, live: LiveTransaction) -> int:
        return live.state.last_update_ms + self.shifts.get(live.partition, 0)

    @property
    def tally(self) -> TransactionTally:
        oldest = min(self.still_open, key=self.started_ms, default=None)
        return TransactionTally(len(self.transactions), len(self.still_open), oldest)


def counted(
    transactions: Mapping[str, LiveTransaction], shifts: Mapping[int, int] | None = None
) -> CountedTransactions:
    still_open = [live for live in transactions.values() if IS_OPEN[live.state.status]]
    return CountedTransactions(transactions, still_open, sorted(transactions), shifts or {})


def select(
    ids: CountedTransactions,
    query: TransactionQuery,
    *,
    ours: Collection[str],
    now_ms: int,
    after: str | None,
    limit: int,
) -> TransactionListPage:
    """Return one page. `ours` is used only if the query has an owner. Raises InvalidError."""
    checked_limit(limit)
    start = None if after is None else _position(after, query.sort)
    matching = _matching(ids, query, ours, now_ms)
    is_all = len(matching) == len(ids.transactions)
    if not is_all:
        ids = CountedTransactions(
            ids.transactions,
            [live for live in matching if IS_OPEN[live.state.status]],
            sorted(live.transactional_id for live in matching),
            ids.shifts,
        )
    found = _first(ids, matching, query.sort, now_ms, start, limit + 1)
    more = len(found) > limit
    page = found[:limit]
    cursor = encode_cursor(query.sort, str(page[-1][0]), page[-1][1]) if more else None
    return TransactionListPage(tuple(ids.transactions[name] for _, name in page), cursor, len(matching))


# One comprehension for each condition: with 50,000 ids and many views a second, an unused test costs time.
def _matching(
    ids: CountedTransactions, query: TransactionQuery, ours: Collection[str], now_ms: int
) -> Collection[LiveTransaction]:
    found: Collection[LiveTransaction] = ids.transactions.values()
    if query.min_open_ms > 0 or query.is_open:
        found = ids.still_open
    elif query.is_open is False:
        found = [live for live in found if not IS_OPEN[live.state.status]]
    if query.min_open_ms > 0:
        started_before = now_ms - query.min_open_ms
        found = [live for live in found if ids.started_ms(live) <= started_before]
    if query.states:
        states = tuple(status for status in TransactionStatus if status.word in query.states)
        found = [live for live in found if live.state.status in states]
    if query.search:
        search = query.search.casefold()
        found = [live for live in found if search in live.transactional_id.casefold()]
    if query.owner is IdOwnership.OURS:
        found = [live for live in found if live.transactional_id in ours]
    elif query.owner is IdOwnership.FOREIGN:
        found = [live for live in found if live.transactional_id not in ours]
    return found


def _first(
    ids: CountedTransactions,
    found: Collection[LiveTransaction],
    sort: TransactionSort,
    now_ms: int,
    start: _Place | None,
    number: int,
) -> list[_Place]:
    """Return the first of `found` in their order after `start`. ids: their open ones and names."""
    match sort:
        case TransactionSort.ID:
            return _first_by_id(ids.names, {}, 0, start, number)
        case TransactionSort.LONG_OPEN:
            long_ago = now_ms - _LONG_MS
            long_open = {
                live.transactional_id: ids.started_ms(live)
                for live in ids.still_open
                if ids.started_ms(live) <= long_ago
            }
            first = _after(start, ((start_ms, name) for name, start_ms in long_open.items()), number)
            return [*first, *_first_by_id(ids.names, long_open, _NEVER_MS, start, number)][:number]
        case TransactionSort.CHANGED:
            return _after(start, ((_NEVER_MS - ids.changed_ms(live), live.transactional_id) for live in found), number)
        case TransactionSort.OLDEST:
            keyed = (
                (
                    ids.started_ms(live) if IS_OPEN[live.state.status] else _NEVER_MS - ids.changed_ms(live),
                    live.transactional_id,
                )
                for live in found
            )
            return _after(start, keyed, number)


def _first_by_id(
    names: Sequence[str], others: Collection[str], key: int, start: _Place | None, number: int
) -> list[_Place]:
    """Return ids with the same key, those of `names` (in order) without `others`."""
    if start is not None and start[0] > key:
        return []
    begin = bisect_right(names, start[1]) if start is not None and start[0] == key else 0
    rest = (names[index] for index in range(begin, len(names)))
    return [(key, name) for name in islice((name for name in rest if name not in others), number)]


def _after(start: _Place | None, places: Iterable[_Place], number: int) -> list[_Place]:
    return heapq.nsmallest(number, places if start is None else (at for at in places if at > start))


def _position(after: str, sort: TransactionSort) -> _Place:
    cursor_sort, key, name = decode_cursor(after, keys=3)
    if cursor_sort != sort or _WHOLE_NUMBER.fullmatch(key) is None:
        raise InvalidError("this cursor belongs to another list: take it from next_cursor unchanged", field="after")
    return int(key), name
