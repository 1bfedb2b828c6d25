"""Offsets on a real broker: previewed first, reset only while the group has no members."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer
from msgspec.structs import replace

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.clusters.partition import Partition
from app.core.pipelines.store import PipelineStore
from app.core.runs.offset_reset import OffsetChange, OffsetTarget, OffsetTargetKind, PartitionOffset
from app.core.runs.service import offsets
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import ConflictError, InvalidError, PreconditionError
from tests.conftest import MakeTopic
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

BROKERS = KafkaBrokers(environment={}, secrets_dir=None)
EARLIEST = OffsetTarget(kind=OffsetTargetKind.EARLIEST)


@pytest.fixture
async def source(plane: ControlPlane, kafka: KafkaCluster, make_topic: MakeTopic) -> str:
    """A stopped pipeline `flights` whose topic holds 10 and 5 records, of which its group has read 4 of partition 0."""
    topic, group = make_topic(partitions=2), unique_name("g")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition, count in ((0, 10), (1, 5)):
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition, timestamp=1_000_000 + number)
    producer.flush(10)
    connection = {"bootstrap.servers": kafka.bootstrap_servers}
    await BROKERS.alter_offsets(connection, group, {Partition(topic, 0): 4})
    await plane.registered(BROKERS, kafka.bootstrap_servers)
    await plane.pipeline(cluster="real", source_topics=(topic,), group_id=group)
    return topic


async def preview(plane: ControlPlane, target: OffsetTarget) -> list[OffsetChange]:
    async with plane.uow() as uow:
        return await offsets.preview_offset_reset(uow, BROKERS, pipeline="flights", target=target)


async def reset(
    plane: ControlPlane, target: OffsetTarget, expected: list[OffsetChange] | None = None
) -> list[OffsetChange]:
    async with plane.uow() as uow:
        changes = await offsets.reset_offsets(
            uow, BROKERS, pipeline="flights", target=target, expected=expected, by=ANNA, why="again", now=plane.now
        )
        await uow.commit()
    return changes


async def test_a_preview_says_what_each_partition_would_read_and_changes_nothing(
    plane: ControlPlane, source: str
) -> None:
    first, second = await preview(plane, EARLIEST)
    assert (first.topic, first.committed, first.target, first.end, first.records) == (source, 4, 0, 10, 4)
    assert (second.committed, second.target, second.end, second.records) == (None, 0, 5, 5)
    assert await preview(plane, EARLIEST) == [first, second]


async def test_a_reset_moves_what_the_preview_showed(plane: ControlPlane, source: str) -> None:
    shown = await preview(plane, OffsetTarget(kind=OffsetTargetKind.LATEST))
    assert await reset(plane, OffsetTarget(kind=OffsetTargetKind.LATEST), shown) == shown
    assert [(c.committed, c.target) for c in await preview(plane, EARLIEST)] == [(10, 0), (5, 0)]
    async with plane.uow() as uow:
        command = (
            await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=1)
        ).items[0]
    assert (command.verb, command.why) == ("reset_offsets", "again")
    assert command.details["offsets"][0] == {"topic": source, "partition": 0, "from": 4, "to": 10}


async def test_a_moment_becomes_the_first_offset_at_or_after_it(plane: ControlPlane, source: str) -> None:
    at = OffsetTarget(kind=OffsetTargetKind.TIMESTAMP, timestamp=datetime.fromtimestamp(1_000.007, UTC))
    assert [change.target for change in await preview(plane, at)] == [7, 5]


async def test_single_offsets_move_only_what_they_name(plane: ControlPlane, source: str) -> None:
    target = OffsetTarget(
        kind=OffsetTargetKind.OFFSETS, offsets=(PartitionOffset(topic=source, partition=1, offset=3),)
    )
    assert [(c.partition, c.target) for c in await reset(plane, target)] == [(1, 3)]


async def test_an_offset_that_the_partition_does_not_hold_is_refused(plane: ControlPlane, source: str) -> None:
    target = OffsetTarget(
        kind=OffsetTargetKind.OFFSETS, offsets=(PartitionOffset(topic=source, partition=1, offset=30),)
    )
    with pytest.raises(InvalidError, match="holds offsets 0 to 5; 30 is outside"):
        await preview(plane, target)


async def test_a_preview_that_is_out_of_date_is_not_carried_out(plane: ControlPlane, source: str) -> None:
    shown = await preview(plane, EARLIEST)
    with pytest.raises(PreconditionError, match=r"is 4 by now: check a new preview"):
        await reset(plane, EARLIEST, [replace(change, committed=1) for change in shown])
    with pytest.raises(PreconditionError, match=r"-1 is None by now: check a new preview"):
        await reset(plane, EARLIEST, shown[:1])


async def test_offsets_stay_while_a_run_lives(plane: ControlPlane, source: str) -> None:
    await plane.run()
    with pytest.raises(ConflictError, match="drain it before you reset its offsets"):
        await reset(plane, EARLIEST)


async def test_offsets_stay_while_a_foreign_member_is_in_the_group(
    plane: ControlPlane, source: str, kafka: KafkaCluster
) -> None:
    async with plane.uow() as uow:
        group = (await uow.of(PipelineStore).get("flights")).definition.group_id
    stranger = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "client.id": "the-stranger"})
    try:
        stranger.subscribe([source])
        wait_for(lambda: stranger.poll(0.1) or stranger.assignment(), 15, "the stranger has joined")
        with pytest.raises(ConflictError, match="member"):
            await reset(plane, EARLIEST)
    finally:
        stranger.close()
    async with plane.uow() as uow:
        log = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=5)
    assert log.items == (), "what was refused is not in the log as done"
