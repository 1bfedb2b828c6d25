"""A view of a migrating pipeline at one moment: its rows, its tasks and the brokers' journals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from app.core.runs.client_id import TaskName
from app.core.runs.instance import InstanceState
from app.core.runs.mode import Mode


class Incarnation(msgspec.Struct, frozen=True, order=True):
    """A transactional id with the producer id and epoch that one InitProducerId gave to one producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def words(self) -> str:
        return f"{self.transactional_id} at producer {self.producer_id}, epoch {self.producer_epoch}"


class IdNow(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id in its journal. was_aborted: its newest record completes an abort.

    partition, offset, at: the place of that record in `__transaction_state`, and its append time; -1 and None if the
    coordinator was asked instead.
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
    """The current lease of an ordinal. mode None: its revision has a mode that no migration knows.

    target: the mode of its next lease; if it differs from mode, a bounce is under way.
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
    """The newest attempt of a task of a current lease. is_live: it runs, and its heartbeats are recent.

    holds: its current producers, without revoked ones.
    generation: the lowest generation that it reports for the offsets of its partitions.
        -1: some offsets carry no generation. None: it has reported none, as it has no partition yet.
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


class MigrationMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the group. task: the task that its client id names; None: it names none of Fenceline's.

    mode: of that lease; None also if this run had no such lease. pid: of that attempt, if it sent a heartbeat.
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
    """The consumer group. state: from its coordinator. generation: from the journal, -1 if not known."""

    state: str
    generation: int
    members: tuple[MigrationMember, ...]
    asked_at: datetime

    def is_as(self, other: GroupNow) -> bool:
        """Return whether both have the same generation and members, in state Stable."""
        return self.state == other.state == STABLE and (
            (self.generation, {one.member_id for one in self.members})
            == (other.generation, {one.member_id for one in other.members})
        )


STABLE = "Stable"


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of an ended lease that sent a heartbeat after its end."""

    ordinal: int
    lease: int
    task: int
    attempt: int
    mode: Mode | None
    host: str
    pid: int
    heard_at: datetime


class AuditNow(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of the migration's time; `audit_id` is empty if there is none.

    dangling: dangling references, whose files are missing or differ.
    problem: why there is no audit, or why it is incomplete; else empty.
    """

    audit_id: str
    is_through: bool
    lost: int = 0
    duplicated: int = 0
    dangling: int = 0
    expected: int = 0
    problem: str = ""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The highest epoch of each id that a lease reported, with the ids that it has released since."""

    ordinal: int
    lease: int
    mode: Mode | None
    ids: tuple[Incarnation, ...]

    def with_heard(self, heard: tuple[Incarnation, ...]) -> Held:
        """Merge in newer incarnations; a new producer id is newer than any epoch of another one."""
        ids = {one.transactional_id: one for one in self.ids}
        for one in heard:
            known = ids.get(one.transactional_id)
            if known is None or known.producer_id != one.producer_id or known.producer_epoch < one.producer_epoch:
                ids[one.transactional_id] = one
        return msgspec.structs.replace(self, ids=tuple(sorted(ids.values())))


class PreflightFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that only the preflight requests.

    versions: (major, minor) of each broker, None if it did not report one. features: a sentence about the cluster's.
    rights_refused: the reason for each id that Fenceline may not describe or write under; None: no id is known.
    rights_unknown: why the permissions of all or some ids cannot be known; else empty.
    hanging: hanging transactions, each as a sentence; hanging_unknown: why there may be more.
    owned_by_others: ids of this pipeline that another one owns. abort_sweep_ms: the longest of any broker.
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


class MigrationLook(msgspec.Struct, frozen=True, kw_only=True):
    """A view of the pipeline at one moment.

    read_at: `ids` has everything that `__transaction_state` held at that time; None: it has not been read.
    ids: the ids that the journal has. partitions: the id of each input partition, by its name.
    task_ids: the ids of tasks in V2. instances: of all desired ordinals that have had a lease.
    ordinals, tasks_per_instance: the desired numbers.
    changed_at: the newest end of a lease of the run; older reads and heartbeats may describe that lease.
    group: from its coordinator; None: it has not answered. `heard`: the ids that each lease reported last.
    fenced_by_hand: the answers to users' fences of these ids, under which no producer writes either.
    refused_fences: the coordinator's answer to a fence that was refused just now, by id.
    held_back: LSO and end of each blocked partition of the sink; None: not requested.
    preflight: the facts that only it requests; None in every other stage.
    lost_offsets: why a new task would refuse to start (docs/adr/0007); empty: it would start, or it is not known.
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
        """Return the live task that reports this incarnation as its own."""
        return next((task for task in self.tasks if task.is_live and held in task.holds), None)

    def task_of(self, member: MigrationMember) -> TaskNow | None:
        """Return the live task of a current lease that reports this member id.

        The client id is not enough: a task of an earlier run may have it, as leases of each run count from 1.
        """
        return next((one for one in self.tasks if one.is_live and one.member_id == member.member_id), None)

    def teller_of(self, held: Incarnation) -> TaskNow | None:
        """Return the task that reported this incarnation, live or not."""
        return next((task for task in self.tasks if held in task.holds), None)

    def now_of(self, transactional_id: str) -> Incarnation | None:
        now = self.ids.get(transactional_id)
        return None if now is None else Incarnation(transactional_id, now.producer_id, now.producer_epoch)
