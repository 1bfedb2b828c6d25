"""From group_only to v2 in one step: refused, unless somebody says so and why."""

from __future__ import annotations

import pytest

from app.domain.access import RECONCILER
from app.domain.errors import ConflictError
from app.domain.migrations.mode import DEFINED_BY, Mode
from app.domain.runs.instance import InstanceState
from app.domain.runs.run import DesiredRunState
from app.services.running.run_endings import begin_run
from tests.support.control_plane import ControlPlane

A, B, C = Mode


def fields_of(mode: Mode) -> dict[str, object]:
    guarantee, fencing = DEFINED_BY[mode]
    return {"processing_guarantee": guarantee, "offset_fencing": fencing}


async def ended_run(plane: ControlPlane, mode: Mode) -> None:
    """A run of the pipeline in this mode, which was killed."""
    run = await plane.running("flights", **fields_of(mode))
    async with plane.uow() as uow:
        await uow.runs.set_desired(run.id, DesiredRunState.KILL)
        await uow.commit()
    await plane.move(run.id, 0, InstanceState.STOPPED, reason="killed")


async def start(plane: ControlPlane, *, switch_at_once: bool = False) -> None:
    async with plane.uow() as uow:
        record = await uow.pipelines.get("flights", for_update=True)
        await begin_run(uow, record, started_by=RECONCILER.name, now=plane.now, switch_at_once=switch_at_once)
        await uow.commit()


@pytest.mark.parametrize(("before", "after"), [(A, C), (C, A)])
async def test_a_stage_is_not_skipped_unless_it_is_asked_for(plane: ControlPlane, before: Mode, after: Mode) -> None:
    await ended_run(plane, before)
    await plane.revise("flights", **fields_of(after))
    with pytest.raises(ConflictError, match=f"cannot go from {before} to {after} in one step"):
        await start(plane)
    await start(plane, switch_at_once=True)


@pytest.mark.parametrize(("before", "after"), [(A, B), (B, C), (C, B), (B, A), (A, A), (C, C)])
async def test_neighbours_follow_each_other(plane: ControlPlane, before: Mode, after: Mode) -> None:
    await ended_run(plane, before)
    if before is not after:
        await plane.revise("flights", **fields_of(after))
    await start(plane)
