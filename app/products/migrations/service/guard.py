"""Refuse changes to a pipeline during its migration."""

from __future__ import annotations

from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError
from app.products.migrations.store.migrations import MigrationStore


async def refuse_while_migrating(uow: UnitOfWork, pipeline: str) -> None:
    """Raise ConflictError while a migration of the pipeline is open: it alone decides the mode of each instance."""
    migration = await uow.of(MigrationStore).find_open(pipeline)
    if migration is not None:
        raise ConflictError(
            f"pipeline {pipeline} migrates to {migration.goal}: its migration is {migration.state} in stage "
            f"{migration.stage.words}. Wait for its end, or abort it"
        )
