"""Archive the ids that a stage has retired, in the mapping store."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import AssignedId
from app.core.runs.mode import Mode
from app.core.runs.service.run_endings import assign_partition_ids
from app.core.runs.store.runs import RunStore
from app.kit.db.unit_of_work import UnitOfWork
from app.products.migrations.evidence import partition_ids, task_ids
from app.products.migrations.look import MigrationLook
from app.products.migrations.migration import Migration


async def archived(uow: UnitOfWork, migration: Migration, look: MigrationLook, *, now: datetime) -> Migration:
    """Archive the ids that the stage retired: forward those of partitions, on a rollback those of tasks.

    They stay the pipeline's. A start in the mode that uses them takes them out of the archive
    (`claim_transactional_ids`). Raises ConflictError when another pipeline owns one of them.
    """
    run = await uow.of(RunStore).get(migration.run_id)
    forward = migration.goal is Mode.V2
    if forward:
        # A partition that was added during the run has its id from the formula.
        await assign_partition_ids(
            uow,
            pipeline=migration.pipeline,
            kafka_cluster_id=run.kafka_cluster_id,
            group=migration.group,
            ids=[_assigned(partition, name) for partition, name in sorted(look.partitions.items())],
            now=now,
        )
    await uow.of(TransactionalIdStore).archive(
        pipeline=migration.pipeline,
        kafka_cluster_id=run.kafka_cluster_id,
        ids=partition_ids(migration, look) if forward else task_ids(migration, look),
        migration=migration.id,
        now=now,
    )
    return replace(migration, archived=dict(look.partitions)) if forward else migration


def _assigned(partition: str, name: str) -> AssignedId:
    topic, _, number = partition.rpartition("-")
    return AssignedId(topic=topic, partition=int(number), transactional_id=name)
