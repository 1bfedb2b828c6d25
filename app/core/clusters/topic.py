"""A topic as the brokers list and describe it."""

from __future__ import annotations

import msgspec

from app.core.clusters.cluster import TopicFacts


class ListedTopic(msgspec.Struct, frozen=True, gc=False):
    """A line of the brokers' list. is_internal: brokers keep it for themselves, as `__consumer_offsets`."""

    name: str
    partitions: int
    replication_factor: int
    is_internal: bool


class DescribedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """leader: None without one. size_bytes: of the leader's log; None: not reported."""

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    size_bytes: int | None = None


class ActiveProducer(msgspec.Struct, frozen=True, kw_only=True):
    """A producer that the leaders of some partitions remember: it has written there, with or without transactions.

    partitions: with records of it. last_ms: of its newest record, by the brokers' clocks. open_since: the first offset
    of its open transaction in one of the partitions; None without one.
    """

    producer_id: int
    producer_epoch: int
    partitions: int
    last_ms: int
    open_since: int | None = None


class TopicDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One topic.

    settings: those of SETTINGS that the brokers report; None: they may not be read (DescribeConfigs).
    size_note: why sizes are missing; empty if none is.
    """

    name: str
    is_internal: bool
    facts: TopicFacts
    partitions: tuple[DescribedPartition, ...]
    settings: dict[str, str] | None
    size_note: str = ""

    @property
    def size_bytes(self) -> int | None:
        """The sum over the leaders; None if one of them is not known."""
        sizes = [one.size_bytes for one in self.partitions]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def under_replicated(self) -> int:
        """The number of partitions with fewer in-sync replicas than replicas."""
        return sum(len(one.in_sync) < len(one.replicas) for one in self.partitions)


SETTINGS: dict[str, str] = {
    "cleanup.policy": "delete removes old records, compact removes older records of the same key.",
    "min.insync.replicas": "In-sync replicas required for a write with acks=all, which transactions use.",
    "unclean.leader.election.enable": "Allow out-of-sync replicas to become leader.",
    "retention.ms": "Records older than this are removed, if the policy has delete. -1: no limit.",
    "retention.bytes": "A partition larger than this loses its oldest records, if the policy has delete. -1: no limit.",
    "max.message.bytes": "The largest batch that the topic takes, after compression.",
    "message.timestamp.type": "CreateTime: timestamps are the producers'. LogAppendTime: they are the brokers'.",
    "compression.type": "The codec of the stored batches. producer: as the producer sent them.",
}
"""The settings that matter for transactions, with their meaning. Only these are shown."""
