"""The brokers' answers about a partition, its open transactions and a group.

Each answer has its time by this process's clock. Times inside an answer (`start_ms`, `last_ms`) are the brokers'.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.core.blocked.stretch import LogStretch
from app.core.clocks.clock_offset import Age, ClockOffset
from app.core.clusters.partition import Partition

ONGOING = "Ongoing"
COMPLETE_COMMIT = "CompleteCommit"
_NO_SUCH_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
_UNDECIDED_OR_UNWRITTEN = frozenset({ONGOING, "PrepareCommit", "PrepareAbort"})


class Refused(msgspec.Struct, frozen=True):
    """A question without an answer. `error` is Kafka's; `permission` is the missing one that explains it.

    is_open: the broker did not refuse. A change may have been made all the same.
    """

    question: str
    error: str
    permission: str | None = None
    is_open: bool = False

    @property
    def is_no_such_partition(self) -> bool:
        """The partition does not exist, or the client may not see it."""
        return self.error.startswith(_NO_SUCH_PARTITION)

    @property
    def sentence(self) -> str:
        needed = f"; it needs {self.permission}" if self.permission else ""
        return f"{self.question} was refused: {self.error}{needed}"


def hidden_id(transactional_id: str) -> Refused:
    """Return the refusal for an id of the journal that its coordinator did not list."""
    return Refused(
        "ListTransactions",
        f"it leaves out {transactional_id}, which the journal has",
        f"DESCRIBE on {transactional_id}",
    )


class LogEnds(msgspec.Struct, frozen=True):
    """ListOffsets at both isolation levels: read_committed consumers get the records before `last_stable`.

    The high watermark is the older answer, so the offsets between the two are behind an open transaction (ADR 0018). If
    the log has grown beyond it since, it equals the last stable offset.
    """

    earliest: int
    last_stable: int
    high_watermark: int

    @classmethod
    def in_turn(cls, earliest: int, last_stable: int, high_watermark: int) -> LogEnds:
        """Combine three answers, of which the high watermark's came first."""
        return cls(earliest, last_stable, max(high_watermark, last_stable))


class OpenTransaction(msgspec.Struct, frozen=True):
    """A producer's open transaction in a partition, as the partition's leader has it (DescribeProducers).

    coordinator_epoch: of the newest marker that the producer got there, -1 before the first.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_ms: int
    start_offset: int

    @property
    def identity(self) -> tuple[int, int, int]:
        """The values that stay the same while the transaction is open."""
        return self.producer_id, self.producer_epoch, self.start_offset


class KnownTransaction(msgspec.Struct, frozen=True):
    """A transactional id as its coordinator describes it; `state` is Kafka's, `start_ms` is -1 without an open
    transaction.

    partitions: those to which the coordinator still has to write markers.
    age: of the open transaction, by the coordinator's clock, as `start_ms`; None if it is not known.
    """

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: frozenset[Partition] = frozenset()
    age: Age | None = None

    @property
    def is_open(self) -> bool:
        """Its coordinator will still write markers for it."""
        return self.state in _UNDECIDED_OR_UNWRITTEN

    @property
    def has_timeout(self) -> bool:
        """Its coordinator ends it by itself."""
        return self.state == ONGOING and self.start_ms >= 0

    def times_out_at_ms(self, now_ms: int) -> int | None:
        """Return the time of the timeout by this process's clock; None without one, or if it is not known."""
        if self.age is None or not self.has_timeout:
            return None
        return now_ms + self.timeout_ms - (self.age.least_ms + self.age.most_ms) // 2


