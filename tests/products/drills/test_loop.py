"""The loop of drills: it freezes the server once, observes, and requests the audit."""

from __future__ import annotations

import os

from msgspec.structs import replace

from app.core.asked_audits import AskedAudits
from app.core.audit_figures import AuditFigures, AuditWord
from app.core.observing.service.observations import Observations
from app.core.runs.task import PartitionProgress
from app.kit.db.unit_of_work import UnitOfWork
from app.products.drills.drill import Drill, DrillKind, DrillState, DrillVerdict, TargetState
from app.products.drills.loop import DrillWatch
from app.products.drills.service import drills
from tests.products.drills.test_service import order, running, stop
from tests.support.control_plane import ControlPlane, PlaneClock, task_heartbeat

CLEAN = AuditFigures(audit_id="a1", read=9, expected=7, lost=0, duplicated=0)


class Audits:
    """An audit that is complete at the second request."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    async def ask(self, uow: UnitOfWork, **asked: object) -> AuditWord:
        del uow, asked
        self.asked.append(None)
        return AuditWord(audit_id="a1")

    async def word(self, uow: UnitOfWork, audit_id: str) -> AuditWord:
        del uow
        self.asked.append(audit_id)
        return AuditWord(audit_id=audit_id, figures=CLEAN)

    async def stop(self, uow: UnitOfWork, audit_id: str, **asked: object) -> None:
        raise AssertionError(f"the watch does not stop {audit_id}")

    async def is_waiting(self, uow: UnitOfWork, audit_id: str) -> bool:
        raise AssertionError(f"the watch does not ask for {audit_id}")


class Server:
    """A server whose freeze advances the clock."""

    def __init__(self, plane: ControlPlane, problem: str = "") -> None:
        self._plane = plane
        self._problem = problem
        self.frozen_for: list[float] = []
        self.audits = Audits()
        self.watch = DrillWatch(
            unit_of_work=lambda: UnitOfWork(plane.database.engine, {AskedAudits: self.audits}),
            observations=Observations(is_on=False),
            freeze_self=self._freeze,
            clock=PlaneClock(plane),
            host="s1",
        )

    async def _freeze(self, for_s: float) -> str:
        self.frozen_for.append(for_s)
        if not self._problem:
            self._plane.pass_time(for_s)
        return self._problem


async def get(plane: ControlPlane, drill: Drill) -> Drill:
    async with plane.uow() as uow:
        return await drills.get_drill(uow, drill.id)


async def turns(plane: ControlPlane, server: Server, run_id: str, *, count: int, sequence: int) -> None:
    """Take turns of half a second, with a commit of the pipeline's task in each."""
    for number in range(count):
        plane.pass_time(0.5)
        at = 100 * (sequence + number)
        progress = PartitionProgress(topic="in", partition=0, position=at, committed=at, end=at)
        await plane.beat(replace(task_heartbeat(run_id, sequence=sequence + number), partitions=(progress,)))
        await server.watch.turn()


async def test_server_is_frozen_once_and_the_drill_is_judged(plane: ControlPlane) -> None:
    run = await running(plane)
    server = Server(plane)
    drill = await order(plane, kind=DrillKind.FREEZE_SERVER, ordinal=None, for_s=10)
    await turns(plane, server, run.id, count=5, sequence=2)
    assert server.frozen_for == [], "the user sees the page first"
    await turns(plane, server, run.id, count=3, sequence=10)
    assert server.frozen_for == [10]
    seen = await get(plane, drill)
    assert [(one.host, one.pid, one.state) for one in seen.targets] == [("s1", os.getpid(), TargetState.THAWED)]
    await turns(plane, server, run.id, count=12, sequence=20)
    assert server.frozen_for == [10]
    ended = await get(plane, drill)
    assert (ended.state, ended.verdict) == (DrillState.ENDED, DrillVerdict.SURVIVED), ended.entries
    assert server.audits.asked == [None, "a1"]


async def test_server_that_cannot_be_frozen_gives_the_reason(plane: ControlPlane) -> None:
    run = await running(plane)
    server = Server(plane, problem="no pidfd here")
    drill = await order(plane, kind=DrillKind.FREEZE_SERVER, ordinal=None)
    await turns(plane, server, run.id, count=8, sequence=2)
    ended = await get(plane, drill)
    assert (ended.verdict, ended.sentence) == (DrillVerdict.NOT_BEGUN, "no process was drilled: no pidfd here")


async def test_stopped_drill_does_not_freeze_the_server(plane: ControlPlane) -> None:
    run = await running(plane)
    server = Server(plane)
    await stop(plane, await order(plane, kind=DrillKind.FREEZE_SERVER, ordinal=None))
    await turns(plane, server, run.id, count=8, sequence=2)
    assert server.frozen_for == []


async def test_unclaimed_order_expires(plane: ControlPlane) -> None:
    run = await running(plane)
    server = Server(plane)
    drill = await order(plane)
    plane.pass_time(15.5)
    await turns(plane, server, run.id, count=1, sequence=2)
    assert (await get(plane, drill)).verdict is DrillVerdict.NOT_BEGUN
