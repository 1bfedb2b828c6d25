"""Read topics and their records for a user of the pages or of REST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from functools import partial

from app.core.clusters.brokers import AskIds, TransactionalIds
from app.core.clusters.cluster import Cluster
from app.core.clusters.service import get_cluster
from app.core.observing.service.transactional_ids import ids_of_producers
from app.core.wiring import Wiring
from app.kit.access import Principal, Verb, require
from app.products.topics.service import records, topics
from app.products.topics.service.records import RecordPage, RecordQuery
from app.products.topics.service.topics import TopicDetail, TopicNames, TopicPage, UsagesOf
from app.products.topics.service.usages import usages_of
from app.products.topics.shown_records import note_download, note_records
from app.products.topics.topic_list import TopicQuery
from app.products.topics.usage import GroupTopics


async def list_topics(wiring: Wiring, *, cluster: str, query: TopicQuery, after: str | None, limit: int) -> TopicPage:
    """Raises NotFoundError for an unknown cluster, InvalidError, UnavailableError."""
    entry = await _cluster(wiring, cluster)
    return await topics.list_topics(
        wiring.brokers,
        entry.connection(),
        query,
        listed=await wiring.part(TopicNames).of(entry),
        usages=_usages(wiring, entry),
        after=after,
        limit=limit,
    )


async def get_topic(wiring: Wiring, *, cluster: str, topic: str) -> TopicDetail:
    """Raises NotFoundError, UnavailableError."""
    entry = await _cluster(wiring, cluster)
    return await topics.get_topic(
        wiring.brokers,
        entry.connection(),
        topic,
        usages=_usages(wiring, entry),
        ask_ids=_ask_ids(wiring, entry),
    )


async def browse(by: Principal, wiring: Wiring, *, cluster: str, query: RecordQuery) -> RecordPage:
    """Read records; each answer is a row of the command log, written before it is returned.

    Raises ForbiddenError if the role may not see records, NotFoundError, InvalidError, UnavailableError.
    """
    require(by, Verb.READ_RECORDS)
    entry = await _cluster(wiring, cluster)
    found = await records.browse(wiring.brokers, entry.connection(), query, ask_ids=_ask_ids(wiring, entry))
    async with wiring.unit_of_work() as uow:
        await note_records(uow, found, query, cluster=cluster, by=by, now=wiring.clock.now())
        await uow.commit()
    return found


async def download(by: Principal, wiring: Wiring, *, cluster: str, query: RecordQuery) -> AsyncIterator[bytes]:
    """Read the first part, write the row of the command log, and return all parts as JSON lines.

    Raises the errors of `browse` before the first line.
    """
    require(by, Verb.READ_RECORDS)
    entry = await _cluster(wiring, cluster)
    parts = records.download(wiring.brokers, entry.connection(), query, ask_ids=_ask_ids(wiring, entry))
    first = await anext(parts)
    async with wiring.unit_of_work() as uow:
        await note_download(uow, query, cluster=cluster, by=by, now=wiring.clock.now())
        await uow.commit()

    async def lines() -> AsyncIterator[bytes]:
        yield records.json_lines(first)
        async for part in parts:
            yield records.json_lines(part)

    return lines()


async def _cluster(wiring: Wiring, name: str) -> Cluster:
    # Ended before the brokers are asked, which may be slow.
    async with wiring.unit_of_work() as uow:
        return await get_cluster(uow, name)


def _usages(wiring: Wiring, cluster: Cluster) -> UsagesOf:
    return partial(
        usages_of,
        observations=wiring.observations,
        group_topics=wiring.part(GroupTopics),
        unit_of_work=wiring.unit_of_work,
        cluster=cluster,
    )


def _ask_ids(wiring: Wiring, cluster: Cluster) -> AskIds:
    async def ask(producer_ids: Collection[int]) -> TransactionalIds:
        return await ids_of_producers(
            wiring.observations,
            cluster=cluster.name,
            producer_ids=producer_ids,
            as_of_ms=int(wiring.clock.now().timestamp() * 1000),
            otherwise=lambda ids: wiring.brokers.read_transactional_ids(cluster.connection(), ids),
        )

    return ask
