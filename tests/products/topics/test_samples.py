"""Samples of a topic: what read_committed consumers get, with whole contents, and a row of the command log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.journals.log_look import LogLook, LogStart, ReadBound
from app.core.journals.record_batch import MarkerType
from app.core.pipelines.ports import ALL_BYTES, SampleQuery, SampleRead
from app.edges.db.database import Database
from app.kit.access import Principal, Role, Verb
from app.kit.clock import SystemClock
from app.kit.errors import ForbiddenError
from app.products.topics.service.samples import LARGEST_BYTES, TopicSamples
from app.products.topics.service.topics import TopicNames
from tests.core.journals.batches import batch_of
from tests.core.journals.logs import WrittenLog

OPERATOR = Principal(name="olga", role=Role.OPERATOR)


class OnePartition:
    def __init__(self) -> None:
        self.written = WrittenLog()

    async def read_partition_logs(
        self, connection: object, topic: str, starts: LogStart | dict[int, LogStart], bound: ReadBound, **_: object
    ) -> dict[Partition, LogLook]:
        return {Partition(topic, 0): self.written.look()}


async def read(
    database: Database,
    brokers: OnePartition,
    *,
    limit: int = 5,
    most_bytes: int = ALL_BYTES,
    by: Principal = OPERATOR,
) -> SampleRead:
    asked = cast(Brokers, brokers)
    samples = TopicSamples(asked, database.unit_of_work, SystemClock(), TopicNames(asked, SystemClock()))
    cluster = Cluster(
        name="demo",
        kafka_cluster_id="kafka-demo",
        bootstrap_servers="127.0.0.1:1",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        created_by="anna",
    )
    return await samples.read(by, cluster, SampleQuery(topic="flights", limit=limit, most_bytes=most_bytes))


def plain(brokers: OnePartition, value: bytes) -> None:
    brokers.written.batches.append(batch_of([(b"k", value)], base_offset=brokers.written.end))


async def test_open_and_aborted_records_are_no_samples(database: Database) -> None:
    brokers = OnePartition()
    written = brokers.written
    written.plain()
    for producer_id, kind in ((1, MarkerType.COMMIT), (2, MarkerType.ABORT)):
        written.data(producer_id)
        written.mark(producer_id, kind)
    written.data(3)
    found = await read(database, brokers)
    assert [(record.offset, record.value) for record in found.records] == [(0, b"v"), (1, b"v")]


async def test_contents_are_whole_and_too_large_ones_are_named(database: Database) -> None:
    brokers = OnePartition()
    plain(brokers, b"\xff" * 100_000)
    plain(brokers, b"x" * (LARGEST_BYTES + 1))
    found = await read(database, brokers)
    assert [record.value for record in found.records] == [b"\xff" * 100_000]
    assert found.notes[0].startswith("1 record left out for their size")


async def test_records_beyond_the_share_of_a_topic_are_left_out_and_counted(database: Database) -> None:
    brokers = OnePartition()
    for _ in range(3):
        plain(brokers, b"x" * 1_000)
    found = await read(database, brokers, most_bytes=2_500)
    assert [record.offset for record in found.records] == [0, 1]
    assert found.notes == ("1 record left out for their size; the bounds are 1.0 MB each, 2.5 kB in all.",)


async def test_each_read_is_a_row_of_the_command_log_and_needs_the_permission(database: Database) -> None:
    brokers = OnePartition()
    plain(brokers, b"secret")
    await read(database, brokers)
    async with database.unit_of_work() as uow:
        rows = (await uow.of(CommandStore).list(CommandFilter(), limit=10, after=None)).items
    assert [row.outcome for row in rows if row.verb == Verb.READ_RECORDS] == [
        "saw 1 record of flights-0 offsets 0 to 0"
    ]
    with pytest.raises(ForbiddenError):
        await read(database, brokers, by=Principal(name="vera", role=Role.VIEWER))
