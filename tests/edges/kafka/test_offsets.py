"""Offsets of partitions: the end, the last stable one, and the first one at a time."""

import time

import pytest

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Connection, PartitionOffsets
from app.core.clusters.partition import Partition
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import UnavailableError
from tests.conftest import MakeTopic
from tests.support.kafka_clients import Writer, write
from tests.support.waiting import wait_for_async


async def test_last_stable_offset_stays_behind_an_open_transaction(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic()
    at = Partition(topic, 0)
    write(connection, topic, records=3)
    writer.begin(topic, records=2)
    open_ = (await brokers.offsets(connection, [at]))[at]
    assert (open_.earliest, open_.last_stable, open_.high_watermark) == (0, 3, 5)
    writer.commit()

    async def is_ended() -> bool:
        ended = (await brokers.offsets(connection, [at]))[at]
        # Five records and the marker, which is written a moment after the commit is answered.
        return (ended.last_stable, ended.high_watermark) == (6, 6)

    await wait_for_async(is_ended, 10, "both ends behind the marker of the committed transaction")


async def test_offsets_of_a_partition_that_is_not_there_are_refused_by_name(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with pytest.raises(UnavailableError, match=f"{topic}-7"):
        await brokers.offsets(connection, [Partition(topic, 0), Partition(topic, 7)])
    assert await brokers.offsets(connection, []) == {}
    each = await brokers.offsets_of_each(connection, [Partition(topic, 0), Partition(topic, 7)])
    assert isinstance(each[Partition(topic, 0)], PartitionOffsets)
    assert isinstance(each[Partition(topic, 7)], Refused)


async def test_offset_at_a_timestamp_is_the_first_at_or_after_it(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    at = Partition(topic, 0)
    now_ms = int(time.time() * 1000) - 60_000
    write(connection, topic, records=4, timestamp_ms=now_ms)
    expected = {now_ms + 1000: 1, now_ms + 1001: 2, now_ms + 3001: 4, 0: 0, -1: 0}
    found = {
        timestamp_ms: (await brokers.offsets_at(connection, [at], timestamp_ms=timestamp_ms))[at]
        for timestamp_ms in expected
    }
    assert found == expected
