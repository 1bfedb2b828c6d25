"""The partitions that a task names in its heartbeats: taken, released, and assigned their ids."""

from __future__ import annotations

import logging
from datetime import datetime

from app.core.clusters.partition import Partition
from app.core.mappings.mapping import AssignedId, PartitionMapping, PartitionOwner
from app.core.mappings.store.mappings import MappingStore
from app.core.runs.lease_context import LeaseContext
from app.core.runs.service.run_endings import assign_partition_ids
from app.core.runs.task import TaskReport, TaskStatus
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError

log = logging.getLogger(__name__)
RETAKE_EVERY = 10
"""Ownership is written when it changes; once in this many heartbeats a refused take is tried again."""


def _owned(report: TaskReport) -> frozenset[Partition]:
    return frozenset(Partition(progress.topic, progress.partition) for progress in report.partitions)


def _ownership(report: TaskReport) -> tuple[object, ...]:
    producers = frozenset(
        (one.topic, one.partition, one.transactional_id, one.producer_id, one.producer_epoch)
        for one in report.partitions
    )
    return (producers, report.generation, report.producer_id, report.producer_epoch)


def ownership_changed(own: TaskStatus | None, report: TaskReport) -> bool:
    return own is None or _ownership(own.last) != _ownership(report)


async def is_retake_due(uow: UnitOfWork, report: TaskReport) -> bool:
    """Return whether a partition is to be taken again, read without a lock: takes of one run wait for each other.

    If partitions have their own ids, all are taken without this check, since ids may have been refused too.
    """
    if report.sequence % RETAKE_EVERY:
        return False
    if any(one.transactional_id is not None for one in report.partitions):
        return True
    return await uow.of(MappingStore).held_by(report) != _owned(report)


async def follow_ownership(
    uow: UnitOfWork, context: LeaseContext, report: TaskReport, *, now: datetime, heard: datetime | None
) -> None:
    """Release partitions that the task no longer names, then take the others, in order, so that tasks do not
    deadlock.
    """
    partitions = sorted(report.partitions, key=lambda one: (one.topic, one.partition))
    await uow.of(MappingStore).release(owner_of=report, keep=sorted(_owned(report)), now=now, heard=heard)
    await _follow_ids(uow, context, report, now=now)
    owner = PartitionOwner(
        run_id=report.run_id,
        ordinal=report.ordinal,
        lease=report.lease,
        task=report.task,
        attempt=report.attempt,
        host=report.host,
    )
    await uow.of(MappingStore).take(
        [
            PartitionMapping(
                pipeline=context.pipeline,
                kafka_cluster_id=context.kafka_cluster_id,
                group=context.group,
                topic=one.topic,
                partition=one.partition,
                transactional_id=one.transactional_id or report.transactional_id,
                owner=owner,
                generation=report.generation,
                producer_id=report.producer_id if one.transactional_id is None else one.producer_id,
                epoch=report.producer_epoch if one.transactional_id is None else one.producer_epoch,
                since=now,
            )
            for one in partitions
        ],
        heard=heard,
    )


async def _follow_ids(uow: UnitOfWork, context: LeaseContext, report: TaskReport, *, now: datetime) -> None:
    """Assign ids by the formula, which the task knows, to partitions that were added after the lease."""
    ids = [
        AssignedId(topic=one.topic, partition=one.partition, transactional_id=one.transactional_id)
        for one in report.partitions
        if one.transactional_id is not None
    ]
    if not ids:
        return
    try:
        await assign_partition_ids(
            uow,
            pipeline=context.pipeline,
            kafka_cluster_id=context.kafka_cluster_id,
            group=context.group,
            ids=ids,
            now=now,
        )
    except ConflictError as error:
        # The task continues and its report is kept; a user decides the owner of the id.
        log.warning("instance %d of run %s: %s", report.ordinal, report.run_id, error.message)
