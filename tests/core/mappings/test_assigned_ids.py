"""Assigned ids of partitions: never replaced, of one pipeline, and removed with it."""

from __future__ import annotations

import pytest

from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import (
    AssignedId,
    IdKind,
    IdOrigin,
)
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.service.specifications import specification_for
from app.kit.access import RunTokenScope
from app.kit.errors import ConflictError
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane, task_heartbeat


async def test_assigned_id_stays_with_any_owner_and_any_other_id(plane: ControlPlane) -> None:
    run = await plane.running()
    await assign(plane, ("in", 0, "app-0_0"), ("in", 5, "app-0_5"))
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0), ("in", 1)], generation=1))
    by_partition = {one.partition: one for one in await plane.mappings()}
    assert {at: (one.transactional_id, one.assigned_id, one.origin) for at, one in by_partition.items()} == {
        0: ("fl.t.flights.0.0", "app-0_0", IdOrigin.IMPORTED),
        1: ("fl.t.flights.0.0", None, None),
        5: (None, "app-0_5", IdOrigin.IMPORTED),
    }
    async with plane.uow() as uow:
        assert await uow.of(MappingStore).unowned(["flights"]) == {}, "a partition that was never read is not missed"
        scope = RunTokenScope(run_id=run.id, ordinal=0, lease=1)
        told = await specification_for(uow, scope, run_token="t", fenceline_version="1", server_urls=())
    assert {(one.partition, one.transactional_id) for one in told.mappings} == {(0, "app-0_0"), (5, "app-0_5")}


async def test_an_assigned_id_is_never_replaced(plane: ControlPlane) -> None:
    await plane.pipeline()
    await assign(plane, ("in", 0, "app-0_0"))
    await assign(plane, ("in", 0, "app-0_0"))
    with pytest.raises(ConflictError, match="in-0 of the group flights-group has been assigned another"):
        await assign(plane, ("in", 0, "another"))


async def test_an_assigned_id_belongs_to_the_pipeline_of_its_partition(plane: ControlPlane) -> None:
    await plane.pipeline()
    await plane.pipeline("other", group_id="other")
    await assign(plane, ("in", 0, "app-0_0"))
    async with plane.uow() as uow:
        await uow.of(MappingStore).assign(
            pipeline="other",
            kafka_cluster_id=KAFKA_CLUSTER_ID,
            group="other",
            ids=[AssignedId(topic="in", partition=0, transactional_id="app-0_0")],
            origin=IdOrigin.IMPORTED,
            now=plane.now,
        )
        with pytest.raises(ConflictError, match="assigned id belongs to no pipeline, or to another one"):
            await uow.commit()


async def test_imported_ids_are_removed_with_their_assignments(plane: ControlPlane) -> None:
    run = await plane.running()
    await assign(plane, ("in", 0, "app-0_0"), ("in", 5, "app-0_5"))
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0)], generation=1))
    async with plane.uow() as uow:
        assert await uow.of(MappingStore).unassign(pipeline="flights", origin=IdOrigin.IMPORTED) == 2
        assert await uow.of(TransactionalIdStore).release(pipeline="flights", kind=IdKind.IMPORTED) == [
            "app-0_0",
            "app-0_5",
        ]
        await uow.commit()
    (mapping,) = await plane.mappings()
    assert (mapping.partition, mapping.assigned_id, mapping.owner is not None) == (0, None, True)


async def test_a_pipeline_goes_with_its_assigned_ids(plane: ControlPlane) -> None:
    await plane.pipeline()
    await assign(plane, ("in", 0, "app-0_0"))
    async with plane.uow() as uow:
        await uow.of(PipelineStore).remove("flights")
        await uow.commit()
    async with plane.uow() as uow:
        assert await uow.of(TransactionalIdStore).of_cluster(kafka_cluster_id=KAFKA_CLUSTER_ID) == []
        assert await uow.of(MappingStore).of_cluster(kafka_cluster_id=KAFKA_CLUSTER_ID) == []


async def test_a_task_never_gets_an_id_that_was_imported(plane: ControlPlane) -> None:
    await plane.pipeline()
    await assign(plane, ("in", 0, "fl.t.flights.0.0"))
    with pytest.raises(ConflictError, match=r"fl\.t\.flights\.0\.0 was imported for pipeline flights"):
        await plane.run()


async def assign(plane: ControlPlane, *ids: tuple[str, int, str]) -> None:
    """As an import does."""
    async with plane.uow() as uow:
        await uow.of(TransactionalIdStore).claim_for_partitions(
            pipeline="flights",
            kafka_cluster_id=KAFKA_CLUSTER_ID,
            ids=[name for _, _, name in ids],
            kind=IdKind.IMPORTED,
        )
        await uow.of(MappingStore).assign(
            pipeline="flights",
            kafka_cluster_id=KAFKA_CLUSTER_ID,
            group="flights-group",
            ids=[AssignedId(topic=topic, partition=number, transactional_id=name) for topic, number, name in ids],
            origin=IdOrigin.IMPORTED,
            now=plane.now,
        )
        await uow.commit()
