"""The snapshots of one cluster's observer: all ids and groups at one moment, with their freshness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import msgspec

from app.core.clocks.broker_clocks import BrokerClocks
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_pace import TransactionPace


class SnapshotSource(StrEnum):
    """The source of the answers. ADMIN_CALLS have the current state without its history."""

    JOURNAL = "journal"
    ADMIN_CALLS = "admin_calls"
    NOTHING = "nothing"


class ReadingPhase(StrEnum):
    """The phase of the reading of one journal.

    CONNECTING ─▶ CATCHING_UP ─▶ LIVE
         │              ╰───┬─────╯
         ├─▶ ABSENT: no such topic yet, checked again      LOST: no broker answers, the last state stays shown
         ╰─▶ REFUSED: no permission to read it, tried again
    OFF: by the settings.
    """

    OFF = "off"
    CONNECTING = "connecting"
    ABSENT = "absent"
    REFUSED = "refused"
    CATCHING_UP = "catching_up"
    LIVE = "live"
    LOST = "lost"


class JournalStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one journal's reader.

    problem: a sentence for a person; empty without a problem.
    as_of_ms: the answers include all records up to this time (by this process's clock); -1: not yet.
    complete_since_ms: the history is complete from here on (by the brokers' clocks); None: from the very beginning, -1:
    not read yet. The current state of each id and group does not depend on it.
    lag_records: between the position and the last known end of the journal.
    silent_partitions: those whose leader does not answer now.
    """

    topic: str
    phase: ReadingPhase
    phase_since_ms: int
    problem: str = ""
    source: SnapshotSource = SnapshotSource.NOTHING
    as_of_ms: int = -1
    complete_since_ms: int | None = -1
    lag_records: int = 0
    partitions: int = 0
    partitions_caught_up: int = 0
    silent_partitions: int = 0
    records_read: int = 0
    unreadable: dict[str, int] = {}


_NOT_GIVEN: Sequence[str] = ("not given",)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot is immutable; the next one has a higher `number` if an id, a group or a phase has changed.

    open_transactions: those of `transactions` that are open. transactional_ids: all, in order. Both are made of
    `transactions` unless they are given.
    pace: of all ids that were read, including those of partitions that are not read to their end.
    commits, aborts: since this server started to observe, without earlier ones in the journal.
    records_of_unwanted_groups: counted only, by the setting that chooses groups.
    clocks: of the brokers that lead the journals, as far as they are measured.
    note: a sentence about an unusable file of the saved state; empty otherwise.
    """

    cluster: str
    number: int
    at_ms: int
    transaction_journal: JournalStatus
    group_journal: JournalStatus
    transactions: Mapping[str, LiveTransaction] = MappingProxyType({})
    open_transactions: Mapping[str, LiveTransaction] = MappingProxyType({})
    transactional_ids: Sequence[str] = _NOT_GIVEN
    groups: Mapping[str, LiveGroup] = MappingProxyType({})
    pace: TransactionPace = msgspec.field(default_factory=TransactionPace)
    commits: int = 0
    aborts: int = 0
    expired_ids: int = 0
    records_of_unwanted_groups: int = 0
    note: str = ""
    clocks: BrokerClocks = msgspec.field(default_factory=BrokerClocks)

    def __post_init__(self) -> None:
        if self.transactional_ids is not _NOT_GIVEN:
            return
        still_open = {name: live for name, live in self.transactions.items() if live.is_open}
        msgspec.structs.force_setattr(self, "open_transactions", MappingProxyType(still_open))
        msgspec.structs.force_setattr(self, "transactional_ids", tuple(sorted(self.transactions)))
