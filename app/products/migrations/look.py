"""What is known of a pipeline that migrates at one moment: what its rows, its tasks and the brokers' journals say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from app.core.runs.client_id import TaskName
from app.core.runs.instance import InstanceState
from app.core.runs.mode import Mode


class Incarnation(msgspec.Struct, frozen=True, order=True):
    """One life of a transactional id: what an InitProducerId has given to one producer, and to no other."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def words(self) -> str:
        return f"{self.transactional_id} at producer {self.producer_id}, epoch {self.producer_epoch}"


class IdNow(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id as its journal has it. was_aborted: the newest record is the coordinator's end of an abort.

    partition, offset, at: where that record lies in `__transaction_state`, and when it was appended; -1 and None where
    the coordinator was asked instead.
    """

    producer_id: int
    producer_epoch: int
    is_open: bool = False
    was_aborted: bool = False
    partition: int = -1
    offset: int = -1
    at: datetime | None = None

    def is_at(self, held: Incarnation) -> bool:
        return (self.producer_id, self.producer_epoch) == (held.producer_id, held.producer_epoch)


class InstanceNow(msgspec.Struct, frozen=True, kw_only=True):
    """The current lease of an ordinal. mode None: its revision is of none that a migration knows.

    target: the mode in which its next lease will begin; where it is another one, that is on its way.
    """

    ordinal: int
    lease: int
    mode: Mode | None
    target: Mode | None
    state: InstanceState

    @property
    def modes(self) -> frozenset[Mode | None]:
        return frozenset({self.mode, self.target})


class TaskNow(msgspec.Struct, frozen=True, kw_only=True):
    """The newest attempt of a task of a current lease. is_live: it runs, and was heard lately.

    holds: its producers now; those that it has given up since are not in it.
    generation: what its offsets are sent with, by its own word: the lowest of its partitions; -1: some are sent for the
        group alone; None: it has not said so, as it has no partition yet.
    """

    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str
    pid: int
    mode: Mode | None
    is_live: bool
    heard_at: datetime
    holds: tuple[Incarnation, ...] = ()
    generation: int | None = None
    member_id: str | None = None

    @property
    def name(self) -> str:
        return f"task {self.ordinal}.{self.task}"

    @property
    def sends_generation(self) -> bool:
        return self.generation is not None and self.generation >= 0


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the group. task: what its client id says of whom it is; None: it is none of ours.

    mode: of that lease; None also where this run has had no such lease. pid: of that attempt, if it was ever heard.
    """

    member_id: str
    client_id: str
    host: str
    task: TaskName | None = None
    mode: Mode | None = None
    pid: int | None = None

    @property
    def name(self) -> str:
        return f"{self.client_id} on {self.host}"


class GroupNow(msgspec.Struct, frozen=True, kw_only=True):
    """The consumer group. state: in Kafka's words, of its coordinator. generation: of the journal, -1 if not known."""

    state: str
    generation: int
    members: tuple[Member, ...]
    asked_at: datetime

    def is_as(self, other: GroupNow) -> bool:
        """The same generation with the same members, stable both times."""
        return self.state == other.state == STABLE and (
            (self.generation, {one.member_id for one in self.members})
            == (other.generation, {one.member_id for one in other.members})
        )


STABLE = "Stable"


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a lease that is over, and that was heard all the same."""

    ordinal: int
    lease: int
    task: int
    attempt: int
    mode: Mode | None
    host: str
    pid: int
    heard_at: datetime


class AuditNow(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of the migration's time; `audit_id` is empty where there is none.

    dangling: references to files that are missing or other ones.
    problem: why there is none, or why it could not count everything; else empty.
    """

    audit_id: str
    is_through: bool
    lost: int = 0
    duplicated: int = 0
    dangling: int = 0
    expected: int = 0
    problem: str = ""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The highest epoch of each id that a lease was heard to hold, also of such as it gave up in between."""

    ordinal: int
    lease: int
    mode: Mode | None
    ids: tuple[Incarnation, ...]

    def with_heard(self, heard: tuple[Incarnation, ...]) -> Held:
        """With the newer of what is known and what is heard; a new producer id is newer than any epoch of another."""
        ids = {one.transactional_id: one for one in self.ids}
        for one in heard:
            known = ids.get(one.transactional_id)
            if known is None or known.producer_id != one.producer_id or known.producer_epoch < one.producer_epoch:
                ids[one.transactional_id] = one
        return msgspec.structs.replace(self, ids=tuple(sorted(ids.values())))


class PreflightFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What only the preflight asks.

    versions: (major, minor) of each broker, None where it did not tell. features: a sentence about the cluster's.
    rights_refused: for each id that we may not describe or write under, why not; None: of no id is it known.
    rights_unknown: why it cannot be known, of all or of some ids; else empty.
    hanging: transactions that hang, each a sentence; hanging_unknown: why there may be more.
    owned_by_others: ids of ours that another pipeline owns. abort_sweep_ms: the longest of any broker.
    """

    versions: Mapping[str, tuple[int, int] | None]
    brokers_problem: str = ""
    features: str = ""
    rights_refused: tuple[str, ...] | None
    rights_unknown: str = ""
    hanging: tuple[str, ...] = ()
    hanging_unknown: str = ""
    owned_by_others: tuple[str, ...] = ()
    transaction_timeout_ms: int
    abort_sweep_ms: int | None


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One moment.

    read_at: everything that `__transaction_state` held then is in `ids`; None: it has not been read.
    ids: those of them that the journal has. partitions: the id of each input partition, by its name.
    task_ids: those of tasks in V2. instances: of all ordinals that the run shall have, as far as they were leased.
    ordinals, tasks_per_instance: how many there shall be.
    changed_at: when a lease of the run ended last; what was read or heard before it may be of that lease.
    group: as its coordinator has it; None: nobody says. heard: what each lease was last heard to hold.
    fenced_by_hand: what people's fences of these ids were answered: nobody writes under them either.
    refused_fences: what a coordinator has answered to a fence that was asked for just now, by its id.
    held_back: of partitions of the sink whose readers of committed data do not get to the log's end now, how far they
        get, and the end; None: not asked.
    preflight: what only that asks; None in every other stage.
    lost_offsets: why a task that began now would refuse to (docs/adr/0007); empty: it would not, or it is not known.
    """

    at: datetime
    read_at: datetime | None
    ids: Mapping[str, IdNow]
    partitions: Mapping[str, str]
    task_ids: tuple[str, ...]
    instances: tuple[InstanceNow, ...]
    tasks: tuple[TaskNow, ...]
    ordinals: int
    tasks_per_instance: int
    changed_at: datetime | None = None
    run_is_live: bool = True
    group: GroupNow | None = None
    fenced_by_hand: frozenset[Incarnation] = frozenset()
    refused_fences: Mapping[str, str] = {}
    heard: tuple[Held, ...] = ()
    strays: tuple[Stray, ...] = ()
    held_back: Mapping[str, tuple[int, int]] | None = None
    audit: AuditNow | None = None
    preflight: PreflightFacts | None = None
    lost_offsets: str = ""

    def instance(self, ordinal: int) -> InstanceNow | None:
        return next((one for one in self.instances if one.ordinal == ordinal), None)

    def holder_of(self, held: Incarnation) -> TaskNow | None:
        """The live task that says that this incarnation is its own."""
        return next((task for task in self.tasks if task.is_live and held in task.holds), None)

    def task_of(self, member: Member) -> TaskNow | None:
        """The live task of a current lease that says that it is this very member.

        Its client id alone could be that of a task of a run before, whose leases were counted from 1 as well.
        """
        return next((one for one in self.tasks if one.is_live and one.member_id == member.member_id), None)

    def teller_of(self, held: Incarnation) -> TaskNow | None:
        """The task that has said so, live or not."""
        return next((task for task in self.tasks if held in task.holds), None)

    def now_of(self, transactional_id: str) -> Incarnation | None:
        now = self.ids.get(transactional_id)
        return None if now is None else Incarnation(transactional_id, now.producer_id, now.producer_epoch)
