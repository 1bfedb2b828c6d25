"""The findings of double processing, from the newest snapshots of the observers."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from app.core.clusters.store import ClusterStore
from app.core.double_processing.listing import OpenOverlaps, OverlapList, listed, open_on
from app.core.observing.service.observations import Observations
from app.kit.db.unit_of_work import UnitOfWork

OPEN_FOR = timedelta(hours=24)
"""A finding is an open problem of the overview for this time."""


async def list_overlaps(
    uow: UnitOfWork, observations: Observations, *, cluster: str, group: str | None = None
) -> OverlapList:
    """Return the findings of a cluster, or of one group. Raises NotFoundError for an unknown cluster."""
    await uow.of(ClusterStore).get(cluster)
    return await asyncio.to_thread(listed, observations.of(cluster), group)


async def open_overlaps(observations: Observations, *, now: datetime) -> tuple[OpenOverlaps, ...]:
    """Return the open problems of all observed clusters; clusters without any are left out."""
    snapshots, since = observations.all(), now - OPEN_FOR
    found = await asyncio.to_thread(lambda: [open_on(snapshot, since=since) for snapshot in snapshots])
    return tuple(one for one in found if one.items)
