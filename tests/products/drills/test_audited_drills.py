"""A drill with its audit, which ends with it and blocks other drills only until it reads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.runs.store.runs import RunStore
from app.kit.access import AUDITOR
from app.kit.errors import ConflictError
from app.products.audits.audit import Audit, AuditState
from app.products.audits.service import planning
from app.products.audits.service.carrying_out import begin_submission
from app.products.audits.specification import JsonField
from app.products.audits.store import AuditStore
from app.products.drills.drill import Drill, DrillState, DrillVerdict
from app.products.drills.service.drills import audit_word, blocking
from app.products.drills.store import DrillStore
from tests.products.drills.test_service import get, order, running, stop
from tests.support.control_plane import ControlPlane, task_heartbeat


async def recovered(plane: ControlPlane) -> Drill:
    """Return a drill of flights that waits for its audit; trains and flights run."""
    for name in ("flights", "trains"):
        run = await running(plane, name=name)
        async with plane.uow() as uow:
            await planning.change_plan(
                uow,
                pipeline=name,
                id_place=JsonField(path="id"),
                source_id_place=None,
                padding_s=60,
                every_s=None,
                tolerance_s=600,
                by=AUDITOR,
                why=None,
                now=plane.now,
            )
            await uow.commit()
    drill = await order(plane)
    plane.pass_time(30)
    for name in ("flights", "trains"):
        async with plane.uow() as uow:
            run = await uow.of(RunStore).find_live(name)
        assert run is not None
        await plane.beat(task_heartbeat(run.id, sequence=2))
    drill = replace(drill, state=DrillState.AUDITING, begun_at=drill.ordered_at, recovered_at=plane.now)
    await save(plane, drill)
    return drill


async def save(plane: ControlPlane, drill: Drill) -> None:
    async with plane.uow() as uow:
        await uow.of(DrillStore).save(drill)
        await uow.commit()


async def with_audit(plane: ControlPlane) -> Drill:
    drill = await recovered(plane)
    async with plane.uow() as uow:
        word = await audit_word(uow, drill, now=plane.now)
        drill = replace(drill, audit_id=word.audit_id)
        await uow.of(DrillStore).save(drill)
        await uow.commit()
    assert drill.audit_id is not None
    return drill


async def audit_of(plane: ControlPlane, drill: Drill) -> Audit:
    async with plane.uow() as uow:
        return await uow.of(AuditStore).get(drill.audit_id or "")


async def submit(plane: ControlPlane, drill: Drill) -> None:
    async with plane.uow() as uow:
        await begin_submission(
            uow, drill.audit_id or "", host="h", cores=1, fenceline_version="1", server_urls=(), now=plane.now
        )
        await uow.commit()


async def test_stop_of_a_drill_stops_its_audit(plane: ControlPlane) -> None:
    drill = await with_audit(plane)
    stopped = await stop(plane, drill)
    assert (stopped.state, stopped.verdict) == (DrillState.ENDED, DrillVerdict.STOPPED)
    audit = await audit_of(plane, drill)
    assert audit.state is AuditState.STOPPED
    assert audit.reason == f"stopped by otto: drill {drill.id} was stopped"


async def test_stop_of_a_drill_stops_its_running_audit(plane: ControlPlane) -> None:
    drill = await with_audit(plane)
    await submit(plane, drill)
    await stop(plane, drill)
    assert (await audit_of(plane, drill)).state is AuditState.STOPPING


async def test_audit_is_started_in_the_transaction_of_its_drill(plane: ControlPlane) -> None:
    drill = await recovered(plane)
    async with plane.uow() as uow:
        assert (await audit_word(uow, drill, now=plane.now)).audit_id is not None
    async with plane.uow() as uow:
        assert await uow.of(AuditStore).find_living("flights") is None, "the server ended before its commit"


async def test_waiting_audit_blocks_drills_of_its_pipeline_only(plane: ControlPlane) -> None:
    drill = await with_audit(plane)
    with pytest.raises(ConflictError, match=f"is auditing.*{drill.id}"):
        await order(plane)
    other = await stop(plane, await order(plane, pipeline="trains"))
    assert other.verdict is DrillVerdict.STOPPED
    await submit(plane, drill)
    second = await order(plane)
    assert (await get(plane, drill)).state is DrillState.AUDITING
    async with plane.uow() as uow:
        assert [one.id for one in await uow.of(DrillStore).list_open()] == [drill.id, second.id]
        assert await blocking(uow, "trains") == second


async def test_instance_receives_only_its_new_order_during_an_audit(plane: ControlPlane) -> None:
    drill = await with_audit(plane)
    await submit(plane, drill)
    second = await order(plane)
    answer = await plane.beat(task_heartbeat(drill.run_id, sequence=3))
    assert answer.drill is not None
    assert answer.drill.drill_id == second.id
