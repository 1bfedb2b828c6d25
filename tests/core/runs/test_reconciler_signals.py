"""Drains and kills by the reconciler: one signal of one server, and a line in the command log for each."""

from __future__ import annotations

import asyncio

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.runs.instance import InstanceState
from app.core.runs.loops.reconciler import Reconciler
from app.core.runs.run import DesiredRunState, RunState
from app.core.runs.service import runs
from tests.core.runs.conftest import GONE, RecordingSpark, make_reconciler, settle
from tests.support.control_plane import ANNA, ControlPlane, driver_heartbeat

S = InstanceState


async def test_a_kill_is_done_by_the_launcher_and_ends_the_run(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    run = await plane.running()
    await settle(plane, reconciler)
    async with plane.uow() as uow:
        await runs.kill_run(uow, run_id=run.id, by=ANNA, why="a test", now=plane.now)
        await uow.commit()
    await reconciler.turn()
    assert spark.killed == [0]
    spark.seen[0] = GONE
    await reconciler.turn()
    found = await plane.get_run(run.id)
    assert (found.state, found.desired) == (RunState.STOPPED, DesiredRunState.KILL)


async def test_a_driver_that_ignores_its_drain_gets_one_signal_one_kill_and_a_line_for_each(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    run = await plane.running()
    await settle(plane, reconciler)
    await plane.move(run.id, 0, S.UNREACHABLE, reason="no heartbeat arrives")
    async with plane.uow() as uow:
        await runs.drain_run(uow, run_id=run.id, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    for _ in range(260):
        await reconciler.turn()
        plane.pass_time(0.5)
    assert (spark.stopped, spark.killed) == ([0], [0])
    async with plane.uow() as uow:
        log = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=50)
    told = [command.outcome for command in log.items if command.who == "reconciler"]
    assert told == [
        f"run {run.id}: SIGKILL to the driver of instance 0, lease 1",
        f"run {run.id}: SIGTERM to the driver of instance 0, lease 1",
    ]


async def test_one_of_two_servers_that_decide_at_once_signals(plane: ControlPlane, spark: RecordingSpark) -> None:
    run = await plane.running()
    pair = [make_reconciler(plane, spark) for _ in range(2)]
    for one in pair:
        await one.turn()
    plane.pass_time(21)
    async with plane.uow() as uow:
        await runs.drain_run(uow, run_id=run.id, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    await pair[0].turn()
    await asyncio.gather(*(one.turn() for one in pair))
    assert spark.stopped == [0]


async def test_a_signal_of_an_earlier_drain_does_not_count_for_this_one(
    plane: ControlPlane, reconciler: Reconciler, spark: RecordingSpark
) -> None:
    """It got SIGTERM, became unreachable, sent heartbeats as running again, and drains once more."""
    run = await plane.running()
    await settle(plane, reconciler)
    await plane.move(run.id, 0, S.DRAINING)
    await reconciler.turn()
    assert spark.stopped == [0]
    for state in (S.UNREACHABLE, S.RUNNING):
        await plane.move(run.id, 0, state)
    plane.pass_time(300)
    await plane.drive(driver_heartbeat(run.id))
    await plane.move(run.id, 0, S.DRAINING)
    await reconciler.turn()
    assert spark.killed == []
    plane.pass_time(16)
    await plane.drive(driver_heartbeat(run.id))
    await reconciler.turn()
    assert (spark.stopped, spark.killed) == ([0, 0], [])
