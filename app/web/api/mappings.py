"""Which partition is read under which transactional id and by whom."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.domain.access import Principal, Verb
from app.services import mappings
from app.web.api.documented import refusals
from app.web.api.paging import Limit
from app.web.api.schemas.runs import (
    MappingList,
    OwnershipList,
    PartitionMapping,
    PartitionOwnership,
    TransactionalIdList,
    TransactionalIdOwner,
)
from app.web.api.schemas.words import NameInPath
from app.web.dependencies import Uow, may

router = APIRouter(prefix="/pipelines/{name}", tags=["pipelines"])


@router.get("/mappings", responses=refusals(404))
async def list_mappings(name: NameInPath, uow: Uow, _: Annotated[Principal, may(Verb.VIEW)]) -> MappingList:
    """Each input partition with its transactional id, owner and offsets, by topic and partition."""
    found = await mappings.list_mappings(uow, name)
    return MappingList(items=[PartitionMapping.of(item, lag_records=item.lag_records) for item in found])


@router.get("/mappings/history", responses=refusals(404))
async def list_owner_history(
    name: NameInPath,
    uow: Uow,
    _: Annotated[Principal, may(Verb.VIEW)],
    topic: Annotated[str | None, Query(max_length=249, pattern=r"^[A-Za-z0-9._-]+$")] = None,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    limit: Limit = 100,
) -> OwnershipList:
    """Who held which partition from when to when, newest first."""
    found = await mappings.list_owner_history(uow, name, topic=topic, partition=partition, limit=limit)
    return OwnershipList(items=[PartitionOwnership.of(item) for item in found])


@router.get("/transactional-ids", responses=refusals(404))
async def list_transactional_ids(
    name: NameInPath, uow: Uow, _: Annotated[Principal, may(Verb.VIEW)]
) -> TransactionalIdList:
    """The ids that this pipeline owns on its Kafka cluster, by ordinal and task."""
    found = await mappings.list_transactional_ids(uow, name)
    return TransactionalIdList(items=[TransactionalIdOwner.of(item) for item in found])
