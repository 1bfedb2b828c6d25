"""A partition whose leader does not answer: the effect of a start and a reset on the others, and their messages."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from confluent_kafka.admin import AdminClient

from app.core.allow_lists.options import AllowedOptions
from app.core.blocked.facts import Refused
from app.core.clusters.brokers import DEFAULT_TIMEOUT_S, Connection, PartitionOffsets
from app.core.clusters.partition import Partition
from app.core.runs.offset_reset import OffsetTarget, OffsetTargetKind, PartitionOffset
from app.core.runs.recorded_offset import LostOffsetsError
from app.core.runs.service import offsets, runs
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import UnavailableError
from tests.core.runs import test_recorded_offsets as recorded
from tests.core.runs.test_recorded_offsets import commands, commit, group_of
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.topics import create_topic, unique_name

source = recorded.source


class WithoutLeader(KafkaBrokers):
    """Partition 1 has no leader: its offsets are unknown, and a request for all of them is refused."""

    async def offsets(
        self, connection: Connection, partitions: Collection[Partition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, PartitionOffsets]:
        if any(at.partition == 1 for at in partitions):
            raise UnavailableError("partition 1 has no leader")
        return await super().offsets(connection, partitions, timeout_s=timeout_s)

    async def offsets_of_each(
        self, connection: Connection, partitions: Collection[Partition], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[Partition, PartitionOffsets | Refused]:
        found = await super().offsets_of_each(connection, partitions, timeout_s=timeout_s)
        return {at: Refused("ListOffsets", "no leader") if at.partition == 1 else ends for at, ends in found.items()}


BROKERS = WithoutLeader(environment={}, secrets_dir=None)
RECORDED = OffsetTarget(kind=OffsetTargetKind.RECORDED)


async def start(plane: ControlPlane, brokers: KafkaBrokers = BROKERS) -> None:
    async with plane.uow() as uow:
        await runs.start_run(
            uow, brokers, pipeline="flights", allowed=AllowedOptions(), by=ANNA, why="go", now=plane.pass_time(1)
        )
        await uow.commit()


async def reset(plane: ControlPlane, target: OffsetTarget, brokers: KafkaBrokers = BROKERS) -> dict[int, int]:
    """Return the group's committed offsets after it, by partition."""
    async with plane.uow() as uow:
        await offsets.reset_offsets(
            uow, brokers, pipeline="flights", target=target, expected=None, by=ANNA, why="go", now=plane.now
        )
        await uow.commit()
    connection, group = await group_of(plane)
    return {at.partition: offset for at, offset in (await brokers.committed_offsets(connection, group)).items()}


async def test_no_leader_is_needed_where_the_group_has_its_offset(plane: ControlPlane, source: str) -> None:
    await commit(plane, source, 8, 5)
    await start(plane)


async def test_loss_is_refused_beside_it_and_unknown_partitions_are_named(plane: ControlPlane, source: str) -> None:
    with pytest.raises(LostOffsetsError, match=f"{source}-0 was committed at 8") as refused:
        await start(plane)
    assert f"{source}-1" not in refused.value.message
    assert await reset(plane, RECORDED) == {0: 8}
    await start(plane)
    [outcome] = [one[2] for one in await commands(plane) if one[0] == "start_run"]
    assert f"the leader does not answer: {source}-1, recorded at 5 (no leader)" in outcome


async def test_named_partitions_are_set_and_all_of_them_only_if_all_answer(plane: ControlPlane, source: str) -> None:
    one = PartitionOffset(topic=source, partition=0, offset=3)
    assert await reset(plane, OffsetTarget(kind=OffsetTargetKind.OFFSETS, offsets=(one,))) == {0: 3}
    with pytest.raises(UnavailableError, match="partition 1 has no leader"):
        await reset(plane, OffsetTarget(kind=OffsetTargetKind.EARLIEST))
    with pytest.raises(UnavailableError, match=f"leader of {source}-1 does not return its offsets: no leader"):
        await reset(plane, RECORDED)


def leader_of(bootstrap_servers: str, topic: str, partition: int) -> int:
    return (
        AdminClient({"bootstrap.servers": bootstrap_servers})
        .list_topics(topic, 10)
        .topics[topic]
        .partitions[partition]
        .leader
    )


async def test_partition_whose_only_broker_is_stopped(plane: ControlPlane, kafka_cluster3: KafkaCluster) -> None:
    """Partition 0 lost its offset, 1 lost it and has no leader, 2 has both."""
    servers, topic, sink = kafka_cluster3.bootstrap_servers, unique_name("t"), unique_name("out")
    create_topic(servers, topic, partitions=3, replication_factor=1)
    create_topic(servers, sink)
    recorded.feed(kafka_cluster3, topic, 5)
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    cluster = await plane.registered(brokers, servers)
    await plane.pipeline(cluster="real", source_topics=(topic,), sink_topic=sink, group_id=unique_name("g"))
    connection, group = await group_of(plane)
    await brokers.alter_offsets(connection, group, {Partition(topic, 2): 0})
    async with plane.uow() as uow:
        await uow.of(RecordedOffsetStore).replace(
            recorded.confirmed((topic, 0, 4), (topic, 1, 3), is_final=True),
            pipeline="flights",
            kafka_cluster_id=cluster.kafka_cluster_id,
            group=group,
            now=plane.now,
        )
        await uow.commit()
    broker = kafka_cluster3.broker(leader_of(servers, topic, 1))
    broker.stop()
    try:
        with pytest.raises(LostOffsetsError, match=f"{topic}-0 was committed at 4") as refused:
            await start(plane, brokers)
        assert f"{topic}-1" not in refused.value.message
        assert await reset(plane, RECORDED, brokers) == {0: 4, 2: 0}
        await start(plane, brokers)
    finally:
        broker.start()
        kafka_cluster3.wait_until_complete()
    [outcome] = [one[2] for one in await commands(plane) if one[0] == "start_run"]
    assert f"the leader does not answer: {topic}-1, recorded at 3" in outcome
