"""From group_only to v2 in one step: refused without a reason."""

from __future__ import annotations

import uuid

import pytest

from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import InstanceState
from app.core.runs.mode import DEFINED_BY, Mode
from app.core.runs.run import DesiredRunState
from app.core.runs.service.run_endings import begin_run
from app.core.runs.service.runs import roll_run
from app.core.runs.store.runs import RunStore
from app.edges.kafka.admin import KafkaBrokers
from app.kit.access import RECONCILER
from app.kit.errors import ConflictError
from app.products.migrations.migration import Migration, MigrationState, Stage
from app.products.migrations.store.migrations import MigrationStore
from tests.support.control_plane import ANNA, ControlPlane

BROKERS = KafkaBrokers(environment={}, secrets_dir=None)

A, B, C = Mode


def fields_of(mode: Mode) -> dict[str, object]:
    guarantee, fencing = DEFINED_BY[mode]
    return {"processing_guarantee": guarantee, "offset_fencing": fencing}


async def ended_run(plane: ControlPlane, mode: Mode) -> None:
    """A run of the pipeline in this mode, which was killed."""
    run = await plane.running("flights", **fields_of(mode))
    await end(plane, run.id)


async def end(plane: ControlPlane, run_id: str) -> None:
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run_id, DesiredRunState.KILL)
        await uow.commit()
    await plane.move(run_id, 0, InstanceState.STOPPED, reason="killed")


async def start(plane: ControlPlane, *, switch_at_once: bool = False) -> str:
    plane.pass_time(1)
    async with plane.uow() as uow:
        record = await uow.of(PipelineStore).get("flights", for_update=True)
        run = await begin_run(uow, record, started_by=RECONCILER.name, now=plane.now, switch_at_once=switch_at_once)
        await uow.commit()
    return run.id


@pytest.mark.parametrize(("before", "after"), [(A, C), (C, A)])
async def test_a_stage_is_not_skipped_unless_it_is_asked_for(plane: ControlPlane, before: Mode, after: Mode) -> None:
    await ended_run(plane, before)
    await plane.revise("flights", **fields_of(after))
    with pytest.raises(ConflictError, match=f"cannot go from {before} to {after} by a restart"):
        await start(plane)
    await start(plane, switch_at_once=True)


@pytest.mark.parametrize(("before", "after"), [(A, B), (B, C), (C, B), (B, A), (A, A), (C, C)])
async def test_neighbours_follow_each_other(plane: ControlPlane, before: Mode, after: Mode) -> None:
    await ended_run(plane, before)
    if before is not after:
        await plane.revise("flights", **fields_of(after))
    await start(plane)


@pytest.mark.parametrize(("before", "after"), [(A, C), (C, A)])
async def test_two_plain_restarts_are_no_way_round_it(plane: ControlPlane, before: Mode, after: Mode) -> None:
    """One run in the middle proves nothing about a producer of before that sleeps."""
    await ended_run(plane, before)
    await plane.revise("flights", **fields_of(B))
    await end(plane, await start(plane))
    await plane.revise("flights", **fields_of(after))
    with pytest.raises(ConflictError, match=f"cannot go from {before} to {after} by a restart"):
        await start(plane)
    await end(plane, await start(plane, switch_at_once=True))
    # Once it was switched, the same again is no switch.
    await end(plane, await start(plane))


async def test_mode_that_a_migration_has_proven_may_be_restarted(plane: ControlPlane) -> None:
    """As a migration that was aborted in its second bounce leaves it: no task commits as group_only any more."""
    await ended_run(plane, A)
    await plane.revise("flights", **fields_of(B))
    run_id = await start(plane)
    plane.pass_time(10)
    await migrated(plane, run_id, shut_out=A)
    await end(plane, run_id)
    await plane.revise("flights", **fields_of(C))
    await start(plane)


async def test_proof_before_another_run_in_that_mode_does_not_count(plane: ControlPlane) -> None:
    await ended_run(plane, B)
    run_id = await start(plane)
    await migrated(plane, run_id, shut_out=A)
    await end(plane, run_id)
    plane.pass_time(10)
    await plane.revise("flights", **fields_of(A))
    await end(plane, await start(plane))
    await plane.revise("flights", **fields_of(C))
    with pytest.raises(ConflictError, match="cannot go from group_only to v2"):
        await start(plane)


async def test_instances_that_an_aborted_migration_left_elsewhere_are_not_rolled_past_a_stage(
    plane: ControlPlane,
) -> None:
    """The run is still group_only by its own revision; instance 0 is v2 by a target of its own."""
    run = await plane.running("flights", **fields_of(A))
    await plane.revise("flights", **fields_of(C))
    async with plane.uow() as uow:
        await uow.of(RunStore).set_targets(run.id, {0: 2})
        await uow.commit()
    await plane.revise("flights", **fields_of(A))
    async with plane.uow() as uow:
        with pytest.raises(ConflictError, match="processing_guarantee"):
            await roll_run(uow, BROKERS, run_id=run.id, by=ANNA, why=None, now=plane.now)


async def test_a_roll_leaves_no_instance_a_target_of_its_own(plane: ControlPlane) -> None:
    run = await plane.running("flights", **fields_of(A))
    await plane.revise("flights", commit_interval_ms=200)
    async with plane.uow() as uow:
        await uow.of(RunStore).set_targets(run.id, {0: 1})
        await uow.commit()
    async with plane.uow() as uow:
        await roll_run(uow, BROKERS, run_id=run.id, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    after = await plane.get_run(run.id)
    assert (after.revision, after.targets) == (2, {})


async def migrated(plane: ControlPlane, run_id: str, *, shut_out: Mode) -> None:
    migration = Migration(
        id=str(uuid.uuid4()),
        pipeline="flights",
        run_id=run_id,
        cluster="test",
        group="flights-group",
        goal=C,
        stage=Stage.SECOND_BOUNCE,
        state=MigrationState.ABORTED,
        stage_since=plane.now,
        state_since=plane.now,
        started_at=plane.now,
        ended_at=plane.now,
        started_by="otto",
        shut_out={shut_out: plane.now},
    )
    async with plane.uow() as uow:
        await uow.of(MigrationStore).add(migration)
        await uow.commit()
