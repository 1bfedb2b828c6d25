"""Who reads which input partition under which transactional id, now and before."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

HISTORY_KEPT_FOR = timedelta(days=30)
"""How long a stretch of ownership is kept after its end, whether its run lives or not."""
UNHEARD_AFTER = timedelta(seconds=5)
"""A heartbeat comes every second: an owner that is silent for longer is no more vouched for by itself."""


class IdKind(StrEnum):
    """What a pipeline has an id for. The word is kept beside the id, since a name alone proves nothing.

    TASK: a task of `exactly_once_v2`. PARTITION: an input partition of `exactly_once`, named by Fenceline's formula.
    IMPORTED: the id of an application that moves here, which goes on fencing its old self.
    """

    TASK = "task"
    PARTITION = "partition"
    IMPORTED = "imported"


class Origin(StrEnum):
    """Where a partition has its assigned id from."""

    FORMULA = "formula"
    IMPORTED = "imported"

    @property
    def kind(self) -> IdKind:
        return IdKind.IMPORTED if self is Origin.IMPORTED else IdKind.PARTITION


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """That a migration gave an id up for good: it was fenced, and nobody may initialise it any more.

    migration: whose fence it was; None where its record is not kept any more.
    """

    since: datetime
    migration: str | None


class PartitionOwner(msgspec.Struct, frozen=True, kw_only=True):
    """One task's attempt that holds a partition, as its heartbeats say it."""

    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str


class PartitionMapping(msgspec.Struct, frozen=True, kw_only=True):
    """An input topic-partition → the transactional id under which it is read; unique in a cluster and group.

    `owner` is None while nobody holds the partition. Offsets are the *next* to read; `end` is the last known end.
    producer_id and epoch are the owner's own, None until it has told them.

    transactional_id: what the owner told last, a task's id in `exactly_once_v2`.
    assigned_id: what the partition is read under in `exactly_once`, whoever holds it; no heartbeat changes it.
    archived: that the assigned id was given up; None while it is or may be used.
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
    origin: Origin | None = None
    archived: Archived | None = None

    @property
    def lag_records(self) -> int | None:
        """Records between what is committed (else read) and the end; None when either is unknown."""
        at = self.committed if self.committed is not None else self.position
        return None if at is None or self.end is None else max(0, self.end - at)


class AssignedId(msgspec.Struct, frozen=True, kw_only=True):
    """The id that a partition is read under in `exactly_once`."""

    topic: str
    partition: int
    transactional_id: str


class PartitionOwnership(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of time in which one attempt held one partition by one producer, epoch and generation.

    Stretches of a partition never overlap. until: None while it lasts. What the owner never told is None.
    heard_until: when the owner was heard the last time before the end; None: not known. It ended then or later, and
        not after `until`, which is when somebody else was heard, or the owner was given up.
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
        """When the owner was heard the last time, if the stretch went on without its word; else None."""
        if self.heard_until is None or (self.until or now) - self.heard_until <= UNHEARD_AFTER:
            return None
        return self.heard_until


class OwnershipFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What is not None narrows. at: stretches that hold this moment. since, until: those that touch this time."""

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    at: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None


class TransactionalIdOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The one pipeline that owns a transactional id on a Kafka cluster. ordinal, task: of a TASK's id only.

    archived: that a migration of the pipeline gave it up; it stays the pipeline's, so that nobody else takes it.
    """

    kafka_cluster_id: str
    transactional_id: str
    pipeline: str
    kind: IdKind = IdKind.TASK
    ordinal: int | None = None
    task: int | None = None
    archived: Archived | None = None


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """A producer id and epoch that a task told it had under an id."""

    transactional_id: str
    producer_id: int
    epoch: int
