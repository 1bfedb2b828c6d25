"""Evidence of a fencing event: records of the brokers, client reports, commands and leases of Fenceline.

Evidence of one event comes from several sources, late, twice, and in any order. So `merged` is commutative, associative
and idempotent, and verdicts depend on its result alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.journals.live_transactions import RecordedState
from app.core.journals.record_batch import MarkerType
from app.core.runs.task import EventKind

MAX_OF_A_SORT = 10
"""The number of oldest and of newest entries kept of each sort, to bound the size of a row."""


class CoordinatorRecord(msgspec.Struct, frozen=True, tag_field="source", tag="coordinator"):
    """A record of the transactional id in a partition of `__transaction_state`."""

    partition: int
    record: RecordedState

    @property
    def at_ms(self) -> int:
        return self.record.timestamp_ms

    @property
    def place(self) -> tuple[str | int, ...]:
        return self.partition, self.record.offset


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="group"):
    """A generation (classic) or epoch (KIP-848, `is_epoch`) that the group reached, in `__consumer_offsets`."""

    group: str
    number: int
    is_epoch: bool
    members: int
    partition: int
    offset: int
    at_ms: int

    @property
    def place(self) -> tuple[str | int, ...]:
        return self.partition, self.offset


class MemberRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="member"):
    """A member that joined the id's group, or left it (`has_left`), in `__consumer_offsets`; `members`: the number
    afterwards.
    """

    group: str
    member_id: str
    instance_id: str
    client_id: str
    host: str
    has_left: bool
    members: int
    partition: int
    offset: int
    at_ms: int

    @property
    def place(self) -> tuple[str | int, ...]:
        # One record of a classic group has several changes; departures come first.
        return self.partition, self.offset, not self.has_left, self.member_id


class MarkerRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="marker"):
    """The marker of a transaction in one partition."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    type: MarkerType
    coordinator_epoch: int

    @property
    def place(self) -> tuple[str | int, ...]:
        return self.topic, self.partition, self.offset


class ClientWord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="client"):
    """A report of a Fenceline task. `error` is Kafka's name of the error, `generation` the one that the task had."""

    event_id: str
    kind: EventKind
    at_ms: int
    message: str
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    pipeline: str = ""
    host: str = ""
    group: str = ""
    error: str | None = None
    generation: int | None = None
    partitions: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str | int, ...]:
        return self.at_ms, self.run_id, self.event_id

    @property
    def who(self) -> str:
        """The task's name for people."""
        at = f" on {self.host}" if self.host else ""
        return f"instance {self.ordinal} task {self.task} attempt {self.attempt}{at}"


class CommandVerb(StrEnum):
    """FENCE: InitProducerId in place of the id's current producer. END: a marker without the coordinator.

    END_DEAD: EndTxn to the coordinator for the transaction of a dead task, at that task's epoch only.
    """

    FENCE = "fence"
    END = "end"
    END_DEAD = "end_dead"


class CommandWord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="command"):
    """A user's or the reconciler's command on this id, from the command log.

    producer_id, producer_epoch: the broker's answer to FENCE or END_DEAD, None without an answer. partitions: for END,
    those whose leader answered. was_open: for END, the coordinator had the transaction open there just before.
    """

    command_id: int
    verb: CommandVerb
    at_ms: int
    who: str
    why: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    partitions: tuple[str, ...] = ()
    was_open: bool = False

    @property
    def is_answered(self) -> bool:
        return self.producer_id is not None or bool(self.partitions)

    @property
    def place(self) -> tuple[str | int, ...]:
        return self.at_ms, self.command_id


class LeaseWord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="lease"):
    """A lease of the pipeline of kind `dataframe` that has the id, in the database.

    at_ms: when its driver claimed it. ended_ms: when the server recorded its end; None: it had not ended.
    """

    pipeline: str
    run_id: str
    ordinal: int
    lease: int
    at_ms: int
    ended_ms: int | None = None
    host: str = ""

    @property
    def place(self) -> tuple[str | int, ...]:
        return self.at_ms, self.run_id, self.ordinal, self.lease

    @property
    def who(self) -> str:
        return f"the driver of lease {self.lease}{f' on {self.host}' if self.host else ''}"


Evidence = CoordinatorRecord | GroupRecord | MemberRecord | MarkerRecord | ClientWord | CommandWord | LeaseWord


def merged(*parts: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return each piece of evidence once, by sort, oldest first. It is bounded, and independent of the order of
    arrival.
    """
    found: dict[tuple[str | int, ...], Evidence] = {}
    for one in (one for part in parts for one in part):
        place = (_SORTS[type(one)], *one.place)
        if place not in found or not _says_less(one, found[place]):
            found[place] = one
    by_sort: dict[int, list[Evidence]] = {}
    for place in sorted(found):
        by_sort.setdefault(_SORTS[type(found[place])], []).append(found[place])
    return tuple(one for _, ones in sorted(by_sort.items()) for one in _bounded(ones))


def _says_less(one: Evidence, other: Evidence) -> bool:
    """Return True for a command without an answer, from the log, if the event has it with its answer.

    The same for a lease without its end.
    """
    if isinstance(one, LeaseWord) and isinstance(other, LeaseWord):
        return one.ended_ms is None and other.ended_ms is not None
    return isinstance(one, CommandWord) and isinstance(other, CommandWord) and other.is_answered and not one.is_answered


def _bounded(ones: list[Evidence]) -> list[Evidence]:
    return ones if len(ones) <= 2 * MAX_OF_A_SORT else [*ones[:MAX_OF_A_SORT], *ones[-MAX_OF_A_SORT:]]


_SORTS: dict[type[Evidence], int] = {
    CoordinatorRecord: 0,
    GroupRecord: 1,
    MarkerRecord: 2,
    ClientWord: 3,
    CommandWord: 4,
    MemberRecord: 5,
    LeaseWord: 6,
}
