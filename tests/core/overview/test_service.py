"""The content of pages: one moment, sums of recent reports, and issues."""

from __future__ import annotations

import pytest

from app.core.fencing.fencing_event import FencingCause
from app.core.overview import service as overview
from app.core.overview.service import Overview, PipelinePage, RunPage
from app.core.runs.instance import InstanceState
from app.core.runs.needs import NeedSeverity
from app.core.runs.run import RunState
from app.core.runs.store.runs import RunStore
from app.core.runs.task import EventKind, TaskState
from app.core.wire.heartbeat import TaskEvent
from tests.support.control_plane import ControlPlane, driver_heartbeat, task_heartbeat
from tests.support.needs import NEEDS
from tests.support.run_samples import samples_of


async def look(plane: ControlPlane) -> Overview:
    async with plane.uow() as uow:
        return await overview.overview(uow, needs=NEEDS, now=plane.now)


async def page(plane: ControlPlane, name: str = "flights") -> PipelinePage:
    async with plane.uow() as uow:
        return await overview.pipeline_page(uow, name, needs=NEEDS, now=plane.now)


async def run_page(plane: ControlPlane, run_id: str) -> RunPage:
    async with plane.uow() as uow:
        return await overview.run_page(uow, run_id, now=plane.now)


async def flow(plane: ControlPlane, run_id: str, *, per_second: int, task: int = 0) -> None:
    for sequence in (1, 2):
        await plane.beat(
            task_heartbeat(
                run_id,
                task=task,
                sequence=sequence,
                partitions=[("in", task)],
                records_in=sequence * per_second,
                transactions_committed=sequence,
            )
        )


async def test_an_empty_house_has_nothing_to_say(plane: ControlPlane) -> None:
    seen = await look(plane)
    assert (seen.lines, seen.states, seen.needs, seen.happened) == ((), {}, (), ())


async def test_pipelines_are_counted_by_state_and_their_rates_summed(plane: ControlPlane) -> None:
    first = await plane.running("a", tasks_per_instance=2)
    second = await plane.running("b")
    await plane.pipeline("c")
    await flow(plane, first.id, per_second=100)
    await flow(plane, first.id, per_second=50, task=1)
    await flow(plane, second.id, per_second=7)
    seen = await look(plane)
    assert seen.states == {"running": 2, "never started": 1}
    assert [(line.pipeline.name, line.rates.records_in_per_s) for line in seen.lines] == [
        ("a", 150),
        ("b", 7),
        ("c", 0),
    ]
    assert seen.rates.records_in_per_s == 157
    assert seen.rates.lag_records == 21


async def test_the_chart_of_all_sums_the_runs_second_by_second(plane: ControlPlane) -> None:
    runs = [await plane.running("a"), await plane.running("b")]
    for sequence in (1, 2, 3):
        plane.pass_time(1)
        for number, run in enumerate(runs, start=1):
            await plane.beat(task_heartbeat(run.id, sequence=sequence, records_in=sequence * number * 100))
    async with plane.uow() as uow:
        alone = [await samples_of(uow, run.id) for run in runs]
    sums = [(one.at, one.records_in_per_s + other.records_in_per_s) for one, other in zip(*alone, strict=True)]
    assert max(rate for _, rate in sums) > 0
    seen = (await look(plane)).series
    assert [(point.at, point.in_high) for point in seen] == [(point.at, point.in_low) for point in seen] == sums


async def test_old_rates_of_a_task_without_heartbeats_do_not_count(plane: ControlPlane) -> None:
    run = await plane.running()
    await flow(plane, run.id, per_second=100)
    assert (await page(plane)).line.rates.records_in_per_s == 100
    plane.pass_time(20)
    seen = await page(plane)
    assert seen.line.rates.records_in_per_s is None
    assert (await look(plane)).rates.records_in_per_s is None
    assert [need.sentence for need in seen.line.needs] == ["task 0.0 has sent no heartbeat for 20 s"]
    assert seen.totals.records_in == 200


@pytest.mark.parametrize(
    ("state", "severity", "words"),
    [
        (InstanceState.FAILED, NeedSeverity.STOPPED, "instance 0 is failed: exit code 1"),
        (InstanceState.UNREACHABLE, NeedSeverity.DEGRADED, "instance 0 is unreachable: exit code 1"),
    ],
)
async def test_instance_with_a_problem_is_an_issue(
    plane: ControlPlane, state: InstanceState, severity: NeedSeverity, words: str
) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, state, reason="exit code 1")
    seen = await look(plane)
    assert [(need.severity, need.sentence) for need in seen.needs] == [(severity, words)]
    assert seen.states == {RunState.DEGRADED: 1}


