"""The owner and the transactional id of each input partition, now and over time."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

HISTORY_KEPT_FOR = timedelta(days=30)
"""How long an ownership interval is kept after its end, for live and ended runs."""
UNHEARD_AFTER = timedelta(seconds=5)
"""A heartbeat comes every second: without one for longer, the ownership is not confirmed any more."""


class IdKind(StrEnum):
    """The purpose of a pipeline's id. It is stored beside the id, since a name alone proves nothing.

    TASK: a task of `exactly_once_v2`. PARTITION: an input partition of `exactly_once`, named by Fenceline's formula.
    IMPORTED: the id of another application that moves to Fenceline; its old producer stays fenced.
    """

    TASK = "task"
    PARTITION = "partition"
    IMPORTED = "imported"


class IdOrigin(StrEnum):
    """The source of a partition's assigned id."""

    FORMULA = "formula"
    IMPORTED = "imported"

    @property
    def kind(self) -> IdKind:
        return IdKind.IMPORTED if self is IdOrigin.IMPORTED else IdKind.PARTITION


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """A retired id: a migration fenced it, and no task may initialise it any more.

    migration: the one that fenced it; None if its record is deleted.
    """

    since: datetime
    migration: str | None


class PartitionOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt of a task that owns a partition, from its heartbeats."""

    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str


class PartitionMapping(msgspec.Struct, frozen=True, kw_only=True):
    """An input partition and the transactional id under which it is read; unique in a cluster and group.

    `owner` is None without an owner. Offsets are the *next* to read; `end` is the last known end.
    producer_id and epoch are the owner's, None until it has reported them.

    transactional_id: the one that the owner reported last, a task's id in `exactly_once_v2`.
    assigned_id: the one for `exactly_once`, with any owner; no heartbeat changes it.
    archived: the assigned id is retired; None while it is or may be used.
    """

    pipeline: str
    kafka_cluster_id: str
    group: str
    topic: str
    partition: int
    transactional_id: str | None
    owner: PartitionOwner | None
    producer_id: int | None = None
    epoch: int | None = None
    generation: int | None = None
    since: datetime
    position: int | None = None
    committed: int | None = None
    end: int | None = None
    assigned_id: str | None = None
    origin: IdOrigin | None = None
    archived: Archived | None = None

    @property
    def lag_records(self) -> int | None:
        """Return the records between the committed (else read) offset and the end; None if either is unknown."""
        at = self.committed if self.committed is not None else self.position
        return None if at is None or self.end is None else max(0, self.end - at)


class AssignedId(msgspec.Struct, frozen=True, kw_only=True):
    """The id under which a partition is read in `exactly_once`."""

    topic: str
    partition: int
    transactional_id: str


class PartitionOwnership(msgspec.Struct, frozen=True, kw_only=True):
    """One ownership interval: one attempt owned one partition by one producer, epoch and generation.

    Intervals of a partition never overlap. until: None while it lasts. None elsewhere: the owner has not reported it.
    heard_until: the owner's last heartbeat before the end; None: not known. The end lies between it and `until`, the
        first report of another owner, or the time when the owner was released.
    """

    pipeline: str
    kafka_cluster_id: str
    group: str
    topic: str
    partition: int
    transactional_id: str | None
    owner: PartitionOwner
    generation: int | None
    since: datetime
    until: datetime | None
    producer_id: int | None = None
    epoch: int | None = None
    heard_until: datetime | None = None

    def unheard_since(self, now: datetime) -> datetime | None:
        """Return the owner's last heartbeat, if the interval is longer than that confirms; else None."""
        if self.heard_until is None or (self.until or now) - self.heard_until <= UNHEARD_AFTER:
            return None
        return self.heard_until


class OwnershipFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that are not None narrow the list. at: intervals with this time. since, until: those that touch the
    range.
    """

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    at: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None


class TransactionalIdOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The one pipeline that owns a transactional id on a Kafka cluster. ordinal, task: of a TASK's id only.

    archived: a migration of the pipeline has retired it; it stays the pipeline's, so that no other one can take it.
    """

    kafka_cluster_id: str
    transactional_id: str
    pipeline: str
    kind: IdKind = IdKind.TASK
    ordinal: int | None = None
    task: int | None = None
    archived: Archived | None = None


class ReportedIncarnation(msgspec.Struct, frozen=True, kw_only=True):
    """A producer id and epoch that a task reported under an id."""

    transactional_id: str
    producer_id: int
    epoch: int
