"""Groups of pipelines that a user has paused or stopped: their lag is intended."""

from __future__ import annotations

import pytest

from app.core.runs.run import DesiredRunState, RestingGroup, RunEnd
from app.core.runs.store.runs import RunStore
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane


async def resting(plane: ControlPlane) -> list[RestingGroup]:
    async with plane.uow() as uow:
        return await uow.of(RunStore).resting_groups()


async def desire(plane: ControlPlane, run_id: str, desired: DesiredRunState, *, starts_again: bool = False) -> None:
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run_id, desired, starts_again=starts_again)
        await uow.commit()


async def end(plane: ControlPlane, run_id: str, how: RunEnd) -> None:
    async with plane.uow() as uow:
        await uow.of(RunStore).end(run_id, end=how, reason=None, now=plane.now)
        await uow.commit()


@pytest.mark.parametrize("desired", [DesiredRunState.PAUSE, DesiredRunState.DRAIN, DesiredRunState.KILL])
async def test_paused_or_draining_pipeline_rests(plane: ControlPlane, desired: DesiredRunState) -> None:
    run = await plane.running()
    assert await resting(plane) == []
    await desire(plane, run.id, desired)
    (found,) = await resting(plane)
    assert (found.kafka_cluster_id, found.pipeline, found.is_over) == (KAFKA_CLUSTER_ID, "flights", False)


async def test_stopped_pipeline_rests_and_a_failed_one_does_not(plane: ControlPlane) -> None:
    run = await plane.running()
    await end(plane, run.id, RunEnd.FAILED)
    assert await resting(plane) == []
    plane.pass_time(1)
    run = await plane.run()
    await end(plane, run.id, RunEnd.STOPPED)
    (found,) = await resting(plane)
    assert found.is_over


async def test_restart_is_no_rest_and_the_newest_run_counts(plane: ControlPlane) -> None:
    run = await plane.running()
    await desire(plane, run.id, DesiredRunState.DRAIN, starts_again=True)
    assert await resting(plane) == []
    await end(plane, run.id, RunEnd.STOPPED)
    plane.pass_time(1)
    await plane.run()
    assert await resting(plane) == []
