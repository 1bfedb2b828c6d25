"""Tasks: the last report of each, and their events."""

from __future__ import annotations

from datetime import datetime

from app.core.runs.bad_records import BadRecordSummary
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskEventRecord, TaskStatus
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.page import Page, checked_limit


async def list_tasks(uow: UnitOfWork, run_id: str) -> list[TaskStatus]:
    """List them by ordinal and task. Raises NotFoundError if there is no such run."""
    await uow.of(RunStore).get(run_id)
    return await uow.of(TaskStore).list_statuses([run_id])


async def get_bad_records(uow: UnitOfWork, run_id: str, *, now: datetime) -> BadRecordSummary:
    """Return the run's bad records by cause. Raises NotFoundError if there is no such run."""
    await uow.of(RunStore).get(run_id)
    return await uow.of(TaskStore).bad_records(run_id, now=now)


async def list_events(
    uow: UnitOfWork, run_id: str, *, after: str | None = None, limit: int = 50
) -> Page[TaskEventRecord]:
    """List them newest first. Raises NotFoundError if there is no such run."""
    await uow.of(RunStore).get(run_id)
    return await uow.of(TaskStore).list_events(run_id, after=after, limit=checked_limit(limit))
