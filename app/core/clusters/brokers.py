"""Requests to Kafka brokers, apart from the data path.

`connection` is the result of Cluster.connection(): bootstrap.servers and security settings, with secrets as references
that the implementation resolves. Every call is bounded by `timeout_s`. It raises BrokerUnreachableError with address,
error and time, or UnavailableError with the broker's own refusal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from app.core.blocked.facts import Refused
from app.core.clusters.cluster import ClusterFacts, GroupMember, TopicFacts
from app.core.clusters.partition import Partition
from app.core.clusters.survey import Survey
from app.core.clusters.topic import ActiveProducer, ListedTopic, TopicDescription
from app.core.journals.log_look import LogLook, LogStart, ReadBound
from app.core.journals.query_marker import QueryMarker
from app.core.runs.recorded_offset import TruncatedOffset

DEFAULT_TIMEOUT_S = 5.0

Connection = Mapping[str, str]
NO_METADATA: Mapping[Partition, str] = MappingProxyType({})


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """One broker as the cluster advertises it."""

    id: int
    host: str
    port: int


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`brokers` are the *advertised* addresses, to which a client connects after the first answer."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[Broker, ...]


SHARE = "share"
"""The protocol of share groups (KIP-932), which commit no offsets."""


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A group as its coordinator describes it; `state` in Kafka's words, `Dead` if there is none.

    protocol: classic, consumer, streams or share.
    assignor: that of a classic group whose members have agreed on one.
    """

    group: str
    state: str
    protocol: str
    members: tuple[GroupMember, ...]
    assignor: str = ""


class PartitionOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """`last_stable` is the end under read_committed, `high_watermark` under read_uncommitted."""

    earliest: int
    last_stable: int
    high_watermark: int


class TransactionalIds(NamedTuple):
    """Transactional ids by their current and earlier producer ids. `note`: a sentence if some may be missing."""

    ids: dict[int, str]
    note: str | None = None


AskIds = Callable[[Collection[int]], Awaitable[TransactionalIds]]
"""Finds the transactional ids of producer ids."""


class LiveTopic(NamedTuple):
    """offsets: of each partition, or its refusal. producers: the idempotent ones that the leaders know, the last one
    first. refused: of the partitions whose producers are not known.

    A leader forgets a producer `producer.id.expiration.ms` after its last record, by default a day.
    """

    description: TopicDescription
    offsets: Mapping[Partition, PartitionOffsets | Refused]
    producers: tuple[ActiveProducer, ...]
    refused: tuple[Refused, ...] = ()


class Brokers(Protocol):
    async def describe_cluster(
        self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> ClusterDescription: ...

    async def reach_each(
        self, connection: Connection, brokers: Collection[Broker], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Raises BrokerUnreachableError with each broker that does not answer at its advertised address, and why."""
        ...

    async def survey(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Survey:
        """Return each broker with its version and settings, and the cluster's features; unreported ones are None."""
        ...

    async def facts(
        self,
        connection: Connection,
        *,
        topics: Collection[str],
        groups: Collection[str] = (),
        own_client_ids: Collection[str] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> ClusterFacts:
        """Return the facts for a pipeline's checks. Members with a client id prefix in `own_client_ids` are not
        foreign.
        """
        ...

    async def topics(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[str, TopicFacts]:
        """Return all topics that are not internal, by name; without their configuration."""
        ...

    async def describe_group(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupDescription:
        """Raises a FencelineError if its coordinator does not answer."""
        ...

    async def committed_offsets(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, int]:
        """Return the group's committed offsets, without the pending offsets of an open transaction and without markers
        of queries.
        """
        ...

    async def offsets_and_markers(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[dict[Partition, int], dict[Partition, QueryMarker]]:
        """Return the committed offsets, and the markers of a query's writers by sink topic and writer."""
        ...

    async def truncated_offsets(
        self,
        connection: Connection,
        group: str,
        partitions: Collection[Partition],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> list[TruncatedOffset]:
        """Return the group's committed offsets whose leader epoch ended before them, as the leaders report. Offsets
        without an epoch are not checked."""
        ...

    async def offsets(
        self, connection: Connection, partitions: Collection[Partition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, PartitionOffsets]:
        """Raises UnavailableError if the leader of one does not answer."""
        ...

    async def offsets_of_each(
        self, connection: Connection, partitions: Collection[Partition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, PartitionOffsets | Refused]:
        """Return the same, with the refusal of each partition whose leader does not answer."""
        ...

    async def offsets_at(
        self,
        connection: Connection,
        partitions: Collection[Partition],
        *,
        timestamp_ms: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[Partition, int]:
        """Return the first offset at or after the timestamp; the end if there is none."""
        ...

    async def alter_offsets(
        self,
        connection: Connection,
        group: str,
        offsets: Mapping[Partition, int],
        *,
        metadata: Mapping[Partition, str] = NO_METADATA,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Set the committed offsets of a group without members, in one request. Raises ConflictError while it has any.

        metadata: kept with the offset of a partition; empty for the others.
        """
        ...

    async def read_partition_log(
        self,
        connection: Connection,
        at: Partition,
        *,
        start: LogStart,
        limit: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> LogLook:
        """Return at least `limit` raw batches from `start` on; fewer at the log's end, or if they are very large.

        Raises NotFoundError for a topic or partition that does not exist, InvalidError for an offset out of range.
        """
        ...

    async def read_partition_logs(
        self,
        connection: Connection,
        topic: str,
        starts: LogStart | Mapping[int, LogStart],
        bound: ReadBound,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[Partition, LogLook | Refused]:
        """Return raw batches of each partition from its start on, within one bound for all of them.

        starts: one for all partitions of the topic, or by partition. A start outside of the log begins at its first
        offset, or at its end.

        A partition whose leader does not answer has a refusal and delays no other. Raises NotFoundError for a missing
        topic or partition, InvalidError for more partitions than the bound has.
        """
        ...

    async def list_topics(
        self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[ListedTopic, ...]:
        """Return every topic that the client may describe, by name, internal ones too."""
        ...

    async def describe_topics(
        self, connection: Connection, topics: Collection[str], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, TopicDescription]:
        """Return the existing topics with settings and sizes, as far as the client may read them."""
        ...

    async def live_topic(
        self, connection: Connection, topic: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> LiveTopic | None:
        """Return a topic with what its leaders know; None for a missing one, or one hidden from the client."""
        ...

    async def read_transactional_ids(
        self, connection: Connection, producer_ids: Collection[int], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> TransactionalIds:
        """Return the owners of these producer ids, from `__transaction_state`, else from the coordinators."""
        ...