class Coordinators(msgspec.Struct, frozen=True):
    """The answers of all transaction coordinators about some producer ids.

    known: by producer id; a missing one belongs to no transactional id that the client may see.
    unanswered: unless it is empty, a missing id proves nothing.
    is_corroborated: `__transaction_state` was read too and lacks the missing ids. Otherwise an id without DESCRIBE
    permission looks like one that does not exist, since brokers omit it without an error.
    """

    known: Mapping[int, KnownTransaction] = {}
    unanswered: tuple[Refused, ...] = ()
    is_corroborated: bool = False
    at_ms: int = -1


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One partition.

    open: asked before the coordinators, and `still_open` (identities) after them. A transaction that ended in between
    is only in the first answer. Both are empty if nothing is blocked, since then no request was sent.
    waiting: the records between the last stable offset and the high watermark.
    """

    topic: str
    partition: int
    ends: LogEnds | Refused
    ends_at_ms: int
    open: tuple[OpenTransaction, ...] | Refused = ()
    open_at_ms: int = -1
    still_open: frozenset[tuple[int, int, int]] = frozenset()
    coordinators: Coordinators = Coordinators()
    waiting: LogStretch | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def strangers_in(facts: PartitionFacts) -> frozenset[int]:
    """Return the producer ids with an open transaction there that no coordinator reports."""
    rows = () if isinstance(facts.open, Refused) else facts.open
    return frozenset(row.producer_id for row in rows) - frozenset(facts.coordinators.known)


def with_journal(facts: PartitionFacts, hidden: Mapping[int, str], *, is_whole: bool) -> PartitionFacts:
    """Add the entries of `__transaction_state` for producers that no coordinator reports.

    Args:
        hidden: the id of each producer in the journal, by producer id; producers of other partitions are ignored.
        is_whole: the journal was read up to the open transactions, and nothing in it was unreadable.
    """
    said, strangers = facts.coordinators, strangers_in(facts)
    if not strangers or said.unanswered:
        return facts
    refused = tuple(hidden_id(hidden[producer_id]) for producer_id in sorted(strangers & hidden.keys()))
    told = Coordinators(said.known, refused, is_corroborated=is_whole and not refused, at_ms=said.at_ms)
    return msgspec.structs.replace(facts, coordinators=told)


def with_ages(facts: PartitionFacts, clocks: Mapping[int, ClockOffset], *, now_ms: int) -> PartitionFacts:
    """Add the ages that the check itself could not measure. clocks: by broker; now_ms: by this process's clock."""
    said = facts.coordinators
    known = {producer_id: with_age(one, clocks, now_ms=now_ms) for producer_id, one in said.known.items()}
    return msgspec.structs.replace(facts, coordinators=msgspec.structs.replace(said, known=known))


def with_age(known: KnownTransaction, clocks: Mapping[int, ClockOffset], *, now_ms: int) -> KnownTransaction:
    clock = clocks.get(known.coordinator_id)
    if known.age is not None or clock is None or not known.has_timeout:
        return known
    return msgspec.structs.replace(known, age=clock.age_of(known.start_ms, now_ms=now_ms))


class PendingOffset(msgspec.Struct, frozen=True):
    """An offset of a group in a transaction that is not complete."""

    producer_id: int
    producer_epoch: int
    offset: int


class GroupPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A group in one partition. committed: None without a committed offset.

    is_unstable: its coordinator withholds the offset from a new owner (UNSTABLE_OFFSET_COMMIT). pending: the producers,
    if `__consumer_offsets` may be read. ahead: the records between the committed and the last stable offset.
    """

    partition: PartitionFacts
    committed: int | None = None
    is_unstable: bool = False
    pending: tuple[PendingOffset, ...] = ()
    ahead: LogStretch | None = None


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A group, and each partition in which it has committed or pending offsets.

    is_share: a share group, whose positions are not decoded.
    is_query: of a pipeline of kind `dataframe`; its markers are not among the positions.
    offsets_partition: the partition of `__consumer_offsets` with its commits; read only while an offset is unstable.
    """

    group: str
    state: str
    members: int
    described_at_ms: int
    offsets_at_ms: int
    positions: tuple[GroupPosition, ...]
    is_share: bool = False
    is_query: bool = False
    offsets_partition: PartitionFacts | None = None
    pending_refused: Refused | None = None


class TaskOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The Fenceline task that owns a transactional id, and the time of its last heartbeat."""

    name: str
    heartbeat_ms: int | None
