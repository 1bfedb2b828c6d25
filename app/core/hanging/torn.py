"""Detect torn transactions: ended in one partition while their coordinator still has them open.

`kafka-transactions.sh abort` (WriteTxnMarkers, KIP-664) does that to a transaction that does not hang. The
coordinators' journal has no record of it, and the partition's leader only reports that nothing is open. The sign: the
partition is no longer blocked, and the journal still has the transaction open.

    journal: open ─ blocked, the log ends at `from_offset` ─ moved, it ends at `until_offset` ─ still open

A marker of this producer between the two offsets was written while its coordinator had the transaction open. So the
coordinator did not decide it. The order is that of this server's checks; no two clocks are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.core.blocked.facts import OpenTransaction, PartitionFacts, Refused
from app.core.clusters.partition import Partition
from app.core.fencing.evidence import CoordinatorRecord
from app.core.hanging.accounting import OpenThere, is_followed
from app.core.hanging.corroboration import is_news
from app.core.hanging.search import HeldBackPartition
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.snapshot import Snapshot

MOST_SUSPECTS = 100
"""If many long transactions of one partition end one after the other, each move of the last stable offset is a
suspicion.
"""


class Torn(NamedTuple):
    """Open in the journal by the record `known`. An ABORT of its producer between the two offsets is not its
    coordinator's; without one, it had no records there.
    """

    topic: str
    partition: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    from_offset: int
    until_offset: int
    known: CoordinatorRecord


class _Suspect(NamedTuple):
    open_there: OpenThere
    from_offset: int


class TornSearch:
    """The search of one cluster. It is pure; leaders are asked by the main search, within its rate."""

    def __init__(self) -> None:
        self._suspects: dict[Partition, list[_Suspect]] = {}

    def note_moved(self, moved: Mapping[Partition, HeldBackPartition]) -> None:
        """Take the partitions that are no longer blocked; a transaction is suspect if it was known during the block."""
        for at, held in moved.items():
            known = [
                _Suspect(one, held.high_watermark)
                for one, noted_ms in held.known_open.items()
                if noted_ms < held.until_ms
            ]
            if known and len(self._suspects) < MOST_SUSPECTS:
                self._suspects[at] = known

    def due(self, snapshot: Snapshot) -> tuple[Partition, ...]:
        """Return the partitions where the journal still has it open: most transactions have ended normally."""
        kept: dict[Partition, list[_Suspect]] = {}
        for at, suspects in self._suspects.items():
            still = [one for one in suspects if _open_in_journal(snapshot, at, one.open_there) is not None]
            if still and is_followed(snapshot):
                kept[at] = still
        self._suspects = kept
        return tuple(kept)

    def note_look(self, facts: PartitionFacts, snapshot: Snapshot) -> list[Torn]:
        """Return those that the leader no longer has open, although the journal, read up to then, has them.

        Missing answers prove nothing.
        """
        at = Partition(facts.topic, facts.partition)
        suspects = self._suspects.pop(at, [])
        if isinstance(facts.ends, Refused) or isinstance(facts.open, Refused) or not is_news(snapshot, facts):
            return []
        found: list[Torn] = []
        for one in suspects:
            live = _open_in_journal(snapshot, at, one.open_there)
            if live is not None and not _is_open_since(facts.open, one):
                found.append(
                    Torn(
                        topic=facts.topic,
                        partition=facts.partition,
                        transactional_id=live.transactional_id,
                        producer_id=live.state.producer_id,
                        producer_epoch=live.state.producer_epoch,
                        from_offset=one.from_offset,
                        until_offset=facts.ends.high_watermark,
                        known=CoordinatorRecord(live.partition, live.newest),
                    )
                )
        return found


def _open_in_journal(snapshot: Snapshot, at: Partition, one: OpenThere) -> LiveTransaction | None:
    """Return the id if this very transaction is still open, with this partition."""
    live = snapshot.transactions.get(one.transactional_id)
    if live is None or not live.is_from_journal or live.state.status is not TransactionStatus.ONGOING:
        return None
    state = live.state
    is_same = (state.producer_id, state.producer_epoch, state.start_ms) == (
        one.producer_id,
        one.producer_epoch,
        one.start_ms,
    )
    return live if is_same and at in _partitions(live) else None


def _partitions(live: LiveTransaction) -> Iterable[Partition]:
    return (Partition(topic.topic, number) for topic in live.state.partitions or () for number in topic.partitions)


def _is_open_since(rows: Iterable[OpenTransaction], suspect: _Suspect) -> bool:
    """Return True if the leader still has it open, from before: a begin behind `from_offset` may follow a marker."""
    return any(
        row.producer_id == suspect.open_there.producer_id and row.start_offset < suspect.from_offset for row in rows
    )
