"""What brokers say about a partition, its open transactions and a group: the facts that a diagnosis stands on.

Each has the moment of its answer, by our own clock. Times inside an answer (`start_ms`, `last_ms`) are the brokers'.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.core.blocked.stretch import Stretch
from app.core.clocks.clock_offset import Age, ClockOffset

Partition = tuple[str, int]

ONGOING = "Ongoing"
COMPLETE_COMMIT = "CompleteCommit"
_NO_SUCH_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
_UNDECIDED_OR_UNWRITTEN = frozenset({ONGOING, "PrepareCommit", "PrepareAbort"})


class Refused(msgspec.Struct, frozen=True):
    """A question without an answer. `error` in Kafka's words; `permission`: the one whose lack explains it.

    is_open: nobody said no. Of an act: it may have been done all the same.
    """

    question: str
    error: str
    permission: str | None = None
    is_open: bool = False

    @property
    def is_no_such_partition(self) -> bool:
        """The partition is not there, as far as the asker may know."""
        return self.error.startswith(_NO_SUCH_PARTITION)

    @property
    def sentence(self) -> str:
        needed = f"; it needs {self.permission}" if self.permission else ""
        return f"{self.question} was refused: {self.error}{needed}"


def hidden_id(transactional_id: str) -> Refused:
    """An id that its coordinator did not list, though the journal has it."""
    return Refused(
        "ListTransactions",
        f"it leaves out {transactional_id}, which the journal has",
        f"DESCRIBE on {transactional_id}",
    )


class LogEnds(msgspec.Struct, frozen=True):
    """ListOffsets at both isolation levels: readers of committed data see what is before `last_stable`.

    The high watermark is the older answer, so what lies between the two is behind a transaction that was open (ADR
    0018). Where the log has grown past it meanwhile, it is as the last stable offset.
    """

    earliest: int
    last_stable: int
    high_watermark: int

    @classmethod
    def in_turn(cls, earliest: int, last_stable: int, high_watermark: int) -> LogEnds:
        """Of three answers, of which that about the high watermark came first."""
        return cls(earliest, last_stable, max(high_watermark, last_stable))


class OpenTransaction(msgspec.Struct, frozen=True):
    """A producer that has a transaction open in a partition, as the partition's leader has it (DescribeProducers).

    coordinator_epoch: of the newest marker that it wrote there, -1 before its first.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_ms: int
    start_offset: int

    @property
    def identity(self) -> tuple[int, int, int]:
        """What stays the same while it is open."""
        return self.producer_id, self.producer_epoch, self.start_offset


class KnownTransaction(msgspec.Struct, frozen=True):
    """A transactional id as its coordinator describes it; `state` in Kafka's words, `start_ms` -1 when none is open.

    partitions: those that the coordinator still has to write markers to.
    age: how long it has been open, by its coordinator's clock, which `start_ms` is of; None where it is not known.
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
        """Whether its coordinator ends it by itself."""
        return self.state == ONGOING and self.start_ms >= 0

    def times_out_at_ms(self, now_ms: int) -> int | None:
        """When it times out, by our clock; None where it does not, or where that is not known."""
        if self.age is None or not self.has_timeout:
            return None
        return now_ms + self.timeout_ms - (self.age.least_ms + self.age.most_ms) // 2


class Coordinators(msgspec.Struct, frozen=True):
    """What all transaction coordinators say about some producer ids.

    known: by producer id; one that is missing belongs to no transactional id that the asker may see.
    unanswered: while anything is in it, that an id is missing proves nothing.
    is_corroborated: `__transaction_state` was read too, and does not have the missing ones either. Without it, an id
    that the asker may not describe looks like one that is not there, since brokers leave it out without a word.
    """

    known: Mapping[int, KnownTransaction] = {}
    unanswered: tuple[Refused, ...] = ()
    is_corroborated: bool = False
    at_ms: int = -1


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One partition.

    open: asked before the coordinators, and `still_open` (identities) after them: a transaction that ended in between
    is in the first answer only. Both are empty where nothing waits, since then nobody was asked.
    waiting: what lies between the last stable offset and the high watermark.
    """

    topic: str
    partition: int
    ends: LogEnds | Refused
    ends_at_ms: int
    open: tuple[OpenTransaction, ...] | Refused = ()
    open_at_ms: int = -1
    still_open: frozenset[tuple[int, int, int]] = frozenset()
    coordinators: Coordinators = Coordinators()
    waiting: Stretch | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def strangers_in(facts: PartitionFacts) -> frozenset[int]:
    """Producer ids that have something open there and that no coordinator shows."""
    rows = () if isinstance(facts.open, Refused) else facts.open
    return frozenset(row.producer_id for row in rows) - frozenset(facts.coordinators.known)


def with_journal(facts: PartitionFacts, hidden: Mapping[int, str], *, is_whole: bool) -> PartitionFacts:
    """The same, with what `__transaction_state` says of producers that no coordinator shows.

    Args:
        hidden: the id of each producer that it has, by producer id; those of other partitions are passed over.
        is_whole: it was read to what was open, and nothing in it was unreadable.
    """
    said, strangers = facts.coordinators, strangers_in(facts)
    if not strangers or said.unanswered:
        return facts
    refused = tuple(hidden_id(hidden[producer_id]) for producer_id in sorted(strangers & hidden.keys()))
    told = Coordinators(said.known, refused, is_corroborated=is_whole and not refused, at_ms=said.at_ms)
    return msgspec.structs.replace(facts, coordinators=told)


def with_ages(facts: PartitionFacts, clocks: Mapping[int, ClockOffset], *, now_ms: int) -> PartitionFacts:
    """The same, with ages that the look itself could not measure. clocks: by broker; now_ms: by our clock."""
    said = facts.coordinators
    known = {producer_id: with_age(one, clocks, now_ms=now_ms) for producer_id, one in said.known.items()}
    return msgspec.structs.replace(facts, coordinators=msgspec.structs.replace(said, known=known))


def with_age(known: KnownTransaction, clocks: Mapping[int, ClockOffset], *, now_ms: int) -> KnownTransaction:
    clock = clocks.get(known.coordinator_id)
    if known.age is not None or clock is None or not known.has_timeout:
        return known
    return msgspec.structs.replace(known, age=clock.age_of(known.start_ms, now_ms=now_ms))


class PendingOffset(msgspec.Struct, frozen=True):
    """An offset of a group that a transaction has written and that is not decided."""

    producer_id: int
    producer_epoch: int
    offset: int


class GroupPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A group in one partition. committed: None if it has committed nothing there that is decided.

    is_unstable: its coordinator does not tell the offset to a new owner (UNSTABLE_OFFSET_COMMIT). pending: by whom, as
    far as `__consumer_offsets` may be read. ahead: what lies between the committed and the last stable offset.
    """

    partition: PartitionFacts
    committed: int | None = None
    is_unstable: bool = False
    pending: tuple[PendingOffset, ...] = ()
    ahead: Stretch | None = None


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A group, and each partition that it has committed in or has offsets pending for.

    is_share: a share group, which has no positions that are read.
    offsets_partition: that of `__consumer_offsets` which has its commits; only looked at while any of them is unstable.
    """

    group: str
    state: str
    members: int
    described_at_ms: int
    offsets_at_ms: int
    positions: tuple[GroupPosition, ...]
    is_share: bool = False
    offsets_partition: PartitionFacts | None = None
    pending_refused: Refused | None = None


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The task of ours that a transactional id belongs to, and when it was heard of last."""

    name: str
    heartbeat_ms: int | None
