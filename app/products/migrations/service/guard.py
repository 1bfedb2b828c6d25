"""Hooks of migrations that core calls before it changes or starts a pipeline."""

from __future__ import annotations

from datetime import datetime

from app.core.runs.mode import Mode
from app.kit.db.unit_of_work import UnitOfWork
from app.products.migrations.store.migrations import MigrationStore

_NEWEST = 50


async def why_migrating(uow: UnitOfWork, pipeline: str) -> str | None:
    """Why the pipeline must not be changed: an open migration alone decides which instance begins as what."""
    migration = await uow.of(MigrationStore).find_open(pipeline)
    if migration is None:
        return None
    return (
        f"pipeline {pipeline} migrates to {migration.goal}: its migration is {migration.state} in stage "
        f"{migration.stage.words}. Let it end, or abort it"
    )


async def shut_out(uow: UnitOfWork, pipeline: str, mode: Mode) -> list[datetime]:
    """When the newest migrations of the pipeline have proven that no client of that mode is left."""
    newest = await uow.of(MigrationStore).list(pipeline=pipeline, after=None, limit=_NEWEST)
    return [at for one in newest.items if (at := one.shut_out.get(mode)) is not None]
