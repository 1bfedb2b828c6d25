"""List and describe the topics of a cluster, with their readers and writers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import (
    DEFAULT_TIMEOUT_S,
    AskIds,
    Brokers,
    Connection,
    PartitionOffsets,
    TransactionalIds,
)
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.topic import ActiveProducer, DescribedPartition, ListedTopic, TopicDescription
from app.kit.clock import Clock
from app.kit.errors import FencelineError, NotFoundError, UnavailableError
from app.products.topics.topic_list import TopicQuery, advice_of, select
from app.products.topics.usage import TopicUsage

LISTED_FOR = timedelta(seconds=10)
_LISTED_AGAIN = timedelta(seconds=8)
MOST_PRODUCERS = 50
_NO_USAGE = TopicUsage()


class TopicLine(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. usage: None without a server, which has journals and pipelines.

    settings: None if they may not be read. size_bytes: of the leaders' logs; None: not known, see size_note.
    advice: why it endangers exactly-once, a sentence each.
    """

    name: str
    is_internal: bool
    partition_count: int
    replication_factor: int
    under_replicated: int
    size_bytes: int | None
    size_note: str
    settings: dict[str, str] | None
    advice: tuple[str, ...]
    usage: TopicUsage | None


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """matching: topics of all pages. internal: hidden ones of the brokers."""

    items: tuple[TopicLine, ...]
    next_cursor: str | None
    matching: int
    internal: int


class PartitionLine(msgspec.Struct, frozen=True, kw_only=True):
    """offsets: None with a `problem`."""

    state: DescribedPartition
    offsets: PartitionOffsets | None
    problem: str = ""


class TopicProducer(msgspec.Struct, frozen=True, kw_only=True):
    """transactional_id: None for a producer without transactions, or if it is not known."""

    producer: ActiveProducer
    transactional_id: str | None = None


class TopicDetail(msgspec.Struct, frozen=True, kw_only=True):
    """producers: the MOST_PRODUCERS that wrote last. producer_count: of all. notes: why some are not known."""

    topic: TopicLine
    partitions: tuple[PartitionLine, ...]
    producers: tuple[TopicProducer, ...]
    producer_count: int
    notes: tuple[str, ...] = ()


class TopicNames:
    """The list of each cluster's topics, at most LISTED_FOR old. Belongs to one event loop.

    A list in use is read again in the background before it is too old: with 10,000 topics a page would wait for it.
    """

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        self._brokers = brokers
        self._clock = clock
        self._known: dict[str, tuple[Cluster, datetime, tuple[ListedTopic, ...]]] = {}
        self._asking: dict[str, asyncio.Lock] = {}
        self._listing: dict[str, asyncio.Task[None]] = {}

    async def of(self, cluster: Cluster) -> tuple[ListedTopic, ...]:
        """Raises the errors of app/core/clusters/brokers.py."""
        async with self._asking.setdefault(cluster.name, asyncio.Lock()):
            known = self._known.get(cluster.name)
            age = None if known is None or known[0] != cluster else self._clock.now() - known[1]
            if known is None or age is None or age >= LISTED_FOR:
                return await self._list(cluster)
            if age >= _LISTED_AGAIN and cluster.name not in self._listing:
                self._listing[cluster.name] = asyncio.create_task(self._list_again(cluster))
            return known[2]

    async def _list(self, cluster: Cluster) -> tuple[ListedTopic, ...]:
        listed = await self._brokers.list_topics(cluster.connection())
        self._known[cluster.name] = (cluster, self._clock.now(), listed)
        return listed

    async def _list_again(self, cluster: Cluster) -> None:
        try:
            # The next question for a list that is too old reports the error.
            with suppress(FencelineError):
                await self._list(cluster)
        finally:
            del self._listing[cluster.name]


UsagesOf = Callable[[Collection[str]], Awaitable[Mapping[str, TopicUsage]]]
"""Finds readers and writers of topics (usages.py)."""


async def list_topics(
    brokers: Brokers,
    connection: Connection,
    query: TopicQuery,
    *,
    listed: tuple[ListedTopic, ...],
    usages: UsagesOf | None,
    after: str | None = None,
    limit: int = 50,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> TopicPage:
    """Return one page. Brokers are asked for the settings and sizes of its topics only. Raises InvalidError."""
    found = select(listed, query, after=after, limit=limit)
    names = [one.name for one in found.items]
    described, used = await asyncio.gather(
        brokers.describe_topics(connection, names, timeout_s=timeout_s), _used(names, usages)
    )
    return TopicPage(
        # A topic may be deleted since the list was read.
        items=tuple(_line(described[name], used) for name in names if name in described),
        next_cursor=found.next_cursor,
        matching=found.matching,
        internal=found.internal,
    )


async def get_topic(
    brokers: Brokers,
    connection: Connection,
    topic: str,
    *,
    usages: UsagesOf | None,
    ask_ids: AskIds,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> TopicDetail:
    """Return one topic with its partitions and producers.

    ask_ids: finds the transactional ids of producer ids.

    Raises NotFoundError, and the errors of app/core/clusters/brokers.py."""
    live, used = await asyncio.gather(
        brokers.live_topic(connection, topic, timeout_s=timeout_s), _used([topic], usages)
    )
    if live is None:
        raise NotFoundError(f"the cluster has no topic {topic[:249]}, or hides it from this client", field="topic")
    described = live.description
    producers, ids_note = await _named(live.producers[:MOST_PRODUCERS], ask_ids)
    notes = [*(one.sentence for one in live.refused[:1]), *([ids_note] if ids_note else [])]
    return TopicDetail(
        topic=_line(described, used),
        partitions=tuple(
            _partition(one, live.offsets.get(Partition(topic, one.number))) for one in described.partitions
        ),
        producers=producers,
        producer_count=len(live.producers),
        notes=tuple(notes),
    )


async def _used(topics: Collection[str], usages: UsagesOf | None) -> Mapping[str, TopicUsage] | None:
    return None if usages is None else await usages(topics)


async def _named(active: Sequence[ActiveProducer], ask_ids: AskIds) -> tuple[tuple[TopicProducer, ...], str | None]:
    ids, note = TransactionalIds({})
    if active:
        try:
            ids, note = await ask_ids({one.producer_id for one in active})
        except UnavailableError as error:
            note = f"transactional ids are not known: {error.message}"
    return tuple(TopicProducer(producer=one, transactional_id=ids.get(one.producer_id)) for one in active), note


def _line(found: TopicDescription, used: Mapping[str, TopicUsage] | None) -> TopicLine:
    usage = None if used is None else used.get(found.name, _NO_USAGE)
    return TopicLine(
        name=found.name,
        is_internal=found.is_internal,
        partition_count=len(found.partitions),
        replication_factor=found.facts.replication_factor,
        under_replicated=found.under_replicated,
        size_bytes=found.size_bytes,
        size_note=found.size_note,
        settings=found.settings,
        advice=advice_of(found, writers=() if usage is None else usage.writers),
        usage=usage,
    )


def _partition(state: DescribedPartition, found: PartitionOffsets | Refused | None) -> PartitionLine:
    if isinstance(found, PartitionOffsets):
        return PartitionLine(state=state, offsets=found)
    problem = "its leader did not answer" if found is None else found.sentence
    return PartitionLine(state=state, offsets=None, problem=problem)
