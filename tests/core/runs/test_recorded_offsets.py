"""Confirmed offsets are stored, sent to the next instance, and compared with the group before a start."""

from __future__ import annotations

from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.alerts.alert import AlertKind
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Webhook
from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.pipelines.service.validation import validate_pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.mode import Mode
from app.core.runs.offset_reset import OffsetTarget, OffsetTargetKind
from app.core.runs.recorded_offset import LostOffsetsError, RecordedOffset
from app.core.runs.run import DesiredRunState, Run
from app.core.runs.service import offsets, runs
from app.core.runs.service.recorded_offsets import refuse_lost_offsets
from app.core.runs.service.specifications import specification_for
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.runs.task import TaskState
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.access import RunTokenScope
from app.kit.errors import ConflictError, InvalidError
from app.products.migrations.service.asking import migration_to
from tests.conftest import MakeTopic
from tests.support.control_plane import ANNA, KAFKA_CLUSTER_ID, ControlPlane, task_heartbeat
from tests.support.topics import create_topic, delete_topics, unique_name

BROKERS = KafkaBrokers(environment={}, secrets_dir=None)
RECORDED = OffsetTarget(kind=OffsetTargetKind.RECORDED)


def confirmed(
    *places: tuple[str, int, int], topic_id: str | None = None, is_final: bool = False
) -> tuple[RecordedOffset, ...]:
    return tuple(
        RecordedOffset(topic=topic, partition=number, offset=offset, topic_id=topic_id, is_final=is_final)
        for topic, number, offset in places
    )


async def recorded(
    plane: ControlPlane, group: str = "flights-group", at: str = KAFKA_CLUSTER_ID
) -> dict[tuple[str, int], RecordedOffset]:
    async with plane.uow() as uow:
        found = await uow.of(RecordedOffsetStore).of_group(kafka_cluster_id=at, group=group)
    return {(one.topic, one.partition): one for one in found}


async def test_offsets_of_one_run_only_grow_and_those_of_released_partitions_stay(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0)]))
    late = replace(task_heartbeat(run.id, sequence=2), confirmed=confirmed(("in", 0, 7), ("in", 1, 9), topic_id="a"))
    await plane.beat(late)
    await plane.beat(replace(late, sequence=3, confirmed=confirmed(("in", 0, 6), ("in", 1, 9))))
    found = await recorded(plane)
    assert {at: one.offset for at, one in found.items()} == {("in", 0): 7, ("in", 1): 9}
    assert found["in", 0].topic_id == "a"
    drained = replace(late, sequence=4, state=TaskState.DRAINED, confirmed=confirmed(("in", 0, 8), is_final=True))
    await plane.beat(drained)
    assert (await recorded(plane))["in", 0] == RecordedOffset(
        topic="in", partition=0, offset=8, topic_id="a", is_final=True
    )


