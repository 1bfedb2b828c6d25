"""The other rows that a migration changes: locked in one order, with a notification to the pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from app.core.pipelines.pipeline import sha256_of
from app.core.pipelines.pipeline_record import Revision
from app.core.pipelines.revision import definition_sha256
from app.core.pipelines.store import PipelineStore
from app.core.runs.mode import Mode, in_mode, mode_of
from app.core.runs.service.run_endings import claim_transactional_ids
from app.core.runs.service.run_locks import lock_run
from app.core.runs.store.runs import RunStore
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.products.migrations.migration import Migration
from app.products.migrations.store.migrations import MigrationStore

NOTICE = "migration"


async def lock(uow: UnitOfWork, migration_id: str) -> Migration:
    """Lock the pipeline's row, its run's, then the migration's, as everywhere. Raises NotFoundError."""
    seen = await uow.of(MigrationStore).get(migration_id)
    await lock_run(uow, seen.run_id)
    return await uow.of(MigrationStore).get(migration_id, for_update=True)


async def revision_in(uow: UnitOfWork, migration: Migration, mode: Mode, *, by: Principal, now: datetime) -> int:
    """Return the pipeline's revision in this mode, made current if needed; a restart begins with it.

    Only the stage that leads to the mode makes it, so that a restarted run never skips a stage.
    Raises ConflictError when another pipeline owns one of its ids.
    """
    record = await uow.of(PipelineStore).get(migration.pipeline, for_update=True)
    if mode_of(record.definition) is mode:
        return record.current_revision
    definition = in_mode(record.definition, mode)
    run = await uow.of(RunStore).get(migration.run_id)
    await claim_transactional_ids(
        uow, pipeline=migration.pipeline, kafka_cluster_id=run.kafka_cluster_id, definition=definition
    )
    revision = Revision(
        pipeline=migration.pipeline,
        number=record.current_revision + 1,
        definition=definition,
        definition_sha256=definition_sha256(definition),
        transform_source_sha256=sha256_of(definition.transform),
        created_at=now,
        created_by=by.name,
        note=f"made by migration {migration.id}",
    )
    await uow.of(PipelineStore).add_revision(revision)
    return revision.number


async def set_targets(uow: UnitOfWork, migration: Migration, modes: Mapping[int, Mode]) -> None:
    """Set the revision of each instance's next lease: the running or created revision of its mode.

    Before such a revision exists, no target is set, and an instance between two leases keeps its mode.
    """
    run = await uow.of(RunStore).get(migration.run_id)
    by_ordinal = {one.ordinal: one for one in run.instances}
    targets: dict[int, int] = {}
    for ordinal, mode in modes.items():
        instance = by_ordinal[ordinal]
        running = await uow.of(PipelineStore).get_revision(migration.pipeline, instance.revision)
        if mode_of(running.definition) is mode:
            targets[ordinal] = instance.revision
        elif mode in migration.revisions:
            targets[ordinal] = migration.revisions[mode]
    await uow.of(RunStore).set_targets(run.id, {**run.targets, **targets})


async def gather_targets(uow: UnitOfWork, migration: Migration) -> None:
    """If all instances have the same target, make it the run's revision, and drop the targets."""
    run = await uow.of(RunStore).get(migration.run_id)
    wanted = {run.target_of(one.ordinal) for one in run.instances}
    if len(wanted) == 1:
        await uow.of(RunStore).set_target(run.id, revision=wanted.pop(), bounce_requested_at=run.bounce_requested_at)
        await uow.of(RunStore).set_targets(run.id, {})


def notify(uow: UnitOfWork, migration: Migration) -> None:
    uow.notify(NOTICE, migration.id)
    uow.notify("run", migration.run_id)
    uow.notify("pipeline", migration.pipeline)
