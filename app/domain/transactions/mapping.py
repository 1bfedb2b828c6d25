"""Who reads which input partition under which transactional id, now and before."""

from __future__ import annotations

from datetime import datetime

import msgspec


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
    """

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

    @property
    def lag_records(self) -> int | None:
        """Records between what is committed (else read) and the end; None when either is unknown."""
        at = self.committed if self.committed is not None else self.position
        return None if at is None or self.end is None else max(0, self.end - at)


class PartitionOwnership(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of time in which one attempt held one partition. Stretches of a partition never overlap."""

    kafka_cluster_id: str
    group: str
    topic: str
    partition: int
    transactional_id: str | None
    owner: PartitionOwner
    generation: int | None
    since: datetime
    until: datetime | None


class TransactionalIdOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The one pipeline that owns a transactional id on a Kafka cluster."""

    kafka_cluster_id: str
    transactional_id: str
    pipeline: str
    ordinal: int
    task: int
