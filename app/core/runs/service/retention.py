"""Removal of expired rows."""

from __future__ import annotations

from datetime import datetime

from app.core.runs.store.retention import RetentionStore
from app.kit.db.unit_of_work import UnitOfWork


async def thin_samples(uow: UnitOfWork, *, now: datetime) -> int:
    """Keep one sample a minute of those older than an hour; return how many were removed. Called about each minute."""
    return await uow.of(RetentionStore).thin_samples(now=now)


async def expire(uow: UnitOfWork, *, now: datetime) -> dict[str, int]:
    """Remove used and old rows; return their number by table. Called about each minute."""
    return await uow.of(RetentionStore).expire(now=now)
