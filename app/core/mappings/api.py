"""The owner and the transactional id of each partition, now and at any time of the last 30 days."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from msgspec.structs import replace

from app.core.access.signed_in import Viewer
from app.core.mappings import service as mappings
from app.core.mappings.mapping import OwnershipFilter, PartitionMapping, PartitionOwnership, TransactionalIdOwner
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NO_NUL, Moment, NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(tags=["mappings"])


async def _wanted(
    topic: Annotated[str | None, Query(max_length=249, pattern=r"^[A-Za-z0-9._-]+$")] = None,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    at: Annotated[Moment | None, Query(description="Owned at this time.")] = None,
    since: Annotated[Moment | None, Query(description="Owned then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Owned before.")] = None,
) -> OwnershipFilter:
    return OwnershipFilter(topic=topic, partition=partition, at=at, since=since, until=until)


Wanted = Annotated[OwnershipFilter, Depends(_wanted)]


@router.get("/pipelines/{name}/mappings", responses=refusals(404))
async def list_mappings(name: NameInPath, uow: Uow, _: Viewer) -> Shown[Items[PartitionMapping]]:
    """List each input partition with its transactional id, owner and offsets, by topic and partition."""
    found = await mappings.list_mappings(uow, name)
    return Items(found)


@router.get("/pipelines/{name}/mappings/history", responses=refusals(404))
async def list_owner_history(
    name: NameInPath,
    wanted: Wanted,
    uow: Uow,
    _: Viewer,
    after: After = None,
    limit: Limit = 100,
) -> Shown[Page[PartitionOwnership]]:
    """List the owners of partitions over time with their producers, newest first; 30 days are kept."""
    return await mappings.list_owner_history(uow, name, wanted, after=after, limit=limit)


@router.get("/pipelines/{name}/transactional-ids", responses=refusals(404))
async def list_transactional_ids(name: NameInPath, uow: Uow, _: Viewer) -> Shown[Items[TransactionalIdOwner]]:
    """List the ids that this pipeline owns on its Kafka cluster, by ordinal and task; those of no task last."""
    found = await mappings.list_transactional_ids(uow, name)
    return Items(found)


@router.get("/clusters/{name}/mappings", responses=refusals(404))
async def list_mappings_of_cluster(name: NameInPath, uow: Uow, _: Viewer) -> Shown[Items[PartitionMapping]]:
    """List every partition that a pipeline reads on the cluster, by group, topic and partition; without offsets."""
    found = await mappings.list_mappings_of_cluster(uow, name)
    return Items(found)


@router.get("/clusters/{name}/mappings/history", responses=refusals(404))
async def list_owner_history_of_cluster(
    name: NameInPath,
    wanted: Wanted,
    uow: Uow,
    _: Viewer,
    group: Annotated[str | None, Query(max_length=32_767, pattern=NO_NUL)] = None,
    transactional_id: Annotated[str | None, Query(max_length=32_767, pattern=NO_NUL)] = None,
    after: After = None,
    limit: Limit = 100,
) -> Shown[Page[PartitionOwnership]]:
    """List the owners of partitions on the cluster over time, of all pipelines, newest first; 30 days are kept."""
    return await mappings.list_owner_history_of_cluster(
        uow,
        name,
        replace(wanted, group=group, transactional_id=transactional_id),
        after=after,
        limit=limit,
    )
