"""Removal of expired rows."""

from __future__ import annotations

from datetime import datetime

from app.core.runs.hooks import Hooks
from app.core.runs.store.retention import RetentionStore
from app.kit.db.unit_of_work import UnitOfWork


async def thin_samples(uow: UnitOfWork, *, now: datetime) -> int:
    """Keep the extremes of each minute older than an hour; return how many samples were removed. Called each minute."""
    return await uow.of(RetentionStore).thin_samples(now=now)


async def expire(uow: UnitOfWork, *, now: datetime) -> dict[str, int]:
    """Remove what is used up or old; rows by table. For a loop, every minute or so."""
    removed = await uow.of(RetentionStore).expire(now=now)
    for expire_product in uow.part(Hooks).expire:
        removed |= await expire_product(uow, now)
    return removed
