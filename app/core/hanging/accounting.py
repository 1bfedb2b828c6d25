"""How long a partition's readers may stand still before that is worth a question to its leader.

Whoever holds them began before they stood still. So where the coordinators' journal is followed, only the transactions
that it has open there since before then account for it, each until its timeout is over. Where it is not followed, any
transaction might: until the largest timeout that was seen is over. One that is accounted for may hide one that hangs:
what lies behind the first open transaction moves nobody's last stable offset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from app.core.blocked.facts import Partition
from app.core.journals import transaction_state
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.snapshot import Phase, Snapshot
from app.core.observing.snapshot import Source as ReadingSource

UNACCOUNTED_MS = 10_000
"""So long may a marker be on its way: the coordinator writes it after the end is in its journal."""
BEHIND_MS = 30_000
"""So long may readers wait for a transaction that is well before somebody looks at what is behind it."""
OVERDUE_MS = 20_000
"""Kafka looks for timed-out transactions every 10 s, and writes their markers then."""
SKEW_MS = 10_000
"""Begins are told by the brokers' clocks, and what was measured of these is not exact."""
LARGEST_TIMEOUT_MS = 900_000
"""What brokers allow at most unless told otherwise (transaction.max.timeout.ms); counts while no timeout was seen."""


class OpenThere(NamedTuple):
    """A transaction that the journal has open in a partition; the same as long as nothing of this changes."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    start_ms: int
    timeout_ms: int
    journal_partition: int = -1


class Accounts:
    """What was open at one moment, in these partitions. Made anew for each turn, which is nothing without any."""

    def __init__(self, snapshot: Snapshot, partitions: Collection[Partition], *, unaccounted_ms: int) -> None:
        self._is_live = is_followed(snapshot)
        self._unaccounted_ms = unaccounted_ms
        transactions = snapshot.transactions.values() if partitions else ()
        open_ones = transactions if self._is_live else ()
        self._asked_of = frozenset(partitions)
        self._open = _by_partition(open_ones, self._asked_of)
        self._shifts = snapshot.clocks.shifts(transaction_state.TOPIC)
        timeouts = () if self._is_live else (one.state.timeout_ms for one in transactions)
        self._largest_ms = max(timeouts, default=LARGEST_TIMEOUT_MS)

    def open_in(self, at: Partition) -> tuple[OpenThere, ...] | None:
        """Those that the journal has open there; None where it was not asked, or is not followed."""
        return tuple(self._open.get(at, ())) if self._is_live and at in self._asked_of else None

    def bound_ms(self, at: Partition, *, since_ms: int) -> int:
        """For how long the readers of a partition that stand still since `since_ms` are not worth a question."""
        if not self._is_live:
            return self._largest_ms + OVERDUE_MS
        timeouts = [one.timeout_ms for one in self._open.get(at, ()) if self._started_ms(one) <= since_ms + SKEW_MS]
        return max(timeouts) + OVERDUE_MS if timeouts else self._unaccounted_ms

    def _started_ms(self, one: OpenThere) -> int:
        return one.start_ms + self._shifts.get(one.journal_partition, 0)

    @property
    def behind_ms(self) -> int | None:
        """After how long a look behind what accounts for it is worth a question; None where the answer would prove
        nothing: without the journal, an id that may not be described looks like one that hangs."""
        return max(BEHIND_MS, self._unaccounted_ms) if self._is_live else None


def is_followed(snapshot: Snapshot) -> bool:
    """Whether the snapshot has every id that there is, from the coordinators' own journal."""
    journal = snapshot.transaction_journal
    return journal.phase is Phase.LIVE and journal.source is ReadingSource.JOURNAL and not journal.unreadable


def _by_partition(
    transactions: Iterable[LiveTransaction], wanted: Collection[Partition]
) -> Mapping[Partition, list[OpenThere]]:
    found: defaultdict[Partition, list[OpenThere]] = defaultdict(list)
    for live in transactions:
        if not live.is_open:
            continue
        state = live.state
        for topic in state.partitions or ():
            for number in topic.partitions:
                if (topic.topic, number) in wanted:
                    one = OpenThere(
                        live.transactional_id,
                        state.producer_id,
                        state.producer_epoch,
                        start_ms=state.start_ms,
                        timeout_ms=state.timeout_ms,
                        journal_partition=live.partition,
                    )
                    found[topic.topic, number].append(one)
    return found
