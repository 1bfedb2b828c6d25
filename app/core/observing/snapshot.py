"""What the observer of one cluster publishes: all ids and groups as of one moment, and how good that knowledge is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from app.core.clocks.broker_clocks import BrokerClocks
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_pace import TransactionPace


class Source(StrEnum):
    """Where the answers come from. ADMIN_CALLS know what is so, not how it came to be."""

    JOURNAL = "journal"
    ADMIN_CALLS = "admin_calls"
    NOTHING = "nothing"


class Phase(StrEnum):
    """How the reading of one journal is.

    CONNECTING ─▶ CATCHING_UP ─▶ LIVE
         │              ╰───┬─────╯
         ├─▶ ABSENT: no such topic yet, looked for again   LOST: no broker answers, what was read stays shown
         ╰─▶ REFUSED: it may not be read, asked again
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
    """One journal's reader.

    problem: a sentence for a person; empty when all is well.
    as_of_ms: everything that the journal held at this moment (our clock) is in the answers; -1: not yet.
    complete_since_ms: the past is told without a gap from here on (the brokers' clock); None: from the very beginning,
        -1: not read yet. The present state of each id and group does not depend on it.
    lag_records: between what was read and the journal's end as last heard.
    silent_partitions: those whose leader does not answer now.
    """

    topic: str
    phase: Phase
    phase_since_ms: int
    problem: str = ""
    source: Source = Source.NOTHING
    as_of_ms: int = -1
    complete_since_ms: int | None = -1
    lag_records: int = 0
    partitions: int = 0
    partitions_caught_up: int = 0
    silent_partitions: int = 0
    records_read: int = 0
    unreadable: dict[str, int] = {}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody changes a snapshot; the next one has a higher `number` when an id, a group or a phase has changed.

    transactions_changed, groups_changed: the number of the snapshot that first had the value as it is here.
    pace: of all ids that were read, those of partitions that have not caught up included.
    commits, aborts: that were seen to happen since this server began to observe; none of what a journal told before.
    records_of_unwanted_groups: counted only, by the setting that chooses groups.
    clocks: of the brokers that lead the journals, as far as they are measured.
    note: a sentence about the file in which the folds are kept, when it could not be used; empty when all is well.
    """

    cluster: str
    number: int
    at_ms: int
    transaction_journal: JournalStatus
    group_journal: JournalStatus
    transactions: Mapping[str, LiveTransaction] = MappingProxyType({})
    transactions_changed: Mapping[str, int] = MappingProxyType({})
    groups: Mapping[str, LiveGroup] = MappingProxyType({})
    groups_changed: Mapping[str, int] = MappingProxyType({})
    pace: TransactionPace = msgspec.field(default_factory=TransactionPace)
    commits: int = 0
    aborts: int = 0
    expired_ids: int = 0
    records_of_unwanted_groups: int = 0
    note: str = ""
    clocks: BrokerClocks = msgspec.field(default_factory=BrokerClocks)
