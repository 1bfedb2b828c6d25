"""Drills are ordered with permission, claimed once by their targets, and stopped."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.runs.instance import InstanceState
from app.core.runs.run import DesiredRunState, Run
from app.core.runs.store.runs import RunStore
from app.core.wire.drill import ActStep, DrillAnswer, DrillReport
from app.kit.access import Principal, Role, RunTokenScope
from app.kit.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from app.products.drills.drill import Drill, DrillKind, DrillState, DrillVerdict, TargetState
from app.products.drills.service import drills
from tests.support.control_plane import ControlPlane, task_heartbeat

OTTO = Principal(name="otto", role=Role.OPERATOR)


async def running(plane: ControlPlane, *, name: str = "flights", allows_drills: bool = True, **fields: int) -> Run:
    """Return a run with heartbeats of all tasks."""
    run = await plane.running(name, allows_drills=allows_drills, **fields)
    for ordinal in range(fields.get("instances", 1)):
        for task in range(fields.get("tasks_per_instance", 1)):
            await plane.beat(task_heartbeat(run.id, ordinal=ordinal, task=task))
    return run


async def order(
    plane: ControlPlane,
    *,
    pipeline: str = "flights",
    kind: DrillKind = DrillKind.FREEZE_INSTANCE,
    ordinal: int | None = 0,
    for_s: float = 15.0,
    by: Principal = OTTO,
) -> Drill:
    async with plane.uow() as uow:
        drill = await drills.begin_drill(
            uow, pipeline=pipeline, kind=kind, ordinal=ordinal, for_s=for_s, by=by, why="to see it", now=plane.now
        )
        await uow.commit()
    return drill


async def report(
    plane: ControlPlane, drill: Drill, step: ActStep = ActStep.CLAIMED, *, task: int = 0, attempt: int = 0
) -> DrillAnswer:
    said = DrillReport(
        drill_id=drill.id,
        run_id=drill.run_id,
        ordinal=0,
        lease=1,
        task=task,
        attempt=attempt,
        host="w1",
        pid=4711,
        step=step,
    )
    async with plane.uow() as uow:
        scope = RunTokenScope(run_id=drill.run_id, ordinal=0, lease=1)
        answer = await drills.receive_report(uow, said, scope=scope, now=plane.now)
        await uow.commit()
    return answer


async def stop(plane: ControlPlane, drill: Drill) -> Drill:
    async with plane.uow() as uow:
        stopped = await drills.stop_drill(uow, drill.id, by=OTTO, why=None, now=plane.now)
        await uow.commit()
    return stopped


async def get(plane: ControlPlane, drill: Drill) -> Drill:
    async with plane.uow() as uow:
        return await drills.get_drill(uow, drill.id)


async def test_order_reaches_its_target_only(plane: ControlPlane) -> None:
    run = await running(plane, instances=2)
    drill = await order(plane)
    answer = await plane.beat(task_heartbeat(run.id, sequence=2))
    assert answer.drill is not None
    assert (answer.drill.drill_id, answer.drill.act, answer.drill.for_s) == (drill.id, "freeze", 15.0)
    assert answer.drill.begin_within_s == 15.0
    assert (await plane.beat(task_heartbeat(run.id, ordinal=1, sequence=2))).drill is None
    assert (await plane.beat(task_heartbeat(run.id, attempt=1))).drill is None


async def test_concurrent_claims_are_granted_once(plane: ControlPlane) -> None:
    await running(plane)
    drill = await order(plane)
    answers = await asyncio.gather(*(report(plane, drill) for _ in range(8)))
    assert sorted(answer.goes_on for answer in answers) == [False] * 7 + [True]
    assert (await get(plane, drill)).state is DrillState.UNDERWAY


async def test_claim_after_a_refusal_of_the_host_is_not_granted(plane: ControlPlane) -> None:
    await running(plane)
    drill = await order(plane)
    await report(plane, drill, ActStep.REFUSED)
    answer = await report(plane, drill)
    assert (answer.goes_on, answer.reason) == (False, "its host refused it already")


async def test_claim_of_a_later_attempt_is_not_granted(plane: ControlPlane) -> None:
    await running(plane)
    drill = await order(plane)
    answer = await report(plane, drill, attempt=1)
    assert (answer.goes_on, answer.reason) == (False, "the drill is for another attempt of this task")
    assert (await get(plane, drill)).state is DrillState.ORDERED


async def test_expired_order_is_not_granted(plane: ControlPlane) -> None:
    run = await running(plane)
    drill = await order(plane)
    plane.pass_time(15.1)
    assert (await plane.beat(task_heartbeat(run.id, sequence=2))).drill is None
    assert (await report(plane, drill)).reason == "the order has expired"


async def test_claim_with_the_token_of_another_instance_is_refused(plane: ControlPlane) -> None:
    await running(plane, instances=2)
    drill = await order(plane, ordinal=1)
    with pytest.raises(NotFoundError, match="is for another instance"):
        await report(plane, drill)


async def test_drill_that_is_stopped_before_its_start_has_ended(plane: ControlPlane) -> None:
    run = await running(plane)
    drill = await order(plane)
    stopped = await stop(plane, drill)
    assert (stopped.state, stopped.verdict) == (DrillState.ENDED, DrillVerdict.STOPPED)
    assert (await plane.beat(task_heartbeat(run.id, sequence=2))).drill is None
    assert not (await report(plane, drill)).goes_on
    with pytest.raises(ConflictError, match="the drill has ended"):
        await stop(plane, drill)
    assert (await order(plane)).state is DrillState.ORDERED, "and the next one may begin"


async def test_answer_to_the_watchdog_of_a_stopped_freeze_is_to_thaw(plane: ControlPlane) -> None:
    await running(plane)
    drill = await order(plane)
    assert (await report(plane, drill)).goes_on
    assert (await report(plane, drill, ActStep.FROZEN)).goes_on
    await stop(plane, drill)
    assert not (await report(plane, drill, ActStep.FROZEN)).goes_on
    await report(plane, drill, ActStep.THAWED)
    (target,) = (await get(plane, drill)).targets
    assert target.state is TargetState.THAWED


async def test_late_or_repeated_report_has_no_effect(plane: ControlPlane) -> None:
    await running(plane)
    drill = await order(plane)
    for step in (ActStep.CLAIMED, ActStep.FROZEN, ActStep.THAWED):
        await report(plane, drill, step)
    before = await get(plane, drill)
    await report(plane, drill, ActStep.FROZEN)
    await report(plane, drill, ActStep.THAWED)
    assert await get(plane, drill) == before


async def test_only_one_drill_at_a_time(plane: ControlPlane) -> None:
    await running(plane)
    await running(plane, name="trains")
    first = await order(plane)
    with pytest.raises(ConflictError, match=f"one drill at a time: freeze instance 0 of flights.*{first.id}"):
        await order(plane, pipeline="trains")


async def test_database_refuses_one_of_two_concurrent_orders(plane: ControlPlane) -> None:
    await running(plane)
    await running(plane, name="trains")
    results = await asyncio.gather(order(plane), order(plane, pipeline="trains"), return_exceptions=True)
    refused = [result for result in results if isinstance(result, ConflictError)]
    assert len(refused) == 1, results


async def test_pipeline_that_does_not_allow_drills_is_not_drilled(plane: ControlPlane) -> None:
    await running(plane, allows_drills=False)
    with pytest.raises(ConflictError, match="the running revision 1 of pipeline flights does not allow drills"):
        await order(plane)
    await plane.revise("flights", allows_drills=True)
    with pytest.raises(ConflictError, match="revision 1"):
        await order(plane)


async def test_server_is_not_frozen_under_a_pipeline_that_does_not_allow_drills(plane: ControlPlane) -> None:
    await running(plane)
    await running(plane, name="trains", allows_drills=False)
    with pytest.raises(ConflictError, match="pipeline trains does not allow drills"):
        await order(plane, kind=DrillKind.FREEZE_SERVER, ordinal=None)


async def test_viewer_cannot_start_or_stop_a_drill(plane: ControlPlane) -> None:
    await running(plane)
    viewer = Principal(name="vera", role=Role.VIEWER)
    with pytest.raises(ForbiddenError, match="to start drill requires the role operator"):
        await order(plane, by=viewer)
    drill = await order(plane)
    async with plane.uow() as uow:
        with pytest.raises(ForbiddenError, match="to stop drill requires the role operator"):
            await drills.stop_drill(uow, drill.id, by=viewer, why=None, now=plane.now)


async def test_start_and_stop_are_in_the_command_log(plane: ControlPlane) -> None:
    await running(plane)
    await stop(plane, await order(plane))
    async with plane.uow() as uow:
        page = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=10)
    assert [(command.verb, command.who) for command in page.items[:2]] == [
        ("stop_drill", "otto"),
        ("start_drill", "otto"),
    ]
    assert page.items[1].why == "to see it"


async def test_drill_requires_that_all_tasks_run(plane: ControlPlane) -> None:
    run = await running(plane, instances=2)
    plane.pass_time(6)
    with pytest.raises(ConflictError, match="0 of 1 tasks of instance 0 are known to run"):
        await order(plane)
    await plane.move(run.id, 1, InstanceState.UNREACHABLE)
    with pytest.raises(ConflictError, match="instance 1 of flights is unreachable"):
        await order(plane)
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run.id, DesiredRunState.PAUSE)
        await uow.commit()
    with pytest.raises(ConflictError, match="requires a run in which all instances run"):
        await order(plane)


async def test_invalid_order_is_refused(plane: ControlPlane) -> None:
    await plane.pipeline(allows_drills=True)
    with pytest.raises(ConflictError, match="flights has no run"):
        await order(plane)
    with pytest.raises(NotFoundError):
        await order(plane, pipeline="nobody")
    with pytest.raises(InvalidError, match="1 to 120 s, not 500"):
        await order(plane, for_s=500)
    with pytest.raises(InvalidError, match="requires an instance"):
        await order(plane, ordinal=None)
    with pytest.raises(InvalidError, match="takes no instance"):
        await order(plane, kind=DrillKind.FREEZE_SERVER)


async def test_drills_are_listed_newest_first(plane: ControlPlane) -> None:
    await running(plane)
    first = await stop(plane, await order(plane))
    plane.pass_time(1)
    second = await order(plane, kind=DrillKind.KILL_INSTANCE)
    async with plane.uow() as uow:
        page = await drills.list_drills(uow, pipeline="flights", limit=1)
        rest = await drills.list_drills(uow, after=page.next_cursor)
    assert page.items == (second,)
    assert rest.items == (replace(first),)
