"""Records of a topic for the author's form: the newest ones that read_committed consumers get."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from app.core.clusters.brokers import Brokers, TransactionalIds
from app.core.clusters.cluster import Cluster
from app.core.journals.log_content import bytes_of
from app.core.pipelines.ports import SampleQuery, SampleRead
from app.core.transforms.trying import SampleRecord
from app.kit.access import Principal, Verb, require
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.page import MAX_LIMIT
from app.kit.words import count, size
from app.products.topics.browsing import TopicRecord
from app.products.topics.record_filter import RecordFilter
from app.products.topics.service.records import RecordPage, RecordQuery, browse
from app.products.topics.service.topics import TopicNames
from app.products.topics.shown_records import note_records

LARGEST_BYTES = 1 << 20
"""The largest key, value or header; a record with a larger one is left out."""
_COMMITTED = RecordFilter(is_committed=True)


class TopicSamples:
    """Implements `TopicReader` of app/core/pipelines/ports.py."""

    def __init__(self, brokers: Brokers, unit_of_work: UnitOfWorkFactory, clock: Clock, names: TopicNames) -> None:
        self._brokers = brokers
        self._unit_of_work = unit_of_work
        self._clock = clock
        self._names = names

    async def names(self, cluster: Cluster) -> tuple[str, ...]:
        return tuple(one.name for one in await self._names.of(cluster) if not one.is_internal)

    async def read(self, by: Principal, cluster: Cluster, query: SampleQuery) -> SampleRead:
        require(by, Verb.READ_RECORDS)
        asked = RecordQuery(
            topic=query.topic,
            partition=query.partition,
            start=query.start,
            limit=query.limit,
            wanted=_COMMITTED,
        )
        page = await self._page(by, cluster, asked)
        if (
            asked.is_newest
            and len(page.records) < query.limit
            and any(one.first > one.bounds.first_offset for one in page.ranges)
        ):
            # The last offsets may be of open or aborted transactions, and of markers.
            page = await self._page(by, cluster, msgspec.structs.replace(asked, limit=MAX_LIMIT))
        records = page.records[-query.limit :] if asked.is_newest else page.records
        return _bounded(query, records, page.notes)

    async def _page(self, by: Principal, cluster: Cluster, query: RecordQuery) -> RecordPage:
        found = await browse(self._brokers, cluster.connection(), query, ask_ids=_no_ids, content_bytes=LARGEST_BYTES)
        async with self._unit_of_work() as uow:
            await note_records(uow, found, query, cluster=cluster.name, by=by, now=self._clock.now())
            await uow.commit()
        return found


async def _no_ids(producer_ids: Collection[int]) -> TransactionalIds:
    del producer_ids
    return TransactionalIds({})


def _bounded(query: SampleQuery, records: Collection[TopicRecord], notes: tuple[str, ...]) -> SampleRead:
    kept: list[SampleRecord] = []
    left, too_large = query.most_bytes, 0
    for record in records:
        parts = (record.key, record.value, *(header.value for header in record.headers))
        if any(part is not None and part.is_cut for part in parts) or record.size_bytes > left:
            too_large += 1
            continue
        left -= record.size_bytes
        kept.append(
            SampleRecord(
                topic=query.topic,
                partition=record.partition,
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                key=bytes_of(record.key),
                value=bytes_of(record.value),
                headers=tuple((header.name, bytes_of(header.value)) for header in record.headers),
            )
        )
    if too_large:
        bounds = f"{size(LARGEST_BYTES)} each, {size(query.most_bytes)} in all"
        notes = (*notes, f"{count(too_large, 'record')} left out for their size; the bounds are {bounds}.")
    return SampleRead(records=tuple(kept), notes=notes)
