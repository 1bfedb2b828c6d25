"""What proves a fencing event: records of the brokers, words of the client, commands of ours.

Evidence of one event comes from several sides, late, twice, and in any order. `merged` is therefore commutative,
associative and idempotent, and what is judged from its result depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.journals.live_transactions import RecordedState
from app.core.journals.record_batch import MarkerType
from app.core.runs.task import EventKind

MAX_OF_A_SORT = 10
"""So many of the oldest and so many of the newest of each sort are kept, lest one bad night fill a row."""


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
    """A member that joined the group of the id, or `has_left` it, in `__consumer_offsets`; `members`: after that."""

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
        # A record of a classic group has several, and those that left come first.
        return self.partition, self.offset, not self.has_left, self.member_id


class MarkerRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="marker"):
    """The end of a transaction as a partition has it."""

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
    """What one of our tasks felt. `error` is Kafka's name of what it was told, `generation` what it believed in."""

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
        """The task, as people name it."""
        at = f" on {self.host}" if self.host else ""
        return f"instance {self.ordinal} task {self.task} attempt {self.attempt}{at}"


class CommandVerb(StrEnum):
    """FENCE: InitProducerId in the place of whoever has the id. END: a marker past the coordinator.

    END_DEAD: the coordinator's own end of what a dead task had open, at that task's epoch only.
    """

    FENCE = "fence"
    END = "end"
    END_DEAD = "end_dead"


class CommandWord(msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="command"):
    """Somebody's command of ours on this id, from the command log.

    producer_id, producer_epoch: what the broker answered to FENCE or END_DEAD, None where no answer came. partitions:
    for END those whose leader answered, and was_open whether the coordinator had the transaction open there just
    before.
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


Evidence = CoordinatorRecord | GroupRecord | MemberRecord | MarkerRecord | ClientWord | CommandWord


def merged(*parts: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Everything once, sort by sort, oldest first; bounded, whatever the order in which it came."""
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
    """A command whose answer is not known: from the log, of one that an event may have got with its answer."""
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
}
