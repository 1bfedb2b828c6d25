"""The effects of a heartbeat, their limits, and the answer to its sender."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from app.core.fencing.evidence import GroupRecord
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.fencing.record import FencingFilter
from app.core.fencing.service.events import record_cases
from app.core.fencing.store import FencingStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import InstanceState
from app.core.runs.run import DesiredRunState, RunState
from app.core.runs.service import heartbeats
from app.core.runs.service.heartbeats import AHEAD_AT_MOST
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import DesiredTaskState, EventKind, OutcomeKind, TaskState
from app.core.wire.heartbeat import TaskEvent
from app.kit.access import RunTokenScope
from app.kit.errors import ForbiddenError
from tests.support.control_plane import CLUSTER, ControlPlane, driver_heartbeat, task_heartbeat
from tests.support.run_samples import samples_of


def event(event_id: str, kind: EventKind = EventKind.ABORTED) -> TaskEvent:
    return TaskEvent(event_id=event_id, kind=kind, at_ms=1_767_225_600_000, message="it happened", partitions=("in-0",))


async def statuses(plane: ControlPlane, run_id: str):
    async with plane.uow() as uow:
        return await uow.of(TaskStore).list_statuses([run_id])


async def test_heartbeat_of_the_current_attempt_is_stored_and_answered(plane: ControlPlane) -> None:
    run = await plane.running()
    answer = await plane.beat(task_heartbeat(run.id, records_in=10))
    assert (answer.is_current, answer.desired) == (True, DesiredTaskState.RUN)
    (status,) = await statuses(plane, run.id)
    assert status.last.counters.records_in == 10
    assert status.received_at == plane.now


async def test_rates_come_from_two_heartbeats_of_one_attempt(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, sequence=1, sent_at_ms=1000, records_in=10, transactions_committed=1))
    await plane.beat(task_heartbeat(run.id, sequence=2, sent_at_ms=3000, records_in=50, transactions_committed=11))
    (status,) = await statuses(plane, run.id)
    assert (status.rates.records_in_per_s, status.rates.commits_per_s) == (20.0, 5.0)
    await plane.beat(task_heartbeat(run.id, attempt=1, sequence=1, sent_at_ms=4000, records_in=5))
    (status,) = await statuses(plane, run.id)
    assert status.rates.records_in_per_s is None, "another attempt counts from nothing"


async def test_a_lower_attempt_never_overwrites_and_is_kept_as_a_zombie(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, attempt=1, records_in=7))
    answer = await plane.beat(task_heartbeat(run.id, attempt=0, sequence=99, records_in=1000))
    assert (answer.is_current, answer.desired) == (False, DesiredTaskState.DRAIN)
    (status,) = await statuses(plane, run.id)
    assert (status.attempt, status.last.counters.records_in) == (1, 7)
    async with plane.uow() as uow:
        (zombie,) = await uow.of(TaskStore).list_zombies(run.id)
    assert (zombie.attempt, zombie.heartbeats, zombie.pid) == (0, 1, 4711)


async def test_lower_lease_is_a_zombie_even_before_a_heartbeat_of_the_new_one(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, attempt=5))
    await plane.move(run.id, 0, InstanceState.FAILED, reason="gone")
    assert await plane.lease(run.id) == 2
    answer = await plane.beat(task_heartbeat(run.id, attempt=6, sequence=2))
    assert (answer.is_current, answer.desired) == (False, DesiredTaskState.DRAIN)
    assert (await plane.get_run(run.id)).instances[0].state is InstanceState.PENDING


async def test_zombie_and_successor_at_once_leave_the_successor_current(plane: ControlPlane) -> None:
    run = await plane.running()
    beats = [
        plane.beat(task_heartbeat(run.id, attempt=attempt, sequence=sequence, records_in=attempt))
        for sequence in range(1, 9)
        for attempt in (0, 1)
    ]
    answers = await asyncio.gather(*beats)
    (status,) = await statuses(plane, run.id)
    assert (status.attempt, status.last.sequence) == (1, 8)
    assert not (await plane.beat(task_heartbeat(run.id, attempt=0, sequence=20))).is_current
    assert any(answer.is_current for answer in answers)


async def test_a_late_heartbeat_of_the_same_attempt_changes_nothing(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, sequence=5, records_in=50))
    await plane.beat(task_heartbeat(run.id, sequence=4, records_in=40, state=TaskState.PAUSED))
    (status,) = await statuses(plane, run.id)
    assert (status.last.sequence, status.last.counters.records_in) == (5, 50)
    assert (await plane.get_run(run.id)).state is RunState.RUNNING


async def test_repeated_events_are_stored_once_and_accepted_each_time(plane: ControlPlane) -> None:
    run = await plane.running()
    both = (event("a"), event("b", EventKind.FENCED))
    first = await plane.beat(task_heartbeat(run.id, sequence=1, events=both))
    again = await plane.beat(task_heartbeat(run.id, sequence=2, events=both))
    assert first.accepted_events == again.accepted_events == ("a", "b")
    async with plane.uow() as uow:
        page = await uow.of(TaskStore).list_events(run.id, after=None, limit=10)
    assert sorted(item.event_id for item in page.items) == ["a", "b"]
    assert page.items[0].partitions == ("in-0",)


async def test_events_of_a_zombie_are_kept_too(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, attempt=1))
    answer = await plane.beat(task_heartbeat(run.id, attempt=0, events=(event("z"),)))
    assert answer.accepted_events == ("z",)


async def test_the_same_events_from_many_heartbeats_at_once_do_not_block_each_other(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=4)
    many = [event(f"e{number}") for number in range(20)]
    await asyncio.gather(
        *(plane.beat(task_heartbeat(run.id, task=task, events=many if task % 2 else many[::-1])) for task in range(4))
    )
    async with plane.uow() as uow:
        page = await uow.of(TaskStore).list_events(run.id, after=None, limit=100)
    assert len(page.items) == 20


NOT_STORABLE = "a\x00b\udcff" + "x" * 10_000


async def test_texts_that_cannot_be_stored_are_corrected_for_every_sender(plane: ControlPlane) -> None:
    run = await plane.running()
    sick = TaskEvent(
        event_id=NOT_STORABLE, kind=EventKind.ERROR, at_ms=10**18, message=NOT_STORABLE, partitions=(NOT_STORABLE,)
    )
    beat = replace(
        task_heartbeat(run.id, events=(sick,)), host=NOT_STORABLE, member_id=NOT_STORABLE, last_error=NOT_STORABLE
    )
    answer = await plane.beat(beat)
    assert answer.accepted_events == (NOT_STORABLE,), "or it would be sent for ever"
    (status,) = await statuses(plane, run.id)
    assert status.last.last_error is not None
    assert status.last.last_error.startswith("a\ufffdb?xxx")
    assert len(status.last.last_error) == 4_000
    async with plane.uow() as uow:
        (event,) = (await uow.of(TaskStore).list_events(run.id, after=None, limit=10)).items
    assert event.message.startswith("a\ufffdb?xxx")
    assert event.at == plane.now + AHEAD_AT_MOST


async def test_texts_of_a_driver_are_corrected_too(plane: ControlPlane) -> None:
    await plane.pipeline()
    run = await plane.run()
    await plane.submit(run.id)
    assert (await plane.claim(run.id, application_id="app\x00")).granted
    answer = await plane.drive(replace(driver_heartbeat(run.id), application_id="app\x00"))
    assert answer.is_current
    await plane.outcome(run.id, kind=OutcomeKind.FAILED, message=NOT_STORABLE, application_id="app\x00")
    (instance,) = (await plane.get_run(run.id)).instances
    assert instance.outcome is not None
    assert instance.outcome.message.startswith("a\ufffdb?")


async def test_a_token_of_another_lease_is_refused(plane: ControlPlane) -> None:
    run = await plane.running()
    async with plane.uow() as uow:
        with pytest.raises(ForbiddenError, match="instance 1, lease 1; the message for run"):
            await heartbeats.receive_heartbeat(
                uow, task_heartbeat(run.id), scope=RunTokenScope(run_id=run.id, ordinal=1, lease=1), now=plane.now
            )


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (DesiredRunState.PAUSE, DesiredTaskState.PAUSE),
        (DesiredRunState.DRAIN, DesiredTaskState.DRAIN),
        (DesiredRunState.KILL, DesiredTaskState.DRAIN),
    ],
)
async def test_desired_state_of_the_run_is_sent_to_its_tasks(
    plane: ControlPlane, wanted: DesiredRunState, told: DesiredTaskState
) -> None:
    run = await plane.running()
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run.id, wanted)
        await uow.commit()
    assert (await plane.beat(task_heartbeat(run.id))).desired is told
    assert (await plane.drive(driver_heartbeat(run.id))).desired is told


async def test_a_draining_instance_drains_while_its_run_goes_on(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    await plane.move(run.id, 1, InstanceState.DRAINING)
    assert (await plane.beat(task_heartbeat(run.id, ordinal=0))).desired is DesiredTaskState.RUN
    assert (await plane.beat(task_heartbeat(run.id, ordinal=1))).desired is DesiredTaskState.DRAIN


async def test_the_instance_follows_its_tasks(plane: ControlPlane) -> None:
    await plane.pipeline(tasks_per_instance=2)
    run = await plane.run()
    await plane.submit(run.id)
    await plane.claim(run.id)

    async def state() -> InstanceState:
        return (await plane.get_run(run.id)).instances[0].state

    await plane.beat(task_heartbeat(run.id, task=0, state=TaskState.STARTING))
    assert await state() is InstanceState.STARTING
    await plane.beat(task_heartbeat(run.id, task=0, sequence=2, state=TaskState.RUNNING))
    assert await state() is InstanceState.RUNNING
    await plane.beat(task_heartbeat(run.id, task=1, state=TaskState.PAUSED))
    assert await state() is InstanceState.RUNNING, "one of two still runs"
    await plane.beat(task_heartbeat(run.id, task=0, sequence=3, state=TaskState.PAUSED))
    assert await state() is InstanceState.PAUSED


async def test_an_unreachable_instance_comes_back_with_its_first_word(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, InstanceState.UNREACHABLE, reason="no heartbeat for 10 s")
    await plane.drive(driver_heartbeat(run.id))
    assert (await plane.get_run(run.id)).instances[0].state is InstanceState.STARTING
    await plane.move(run.id, 0, InstanceState.UNREACHABLE, reason="no heartbeat for 10 s")
    await plane.beat(task_heartbeat(run.id))
    assert (await plane.get_run(run.id)).instances[0].state is InstanceState.RUNNING


async def test_driver_without_the_claim_gets_the_order_to_drain(plane: ControlPlane) -> None:
    run = await plane.running()
    answer = await plane.drive(driver_heartbeat(run.id, application_id="somebody-else", executors=9))
    assert (answer.is_current, answer.desired) == (False, DesiredTaskState.DRAIN)
    assert (await plane.get_run(run.id)).instances[0].executors is None


async def test_missing_cores_are_reported(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=4)
    await plane.drive(driver_heartbeat(run.id, tasks_running=1, tasks_waiting=3))
    assert (await plane.get_run(run.id)).instances[0].slots_sentence() == "3 of 4 tasks wait for a core"


async def test_a_drained_outcome_stops_the_instance_and_ends_a_run_that_was_to_end(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run.id, DesiredRunState.DRAIN)
        await uow.commit()
    await plane.outcome(run.id, 0, kind=OutcomeKind.DRAINED)
    assert (await plane.get_run(run.id)).state is RunState.DRAINING
    await plane.outcome(run.id, 1, kind=OutcomeKind.DRAINED)
    ended = await plane.get_run(run.id)
    assert (ended.state, ended.end_reason, ended.ended_at) == (RunState.STOPPED, "drained", plane.now)


async def test_two_last_outcomes_at_once_end_the_run_once(plane: ControlPlane) -> None:
    run = await plane.running(instances=4)
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run.id, DesiredRunState.DRAIN)
        await uow.commit()
    await asyncio.gather(*(plane.outcome(run.id, ordinal, kind=OutcomeKind.DRAINED) for ordinal in range(4)))
    assert (await plane.get_run(run.id)).state is RunState.STOPPED


@pytest.mark.parametrize("kind", [OutcomeKind.FAILED, OutcomeKind.NO_EXECUTORS, OutcomeKind.SUPERSEDED])
async def test_an_outcome_that_is_no_drain_is_a_failure(plane: ControlPlane, kind: OutcomeKind) -> None:
    run = await plane.running()
    await plane.outcome(run.id, kind=kind)
    (instance,) = (await plane.get_run(run.id)).instances
    assert instance.state is InstanceState.FAILED
    assert instance.reason == f"{kind}: as the test set it"


async def test_the_outcome_of_an_application_without_the_claim_ends_nothing(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.outcome(run.id, kind=OutcomeKind.SUPERSEDED, application_id="the-refused-one")
    assert (await plane.get_run(run.id)).state is RunState.RUNNING


async def test_task_with_a_heartbeat_after_its_instance_was_lost_is_not_current(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id))
    await plane.move(run.id, 0, InstanceState.UNREACHABLE)
    await plane.move(run.id, 0, InstanceState.LOST, reason="gone for 30 s")
    answer = await plane.beat(task_heartbeat(run.id, sequence=2))
    assert (answer.is_current, answer.desired) == (False, DesiredTaskState.DRAIN)
    async with plane.uow() as uow:
        assert [zombie.lease for zombie in await uow.of(TaskStore).list_zombies(run.id)] == [1]


async def test_one_sample_a_second_sums_the_tasks_with_recent_heartbeats(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    for sequence in (1, 2):
        for task in (0, 1):
            await plane.beat(
                task_heartbeat(
                    run.id, task=task, sequence=sequence, records_in=100 * sequence, partitions=[("in", task)]
                )
            )
        plane.pass_time(1)
    await plane.beat(task_heartbeat(run.id, task=0, sequence=3, records_in=300, partitions=[("in", 0)]))
    async with plane.uow() as uow:
        samples = await samples_of(uow, run.id)
        totals = (await uow.of(TaskStore).totals([run.id]))[run.id]
    assert [sample.at.second for sample in samples] == [0, 1, 2]
    assert samples[-1].records_in_per_s == pytest.approx(200.0)
    assert samples[-1].lag_records == 14
    assert totals.records_in == 500


async def test_silence_leaves_a_gap_and_no_stale_rate(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    for task in (0, 1):
        await plane.beat(task_heartbeat(run.id, task=task, sequence=1, records_in=100))
        await plane.beat(task_heartbeat(run.id, task=task, sequence=2, records_in=200))
    plane.pass_time(10)
    await plane.beat(task_heartbeat(run.id, task=0, sequence=3, sent_at_ms=12_000, records_in=1200))
    async with plane.uow() as uow:
        samples = await samples_of(uow, run.id)
    assert [(sample.at.second, sample.records_in_per_s) for sample in samples][-1] == (10, pytest.approx(100.0))


async def test_refusal_that_a_task_reports_is_a_fencing_event_once(plane: ControlPlane) -> None:
    """Also when it comes from an attempt that others have followed: that is the zombie."""
    run = await plane.running()
    fenced = replace(event("fenced", EventKind.FENCED), producer_id=7, producer_epoch=2, error="_FENCED")
    await plane.beat(task_heartbeat(run.id, attempt=1))
    for sequence in (1, 2):
        await plane.beat(task_heartbeat(run.id, attempt=0, sequence=sequence, events=[fenced]))
    async with plane.uow() as uow:
        (record,) = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items
    assert record.event.verdict.cause is FencingCause.UNEXPLAINED
    assert (record.event.key.producer_id, record.event.key.producer_epoch) == (7, 2)
    assert record.event.key.transactional_id == "fl.t.flights.0.0"
    assert (record.place.pipeline, record.place.run_id, record.place.attempt) == ("flights", run.id, 0)


async def test_event_without_a_producer_is_no_fencing_event(plane: ControlPlane) -> None:
    """As workers of an earlier release send it."""
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, events=[event("fenced", EventKind.FENCED)]))
    async with plane.uow() as uow:
        assert (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items == ()


async def test_lost_partitions_are_an_event_of_the_membership(plane: ControlPlane) -> None:
    run = await plane.running()
    lost = replace(event("lost", EventKind.LOST), producer_id=7, producer_epoch=2, generation=4)
    await plane.beat(task_heartbeat(run.id, events=[lost]))
    async with plane.uow() as uow:
        (record,) = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items
    assert record.event.verdict.cause is FencingCause.STALE_GENERATION
    assert record.place.partitions == ("in-0",)


async def test_refused_offsets_are_joined_with_the_groups_generations(plane: ControlPlane) -> None:
    run = await plane.running()
    asked: list[tuple[str, str]] = []

    def generations(cluster: str, group: str) -> list[GroupRecord]:
        asked.append((cluster, group))
        return [
            GroupRecord(
                group=group, number=5, is_epoch=False, members=1, partition=0, offset=9, at_ms=1_767_225_600_000
            )
        ]

    refused = replace(event("refused"), producer_id=7, producer_epoch=2, generation=4, error="ILLEGAL_GENERATION")
    beat = task_heartbeat(run.id, events=[refused])
    scope = RunTokenScope(run_id=run.id, ordinal=0, lease=1)
    async with plane.uow() as uow:
        heard = await heartbeats.receive_heartbeat(uow, beat, scope=scope, now=plane.now, generations=generations)
        await record_cases(uow, heard.fencing, now=plane.now)
        await heartbeats.receive_heartbeat(
            uow, task_heartbeat(run.id), scope=scope, now=plane.now, generations=generations
        )
        await uow.commit()
    async with plane.uow() as uow:
        (record,) = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items
        group = (await uow.of(PipelineStore).get(run.pipeline)).definition.group_id
    verdict = record.event.verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.STALE_GENERATION, Confidence.CERTAIN)
    assert "at generation 4, the group reached 5" in verdict.sentence
    assert asked == [(CLUSTER, group)], "only for events"
