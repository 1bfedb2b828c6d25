"""The ids of input partitions (exactly_once): assigned at the start, reported by tasks, never changed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import AssignedId, IdKind, IdOrigin
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.runs.service.specifications import specification_for
from app.core.runs.task import PartitionProgress
from app.kit.access import RunTokenScope
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane, task_heartbeat

V1: dict[str, Any] = {"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE}


def of_producer(partition: int, transactional_id: str | None = None) -> PartitionProgress:
    return PartitionProgress(
        topic="in",
        partition=partition,
        transactional_id=transactional_id or f"fl.p.flights-group.in.{partition}",
        producer_id=4000 + partition,
        producer_epoch=partition,
        offsets_generation=3,
    )


async def test_partitions_of_exactly_once_have_an_id_and_a_producer_each(plane: ControlPlane) -> None:
    run = await plane.running(**V1)
    beat = replace(task_heartbeat(run.id, generation=3), transactional_id=None)
    await plane.beat(replace(beat, partitions=(of_producer(0), of_producer(1))))
    assert [(m.transactional_id, m.assigned_id, m.producer_id, m.epoch) for m in await plane.mappings()] == [
        ("fl.p.flights-group.in.0", "fl.p.flights-group.in.0", 4000, 0),
        ("fl.p.flights-group.in.1", "fl.p.flights-group.in.1", 4001, 1),
    ]
    async with plane.uow() as uow:
        owners = await uow.of(TransactionalIdStore).of_pipeline("flights")
    assert [(one.transactional_id, one.kind) for one in owners] == [
        ("fl.p.flights-group.in.0", IdKind.PARTITION),
        ("fl.p.flights-group.in.1", IdKind.PARTITION),
    ]


async def test_a_partition_that_was_added_is_in_the_next_specification(plane: ControlPlane) -> None:
    run = await plane.running(**V1)
    await plane.beat(replace(task_heartbeat(run.id), transactional_id=None, partitions=(of_producer(2),)))
    async with plane.uow() as uow:
        specification = await specification_for(
            uow,
            RunTokenScope(run_id=run.id, ordinal=0, lease=1),
            run_token="t",
            fenceline_version="0",
            server_urls=(),
        )
    assert [(one.partition, one.transactional_id) for one in specification.mappings] == [(2, "fl.p.flights-group.in.2")]
    assert {task.transactional_id for task in specification.tasks} == {None}


async def test_known_id_is_not_changed_by_a_tasks_report(plane: ControlPlane) -> None:
    run = await plane.running(**V1)
    async with plane.uow() as uow:
        await uow.of(TransactionalIdStore).claim_for_partitions(
            pipeline="flights", kafka_cluster_id=KAFKA_CLUSTER_ID, ids=["app-0_0"], kind=IdKind.IMPORTED
        )
        await uow.of(MappingStore).assign(
            pipeline="flights",
            kafka_cluster_id=KAFKA_CLUSTER_ID,
            group="flights-group",
            ids=[AssignedId(topic="in", partition=0, transactional_id="app-0_0")],
            origin=IdOrigin.IMPORTED,
            now=plane.now,
        )
        await uow.commit()
    await plane.beat(replace(task_heartbeat(run.id), transactional_id=None, partitions=(of_producer(0),)))
    (mapping,) = await plane.mappings()
    assert (mapping.assigned_id, mapping.transactional_id) == ("app-0_0", "fl.p.flights-group.in.0")


async def test_id_of_another_pipeline_does_not_reject_the_tasks_reports(plane: ControlPlane) -> None:
    run = await plane.running(**V1)
    await plane.pipeline("others")
    async with plane.uow() as uow:
        await uow.of(TransactionalIdStore).claim_for_partitions(
            pipeline="others",
            kafka_cluster_id=KAFKA_CLUSTER_ID,
            ids=["fl.p.flights-group.in.0"],
            kind=IdKind.PARTITION,
        )
        await uow.commit()
    answer = await plane.beat(replace(task_heartbeat(run.id), transactional_id=None, partitions=(of_producer(0),)))
    assert answer.is_current
    (mapping,) = await plane.mappings()
    assert (mapping.assigned_id, mapping.transactional_id) == (None, None), "what others own is not told of here"
    assert mapping.owner is not None
