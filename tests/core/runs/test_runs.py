"""Start, end, restart and roll of runs, with a real broker if one is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.store import ClusterStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.ids.transactional_id import for_partition
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.pipelines.service import pipelines
from app.core.runs.instance import InstanceState
from app.core.runs.run import DesiredRunState, Run, RunState
from app.core.runs.service import runs
from app.core.runs.store.runs import RunStore
from app.core.runs.task import OutcomeKind
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.access import Principal, Role
from app.kit.errors import BrokerUnreachableError, ConflictError, ForbiddenError, InvalidError, NotFoundError
from tests.conftest import MakeTopic
from tests.support.control_plane import ANNA, ControlPlane, definition, task_heartbeat
from tests.support.topics import unique_name

ALLOWED = AllowedOptions()
BROKERS = KafkaBrokers(environment={}, secrets_dir=None)


@pytest.fixture
def brokers() -> KafkaBrokers:
    return BROKERS


async def ask(plane: ControlPlane, verb: Any, run_id: str, *brokers: KafkaBrokers, **more: Any) -> Run:
    async with plane.uow() as uow:
        run = await verb(uow, *brokers, run_id=run_id, by=ANNA, why="a test asked", now=plane.now, **more)
        await uow.commit()
    return run


async def start(plane: ControlPlane, brokers: KafkaBrokers, name: str = "flights", by: Principal = ANNA) -> Run:
    async with plane.uow() as uow:
        run = await runs.start_run(uow, brokers, pipeline=name, allowed=ALLOWED, by=by, why="go", now=plane.now)
        await uow.commit()
    return run


@pytest.fixture
async def on_broker(
    plane: ControlPlane, brokers: KafkaBrokers, kafka: KafkaCluster, make_topic: MakeTopic
) -> ControlPlane:
    """A pipeline `flights` whose topics are on the real broker, made by the services themselves."""
    source, sink = make_topic(partitions=4), make_topic(partitions=1)
    await plane.registered(brokers, kafka.bootstrap_servers)
    async with plane.uow() as uow:
        await pipelines.create_pipeline(
            uow,
            brokers,
            name="flights",
            definition=definition(
                cluster="real",
                source_topics=(source,),
                sink_topic=sink,
                group_id=unique_name("g"),
                instances=2,
                tasks_per_instance=2,
            ),
            allowed=ALLOWED,
            by=ANNA,
            why=None,
            now=plane.now,
        )
        await uow.commit()
    return plane


async def test_a_started_run_has_its_instances_its_ids_and_its_command(
    on_broker: ControlPlane, brokers: KafkaBrokers
) -> None:
    run = await start(on_broker, brokers)
    assert (run.state, run.revision, run.started_by) == (RunState.PENDING, 1, "anna")
    assert [(i.ordinal, i.lease, i.state) for i in run.instances] == [
        (0, 1, InstanceState.PENDING),
        (1, 1, InstanceState.PENDING),
    ]
    async with on_broker.uow() as uow:
        owned = await uow.of(TransactionalIdStore).of_pipeline("flights")
        log = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=10)
    assert [owner.transactional_id for owner in owned] == [
        "fl.t.flights.0.0",
        "fl.t.flights.0.1",
        "fl.t.flights.1.0",
        "fl.t.flights.1.1",
    ]
    assert [(command.verb, command.why) for command in log.items] == [("start_run", "go"), ("create_pipeline", None)]


async def test_one_of_concurrent_starts_wins_and_the_others_name_it(
    on_broker: ControlPlane, brokers: KafkaBrokers
) -> None:
    outcomes = await asyncio.gather(*(start(on_broker, brokers) for _ in range(4)), return_exceptions=True)
    won = [outcome for outcome in outcomes if isinstance(outcome, Run)]
    assert len(won) == 1
    for outcome in outcomes:
        if outcome is not won[0]:
            assert isinstance(outcome, ConflictError)
            assert "has a run already" in outcome.message
    async with on_broker.uow() as uow:
        assert [run.id for run in await uow.of(RunStore).list_live()] == [won[0].id]


async def test_viewer_cannot_start_and_the_error_names_the_role(plane: ControlPlane, brokers: KafkaBrokers) -> None:
    with pytest.raises(ForbiddenError, match="requires the role operator; eve is viewer"):
        await start(plane, brokers, by=Principal(name="eve", role=Role.VIEWER))


async def test_nothing_is_started_while_the_brokers_are_away(plane: ControlPlane, brokers: KafkaBrokers) -> None:
    await plane.pipeline()
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:9.*tried for"):
        await start(plane, brokers)
    async with plane.uow() as uow:
        assert await uow.of(RunStore).list_live() == []
        assert await uow.of(TransactionalIdStore).of_pipeline("flights") == []


async def test_a_topic_that_went_away_is_found_before_the_start(on_broker: ControlPlane, brokers: KafkaBrokers) -> None:
    await on_broker.revise("flights", source_topics=("nowhere",))
    with pytest.raises(InvalidError, match="cannot be started: source_topics") as refused:
        await start(on_broker, brokers)
    assert any("nowhere" in problem.message for problem in refused.value.problems)


async def test_an_id_that_another_pipeline_owns_stops_the_start(plane: ControlPlane) -> None:
    await plane.running("flights")
    await plane.pipeline("other")
    async with plane.uow() as uow:
        with pytest.raises(ConflictError, match=r"fl\.t\.flights\.0\.0 belongs to pipeline flights"):
            await uow.of(TransactionalIdStore).claim(
                pipeline="other", kafka_cluster_id="a-kafka-cluster", ids=[("fl.t.flights.0.0", 0, 0)]
            )


async def test_a_drain_ends_what_was_never_submitted_at_once(plane: ControlPlane) -> None:
    await plane.pipeline(instances=2)
    run = await ask(plane, runs.drain_run, (await plane.run()).id)
    assert (run.state, run.end_reason) == (RunState.STOPPED, "drained")
    assert {instance.state for instance in run.instances} == {InstanceState.STOPPED}


async def test_pause_resume_drain_kill_follow_each_other_only_one_way(plane: ControlPlane) -> None:
    run = await plane.running()
    assert (await ask(plane, runs.pause_run, run.id)).desired is DesiredRunState.PAUSE
    assert (await ask(plane, runs.resume_run, run.id)).desired is DesiredRunState.RUN
    assert (await ask(plane, runs.drain_run, run.id)).state is RunState.DRAINING
    with pytest.raises(ConflictError, match="is draining: it cannot resume any more"):
        await ask(plane, runs.resume_run, run.id)
    assert (await ask(plane, runs.kill_run, run.id)).state is RunState.KILLING
    await plane.move(run.id, 0, InstanceState.STOPPED)
    ended = await plane.get_run(run.id)
    assert (ended.state, ended.end_reason) == (RunState.STOPPED, "killed")
    with pytest.raises(ConflictError, match="has ended already: killed"):
        await ask(plane, runs.drain_run, run.id)


async def test_asking_twice_for_the_same_changes_nothing_and_logs_once(plane: ControlPlane) -> None:
    run = await plane.running()
    await ask(plane, runs.drain_run, run.id)
    await ask(plane, runs.drain_run, run.id)
    async with plane.uow() as uow:
        log = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=10)
    assert [command.verb for command in log.items] == ["drain_run"]


@pytest.mark.parametrize(("before_s", "after_s"), [(5, 5), (-3600, 5), (5, -3600)])
async def test_rolling_restart_bounces_every_instance_once_with_any_clock(
    plane: ControlPlane, before_s: float, after_s: float
) -> None:
    """The clock jumps before it is asked for, or between that and the new leases, as between two servers' clocks."""
    run = await plane.running(instances=2)
    plane.pass_time(before_s)
    run = await ask(plane, runs.restart_run, run.id, BROKERS, rolling=True)
    assert run.state is RunState.BOUNCING
    plane.pass_time(after_s)
    for ordinal in (0, 1):
        await plane.move(run.id, ordinal, InstanceState.DRAINING)
        await plane.outcome(run.id, ordinal, kind=OutcomeKind.DRAINED)
        assert (await plane.get_run(run.id)).ended_at is None
        lease = await plane.lease(run.id, ordinal)
        await plane.submit(run.id, ordinal, lease)
        await plane.claim(run.id, ordinal, lease)
        await plane.beat(task_heartbeat(run.id, ordinal=ordinal, lease=lease))
    run = await plane.get_run(run.id)
    assert (run.state, [instance.lease for instance in run.instances]) == (RunState.RUNNING, [2, 2])