async def test_another_topic_of_the_name_and_a_zombie(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(replace(task_heartbeat(run.id, attempt=1), confirmed=confirmed(("in", 0, 90), topic_id="a")))
    await plane.beat(
        replace(task_heartbeat(run.id, attempt=1, sequence=2), confirmed=confirmed(("in", 0, 3), topic_id="b"))
    )
    await plane.beat(
        replace(task_heartbeat(run.id, attempt=0, sequence=9), confirmed=confirmed(("in", 0, 99), topic_id="b"))
    )
    assert (await recorded(plane))["in", 0].offset == 3


async def test_a_later_run_that_does_not_know_the_topic_yet_does_not_take_over_the_old_id(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(replace(task_heartbeat(run.id), confirmed=confirmed(("in", 0, 90), ("in", 1, 5), topic_id="a")))
    async with plane.uow() as uow:
        await uow.of(RecordedOffsetStore).replace(
            [RecordedOffset(topic="in", partition=0, offset=90, topic_id="a")],
            pipeline="flights",
            kafka_cluster_id=KAFKA_CLUSTER_ID,
            group="flights-group",
            now=run.started_at - timedelta(days=1),
        )
        await uow.commit()
    await plane.beat(replace(task_heartbeat(run.id, sequence=2), confirmed=confirmed(("in", 0, 3), ("in", 1, 6))))
    found = await recorded(plane)
    assert (found["in", 0].offset, found["in", 0].topic_id) == (3, None)
    assert (found["in", 1].offset, found["in", 1].topic_id) == (6, "a"), "in one run it is the same topic"


async def test_an_attempt_and_the_next_lease_are_given_what_is_recorded(plane: ControlPlane) -> None:
    run = await plane.running()
    answer = await plane.beat(replace(task_heartbeat(run.id), confirmed=confirmed(("in", 0, 7))))
    assert answer.recorded is None
    answer = await plane.beat(replace(task_heartbeat(run.id, attempt=1, sequence=2), asks_recorded=True))
    assert answer.recorded == confirmed(("in", 0, 7))
    async with plane.uow() as uow:
        specification = await specification_for(
            uow,
            RunTokenScope(run_id=run.id, ordinal=0, lease=1),
            run_token="",
            fenceline_version="1",
            server_urls=(),
        )
    assert specification.recorded == confirmed(("in", 0, 7))


@pytest.fixture
async def source(plane: ControlPlane, kafka: KafkaCluster, make_topic: MakeTopic) -> str:
    """A stopped pipeline `flights` whose two partitions hold 10 records each; 8 and 5 of them were confirmed."""
    topic, sink = make_topic(partitions=2), make_topic(partitions=1)
    feed(kafka, topic, 10)
    await plane.registered(BROKERS, kafka.bootstrap_servers)
    await plane.pipeline(cluster="real", source_topics=(topic,), sink_topic=sink, group_id=unique_name("g"))
    async with plane.uow() as uow:
        cluster, pipeline = await uow.of(ClusterStore).get("real"), await uow.of(PipelineStore).get("flights")
        facts = await BROKERS.facts(cluster.connection(), topics=[topic])
        await uow.of(RecordedOffsetStore).replace(
            confirmed((topic, 0, 8), (topic, 1, 5), topic_id=facts.topics[topic].topic_id, is_final=True),
            pipeline="flights",
            kafka_cluster_id=cluster.kafka_cluster_id,
            group=pipeline.definition.group_id,
            now=plane.now,
        )
        await uow.commit()
    return topic


def feed(kafka: KafkaCluster, topic: str, each: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(2 * each):
        producer.produce(topic, b"x", partition=number % 2)
    assert producer.flush(20) == 0


async def group_of(plane: ControlPlane) -> tuple[dict[str, str], str]:
    async with plane.uow() as uow:
        cluster, pipeline = await uow.of(ClusterStore).get("real"), await uow.of(PipelineStore).get("flights")
    return cluster.connection(), pipeline.definition.group_id


async def commit(plane: ControlPlane, topic: str, *offsets: int) -> None:
    connection, group = await group_of(plane)
    wanted = {Partition(topic, number): offset for number, offset in enumerate(offsets)}
    await BROKERS.alter_offsets(connection, group, wanted)


async def start(plane: ControlPlane) -> Run:
    async with plane.uow() as uow:
        run = await runs.start_run(
            uow, BROKERS, pipeline="flights", allowed=AllowedOptions(), by=ANNA, why="go", now=plane.pass_time(1)
        )
        await uow.commit()
    return run


async def pager(plane: ControlPlane) -> None:
    """A webhook for alerts about moved offsets."""
    async with plane.uow() as uow:
        await uow.of(WebhookStore).add(
            Webhook(
                name="pager",
                url="https://hooks.example.com/x",
                secrets=("env:FENCELINE_SECRET_X",),
                kinds=(AlertKind.OFFSETS_MOVED,),
                created_at=plane.now,
                created_by="anna",
            )
        )
        await uow.commit()


async def begun(plane: ControlPlane, source: str) -> Run:
    """A run that began at the recorded offsets, and whose group was deleted while no task of it was a member."""
    await commit(plane, source, 8, 5)
    run = await start(plane)
    await lose_group(plane)
    return run


async def lose_group(plane: ControlPlane) -> None:
    connection, group = await group_of(plane)
    admin = AdminClient({"bootstrap.servers": connection["bootstrap.servers"]})
    admin.delete_consumer_groups([group])[group].result(20)  # pyright: ignore[reportUnknownMemberType]


async def restart(plane: ControlPlane, run: Run, *, rolling: bool) -> None:
    async with plane.uow() as uow:
        await runs.restart_run(uow, BROKERS, run_id=run.id, rolling=rolling, by=ANNA, why="go", now=plane.now)
        await uow.commit()


async def refusal_of_a_start(plane: ControlPlane) -> str:
    async with plane.uow() as uow:
        with pytest.raises(LostOffsetsError) as refused:
            await refuse_lost_offsets(uow, BROKERS, await uow.of(PipelineStore).get("flights"))
    return refused.value.message


async def reset(plane: ControlPlane, target: OffsetTarget, why: str | None) -> None:
    async with plane.uow() as uow:
        await offsets.reset_offsets(
            uow, BROKERS, pipeline="flights", target=target, expected=None, by=ANNA, why=why, now=plane.now
        )
        await uow.commit()


async def warnings(plane: ControlPlane) -> list[str]:
    async with plane.uow() as uow:
        pipeline = await uow.of(PipelineStore).get("flights")
        found = await validate_pipeline(
            uow, BROKERS, name="flights", definition=pipeline.definition, allowed=AllowedOptions(), by=ANNA
        )
    assert all(problem.is_warning for problem in found)
    return [problem.message for problem in found if problem.field == "group_id"]


async def commands(plane: ControlPlane) -> list[tuple[str, str | None, str]]:
    async with plane.uow() as uow:
        found = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=10)
    return [(one.verb, one.why, one.outcome or "") for one in found.items]


async def test_a_start_of_a_group_that_forgot_is_refused_with_numbers_and_two_ways_out(
    plane: ControlPlane, source: str
) -> None:
    [warning] = await warnings(plane)
    with pytest.raises(ConflictError) as refused:
        await start(plane)
    for said in (warning, refused.value.message):
        assert f"{source}-0 was committed at 8 and would begin at 0 (8 offsets processed again)" in said
        assert "fenceline runs offsets flights --to recorded --execute --why" in said
        assert "--to earliest" in said
    for kind in (OffsetTargetKind.RECORDED, OffsetTargetKind.EARLIEST, OffsetTargetKind.LATEST):
        with pytest.raises(InvalidError, match="needs a reason"):
            await reset(plane, OffsetTarget(kind=kind), " ")
    await reset(plane, RECORDED, "the group expired")
    connection, group = await group_of(plane)
    assert await BROKERS.committed_offsets(connection, group) == {
        Partition(source, 0): 8,
        Partition(source, 1): 5,
    }
    assert await warnings(plane) == []
    await start(plane)
    assert ("reset_offsets", "the group expired", "2 partitions to recorded") in await commands(plane)


@pytest.mark.parametrize("rolling", [True, False], ids=["bounce", "full restart"])
async def test_a_restart_of_a_group_that_forgot_is_refused_before_what_runs_is_drained(
    plane: ControlPlane, source: str, rolling: bool
) -> None:
    run = await begun(plane, source)
    with pytest.raises(LostOffsetsError) as refused:
        await restart(plane, run, rolling=rolling)
    assert refused.value.message == await refusal_of_a_start(plane)
    assert f"{source}-0 was committed at 8 and would begin at 0" in refused.value.message
    now = await plane.get_run(run.id)
    assert (now.desired, now.starts_again, now.bounce_requested_at) == (DesiredRunState.RUN, False, None)
    assert [one[0] for one in await commands(plane)] == ["start_run"]
    await commit(plane, source, 8, 5)
    await restart(plane, run, rolling=rolling)


async def test_a_new_revision_is_not_rolled_out_to_a_group_that_forgot(plane: ControlPlane, source: str) -> None:
    run = await begun(plane, source)
    await plane.revise("flights", commit_interval_ms=200)
    async with plane.uow() as uow:
        with pytest.raises(LostOffsetsError, match=f"{source}-0 was committed at 8 and would begin at 0"):
            await runs.roll_run(uow, BROKERS, run_id=run.id, by=ANNA, why=None, now=plane.now)
    assert (await plane.get_run(run.id)).revision == 1


async def test_no_migration_begins_in_a_group_that_forgot(plane: ControlPlane, source: str) -> None:
    await begun(plane, source)
    async with plane.uow() as uow:
        with pytest.raises(LostOffsetsError, match=f"{source}-0 was committed at 8 and would begin at 0"):
            await migration_to(
                uow, BROKERS, pipeline="flights", goal=Mode.GROUP_ONLY, by="", why=None, waived={}, now=plane.now
            )


@pytest.mark.parametrize("kept", [3, 9], ids=["set back on purpose", "committed after the last report"])
async def test_the_advised_way_out_leaves_partitions_alone_that_have_lost_nothing(
    plane: ControlPlane, source: str, kept: int
) -> None:
    await commit(plane, source, kept)
    assert f"{source}-1 was committed at 5" in await refusal_of_a_start(plane)
    await reset(plane, RECORDED, "one offset expired")
    connection, group = await group_of(plane)
    assert await BROKERS.committed_offsets(connection, group) == {
        Partition(source, 0): kept,
        Partition(source, 1): 5,
    }
    with pytest.raises(InvalidError, match="has a committed offset for each recorded partition"):
        await reset(plane, RECORDED, "once more")


async def test_loss_after_a_reset_on_a_recreated_topic_is_refused(
    plane: ControlPlane, kafka: KafkaCluster, source: str
) -> None:
    delete_topics(kafka.bootstrap_servers, [source])
    create_topic(kafka.bootstrap_servers, source, partitions=2)
    feed(kafka, source, 3)
    await reset(plane, OffsetTarget(kind=OffsetTargetKind.LATEST), "the new topic from its end on")
    await lose_group(plane)
    with pytest.raises(LostOffsetsError, match=f"{source}-0 was committed at 3 and would begin at 0"):
        await start(plane)


async def test_the_other_way_out_is_recorded_as_well_and_stands_from_then_on(plane: ControlPlane, source: str) -> None:
    await reset(plane, OffsetTarget(kind=OffsetTargetKind.LATEST), "old records do not matter")
    await start(plane)
    _, group = await group_of(plane)
    async with plane.uow() as uow:
        cluster = await uow.of(ClusterStore).get("real")
    known = await recorded(plane, group, cluster.kafka_cluster_id)
    assert {at: one.offset for at, one in known.items()} == {(source, 0): 10, (source, 1): 10}


async def test_one_missing_offset_beside_others_is_named_alone(plane: ControlPlane, source: str) -> None:
    await commit(plane, source, 8)
    with pytest.raises(ConflictError) as refused:
        await start(plane)
    assert f"{source}-1 was committed at 5" in refused.value.message
    assert f"{source}-0" not in refused.value.message


async def test_offsets_that_differ_from_the_recorded_ones_are_reported_and_not_refused(
    plane: ControlPlane, source: str
) -> None:
    await commit(plane, source, 3, 5)
    await pager(plane)
    [warning] = await warnings(plane)
    assert f"differ from the recorded ones: {source}-0 is at 3, recorded at 8. Another tool" in warning
    await start(plane)
    [(_, _, outcome)] = [one for one in await commands(plane) if one[0] == "start_run"]
    assert f"{source}-0 is at 3, recorded at 8" in outcome
    async with plane.uow() as uow:
        (alert,) = (await uow.of(DeliveryStore).list("pager", after=None, limit=9)).items
    assert alert.type == "offsets_moved.happened"
    assert f"differ from the recorded ones: {source}-0 is at 3, recorded at 8" in alert.sentence


async def test_unmoved_offsets_raise_no_alert(plane: ControlPlane, source: str) -> None:
    await commit(plane, source, 8, 5)
    await pager(plane)
    await start(plane)
    async with plane.uow() as uow:
        assert not (await uow.of(DeliveryStore).list("pager", after=None, limit=9)).items


async def test_new_group_and_recreated_topic_begin_at_the_start_position(
    plane: ControlPlane, kafka: KafkaCluster, source: str
) -> None:
    delete_topics(kafka.bootstrap_servers, [source])
    create_topic(kafka.bootstrap_servers, source, partitions=2)
    feed(kafka, source, 3)
    assert await warnings(plane) == []
    await start(plane)


async def test_offset_that_outlived_its_topic_is_refused_until_a_reset(
    plane: ControlPlane, kafka: KafkaCluster, source: str
) -> None:
    delete_topics(kafka.bootstrap_servers, [source])
    create_topic(kafka.bootstrap_servers, source, partitions=2)
    feed(kafka, source, 10)
    # As a broker leaves it that could not delete the offset with the topic.
    await commit(plane, source, 8)
    [warning] = await warnings(plane)
    with pytest.raises(ConflictError) as refused:
        await start(plane)
    assert warning == refused.value.message
    assert f"may still have offsets of the deleted one: {source}-0 is at 8. Reset the offsets" in warning
    await reset(plane, OffsetTarget(kind=OffsetTargetKind.EARLIEST), "all of the new topic")
    await start(plane)


async def test_a_group_that_was_deleted_has_forgotten(plane: ControlPlane, source: str) -> None:
    await commit(plane, source, 8, 5)
    assert await warnings(plane) == []
    await lose_group(plane)
    with pytest.raises(ConflictError, match="has lost committed offsets"):
        await start(plane)
