"""Decide how long a partition may be blocked before its leader is asked about open transactions.

The blocking transaction began before the block. So while the coordinators' journal is followed, only the transactions
that it has had open there since then explain the block, each until its timeout. Without the journal, any transaction
may explain it, until the largest known timeout. An explained block may hide a hanging transaction: transactions behind
the first open one do not change the last stable offset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from app.core.clusters.partition import Partition
from app.core.journals import transaction_state
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.core.observing.snapshot import SnapshotSource as ReadingSource

UNACCOUNTED_MS = 10_000
"""The time that a marker may take: the coordinator writes it after the end is in its journal."""
BEHIND_MS = 30_000
"""The time for which a live transaction may block consumers before the search checks the records behind it."""
OVERDUE_MS = 20_000
"""Kafka checks for timed-out transactions every 10 s, and writes their markers then."""
SKEW_MS = 10_000
"""Begins are by the brokers' clocks, whose measurement is not exact."""
LARGEST_TIMEOUT_MS = 900_000
"""The brokers' default maximum (transaction.max.timeout.ms); used while no timeout is known."""


class OpenThere(NamedTuple):
    """A transaction that the journal has open in a partition; the same while none of these values changes."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    start_ms: int
    timeout_ms: int
    journal_partition: int = -1


class Accounts:
    """The open transactions in these partitions at one moment. Created again for each turn; without partitions it costs
    nothing.
    """

    def __init__(self, snapshot: Snapshot, partitions: Collection[Partition], *, unaccounted_ms: int) -> None:
        self._is_live = is_followed(snapshot)
        self._unaccounted_ms = unaccounted_ms
        open_ones = snapshot.open_transactions.values() if partitions and self._is_live else ()
        self._asked_of = frozenset(partitions)
        self._open = _by_partition(open_ones, self._asked_of)
        self._shifts = snapshot.clocks.shifts(transaction_state.TOPIC)
        everything = () if self._is_live or not partitions else snapshot.transactions.values()
        timeouts = (one.state.timeout_ms for one in everything)
        self._largest_ms = max(timeouts, default=LARGEST_TIMEOUT_MS)

    def open_in(self, at: Partition) -> tuple[OpenThere, ...] | None:
        """Return the transactions that the journal has open there; None for another partition, or without the
        journal.
        """
        return tuple(self._open.get(at, ())) if self._is_live and at in self._asked_of else None

    def bound_ms(self, at: Partition, *, since_ms: int) -> int:
        """Return how long a partition that is blocked since `since_ms` needs no request to its leader."""
        if not self._is_live:
            return self._largest_ms + OVERDUE_MS
        timeouts = [one.timeout_ms for one in self._open.get(at, ()) if self._started_ms(one) <= since_ms + SKEW_MS]
        return max(timeouts) + OVERDUE_MS if timeouts else self._unaccounted_ms

    def _started_ms(self, one: OpenThere) -> int:
        return one.start_ms + self._shifts.get(one.journal_partition, 0)

    @property
    def behind_ms(self) -> int | None:
        """The time after which the records behind an explained block are checked. None if the answer would prove
        nothing: without the journal, an id without DESCRIBE permission looks like a hanging transaction.
        """
        return max(BEHIND_MS, self._unaccounted_ms) if self._is_live else None


def is_followed(snapshot: Snapshot) -> bool:
    """Return True if the snapshot has every existing id, from the coordinators' own journal."""
    journal = snapshot.transaction_journal
    return journal.phase is ReadingPhase.LIVE and journal.source is ReadingSource.JOURNAL and not journal.unreadable


def _by_partition(
    transactions: Iterable[LiveTransaction], wanted: Collection[Partition]
) -> Mapping[Partition, list[OpenThere]]:
    found: defaultdict[Partition, list[OpenThere]] = defaultdict(list)
    for live in transactions:
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
                    found[Partition(topic.topic, number)].append(one)
    return found