async def test_tasks_without_a_slot_a_backing_off_task_and_a_waiting_revision_are_named(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.drive(driver_heartbeat(run.id, tasks_running=1, tasks_waiting=1))
    await plane.beat(task_heartbeat(run.id, state=TaskState.BACKING_OFF))
    await plane.revise("flights", group_id="another")
    assert [need.sentence for need in (await page(plane)).line.needs] == [
        "instance 0: 1 of 2 tasks waits for a core",
        "task 0.0 is backing off: no error was given",
        "the newest revision changes group_id and waits for a full restart",
    ]


async def test_driver_without_heartbeats_is_one_issue_with_all_its_tasks_and_partitions(plane: ControlPlane) -> None:
    """A killed driver ends all its tasks, and their partitions have no reader: the first 15 s have one line, too."""
    run = await plane.running(tasks_per_instance=6)
    for task in range(6):
        await plane.beat(task_heartbeat(run.id, task=task, partitions=[("in", task)]))
    await plane.beat(task_heartbeat(run.id, sequence=2))
    for seconds, lasts in ((6, "6 s"), (9, "15 s")):
        plane.pass_time(seconds)
        assert [need.sentence for need in (await look(plane)).needs] == [
            f"tasks 0.0, 0.1, 0.2, 0.3 and 2 more have sent no heartbeat for {lasts}"
        ]
    await plane.move(run.id, 0, InstanceState.UNREACHABLE, reason="no heartbeat for 10 s")
    assert [need.sentence for need in (await look(plane)).needs] == ["instance 0 is unreachable: no heartbeat for 10 s"]


async def test_partitions_without_an_owner_for_a_while_are_an_issue_on_every_page(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0), ("in", 1)]))
    await plane.beat(task_heartbeat(run.id, sequence=2, partitions=[("in", 1)]))
    assert (await look(plane)).needs == (), "partitions change hands all the time"
    plane.pass_time(6)
    await plane.beat(task_heartbeat(run.id, sequence=3, partitions=[("in", 1)]))
    shown = [(await look(plane)).needs, (await page(plane)).line.needs, (await run_page(plane, run.id)).needs]
    assert [[(need.severity, need.sentence) for need in needs] for needs in shown] == [
        [(NeedSeverity.DEGRADED, "no task has read in-0 for 6 s")]
    ] * 3
    await plane.beat(task_heartbeat(run.id, sequence=4, partitions=[("in", 0), ("in", 1)]))
    assert (await look(plane)).needs == ()


async def test_partition_of_a_topic_that_is_not_read_any_more_is_no_issue(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("before", 0), ("in", 0)]))
    await plane.beat(task_heartbeat(run.id, sequence=2, partitions=[("in", 0)]))
    plane.pass_time(6)
    await plane.beat(task_heartbeat(run.id, sequence=3, partitions=[("in", 0)]))
    assert (await look(plane)).needs == ()


async def test_events_leave_out_plain_assignments_except_on_the_pipelines_page(plane: ControlPlane) -> None:
    run = await plane.running()
    kinds = (EventKind.ASSIGNED, EventKind.FENCED, EventKind.REVOKED)
    events = [TaskEvent(event_id=str(kind), kind=kind, at_ms=1, message=str(kind)) for kind in kinds]
    await plane.beat(task_heartbeat(run.id, events=events))
    assert [(item.pipeline, item.event.kind) for item in (await look(plane)).happened] == [
        ("flights", EventKind.FENCED)
    ]
    assert len((await page(plane)).events) == len((await run_page(plane, run.id)).events) == 3


async def test_fencing_is_shown_once_with_its_cause(plane: ControlPlane) -> None:
    """Not as the task's event beside it, which is among its proof."""
    run = await plane.running()
    event = TaskEvent(
        event_id="refused",
        kind=EventKind.FENCED,
        at_ms=int(plane.now.timestamp() * 1000),
        message="could not commit",
        producer_id=7,
        producer_epoch=0,
    )
    await plane.beat(task_heartbeat(run.id, events=[event]))
    seen = await look(plane)
    assert seen.happened == ()
    (line,) = seen.fencings
    assert line.record.place.pipeline == "flights"
    assert seen.fencing_counts == {FencingCause.UNEXPLAINED: 1}
    plane.pass_time(25 * 3600)
    assert (await look(plane)).fencing_counts == {}


async def test_a_run_shows_every_lease_and_the_zombies_that_were_seen(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id))
    await plane.move(run.id, 0, InstanceState.FAILED)
    await plane.lease(run.id)
    await plane.beat(task_heartbeat(run.id, sequence=2))
    seen = await run_page(plane, run.id)
    assert [(instance.lease, instance.state) for instance in seen.instances] == [
        (2, InstanceState.PENDING),
        (1, InstanceState.FAILED),
    ]
    assert [(zombie.lease, zombie.heartbeats) for zombie in seen.zombies] == [(1, 1)]


async def test_a_page_keeps_the_last_run_when_none_lives(plane: ControlPlane) -> None:
    run = await plane.running()
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run.id, run.desired.KILL)
        await uow.commit()
    await plane.move(run.id, 0, InstanceState.STOPPED)
    seen = await page(plane)
    assert seen.line.run is not None
    assert (seen.line.run.id, seen.line.state) == (run.id, RunState.STOPPED)
    assert seen.line.needs == ()