async def test_a_full_restart_drains_and_then_starts_the_next_run(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    await plane.revise("flights", group_id="another-group")
    await ask(plane, runs.restart_run, run.id, BROKERS, rolling=False)
    for ordinal in (0, 1):
        await plane.outcome(run.id, ordinal, kind=OutcomeKind.DRAINED)
    async with plane.uow() as uow:
        following = await uow.of(RunStore).find_live("flights")
    assert following is not None
    assert following.id != run.id
    assert (following.revision, following.state, following.started_by) == (2, RunState.PENDING, "anna")
    assert (await plane.get_run(run.id)).state is RunState.STOPPED


async def test_a_restart_that_cannot_start_again_still_ends_and_says_why(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.pipeline("other")
    await plane.revise("flights", transactional_id_prefix="mine")
    async with plane.uow() as uow:
        await uow.of(TransactionalIdStore).claim(
            pipeline="other", kafka_cluster_id="a-kafka-cluster", ids=[("mine.t.flights.0.0", 0, 0)]
        )
        await uow.commit()
    await ask(plane, runs.restart_run, run.id, BROKERS, rolling=False)
    await plane.outcome(run.id, kind=OutcomeKind.DRAINED)
    assert (await plane.get_run(run.id)).state is RunState.STOPPED
    async with plane.uow() as uow:
        assert await uow.of(RunStore).find_live("flights") is None
        command = (
            await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=1)
        ).items[0]
    assert command.outcome.startswith("not started: the transactional id mine.t.flights.0.0 belongs to pipeline other")


async def test_a_drain_after_a_restart_was_asked_for_keeps_the_pipeline_down(plane: ControlPlane) -> None:
    run = await plane.running()
    await ask(plane, runs.restart_run, run.id, BROKERS, rolling=False)
    await ask(plane, runs.drain_run, run.id)
    await plane.outcome(run.id, kind=OutcomeKind.DRAINED)
    async with plane.uow() as uow:
        assert await uow.of(RunStore).find_live("flights") is None


async def test_a_roll_moves_the_target_and_instances_with_the_old_revision_are_bouncing(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    await plane.revise("flights", sink_topic="elsewhere")
    run = await ask(plane, runs.roll_run, run.id, BROKERS)
    assert (run.revision, run.state) == (2, RunState.BOUNCING)
    assert [instance.revision for instance in run.instances] == [1, 1]


async def test_a_change_that_members_of_a_group_must_agree_on_is_not_rolled(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.revise("flights", group_id="another-group")
    with pytest.raises(ConflictError, match="changes group_id, which must be equal in all instances"):
        await ask(plane, runs.roll_run, run.id, BROKERS)
    assert (await plane.get_run(run.id)).revision == 1


async def test_a_run_fails_only_when_no_instance_lives(plane: ControlPlane) -> None:
    run = await plane.running()

    async def fail() -> Run:
        async with plane.uow() as uow:
            failed = await runs.fail_run(uow, run_id=run.id, reason="gave up", by=ANNA, now=plane.now)
            await uow.commit()
        return failed

    with pytest.raises(ConflictError, match="instance 0 is running"):
        await fail()
    await plane.move(run.id, 0, InstanceState.FAILED, reason="exit code 1")
    failed = await fail()
    assert (failed.state, failed.end_reason) == (RunState.FAILED, "gave up")


async def test_runs_are_listed_newest_first_page_by_page(plane: ControlPlane) -> None:
    await plane.pipeline()
    made: list[str] = []
    for _ in range(3):
        run = await plane.run()
        await ask(plane, runs.kill_run, run.id)
        made.insert(0, run.id)
        plane.pass_time(1)
    async with plane.uow() as uow:
        first = await runs.list_runs(uow, pipeline="flights", limit=2)
        rest = await runs.list_runs(uow, pipeline="flights", limit=2, after=first.next_cursor)
    assert [run.id for run in (*first.items, *rest.items)] == made
    assert rest.next_cursor is None


@pytest.mark.parametrize("run_id", ["nonsense", "00000000-0000-0000-0000-000000000000", "\x00"])
async def test_malformed_run_id_is_not_found(plane: ControlPlane, run_id: str) -> None:
    async with plane.uow() as uow:
        with pytest.raises(NotFoundError, match="there is no run"):
            await runs.get_run(uow, run_id)


async def test_opposite_wishes_at_once_take_turns(plane: ControlPlane) -> None:
    """Locks are in one order: a drain, a restart, a revision and an ending instance never deadlock."""
    run = await plane.running(instances=3)
    outcomes = await asyncio.gather(
        ask(plane, runs.drain_run, run.id),
        ask(plane, runs.restart_run, run.id, BROKERS, rolling=True),
        ask(plane, runs.restart_run, run.id, BROKERS, rolling=False),
        *(plane.outcome(run.id, ordinal, kind=OutcomeKind.DRAINED) for ordinal in range(3)),
        *(plane.beat(task_heartbeat(run.id, ordinal=ordinal)) for ordinal in range(3)),
        return_exceptions=True,
    )
    unexpected = [o for o in outcomes if isinstance(o, BaseException) and not isinstance(o, ConflictError)]
    assert unexpected == []
    assert all(instance.has_ended for instance in (await plane.get_run(run.id)).instances)


async def test_every_partition_of_exactly_once_has_its_id_before_anything_runs(
    on_broker: ControlPlane, brokers: KafkaBrokers
) -> None:
    revision = await on_broker.revise("flights", processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE)
    (source,), group = revision.definition.source_topics, revision.definition.group_id
    await start(on_broker, brokers)
    ids = [for_partition(prefix="fl", group=group, topic=source, partition=number) for number in range(4)]
    async with on_broker.uow() as uow:
        cluster = await uow.of(ClusterStore).get("real")
        found = await uow.of(MappingStore).of_group(kafka_cluster_id=cluster.kafka_cluster_id, group=group)
        owned = await uow.of(TransactionalIdStore).of_pipeline("flights")
    assert [mapping.assigned_id for mapping in found] == ids
    assert [one.transactional_id for one in owned] == ids
