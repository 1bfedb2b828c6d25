"""Which partition is read under which transactional id and by whom, and a group's offsets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.domain.access import Principal, Verb
from app.services import mappings, offsets
from app.web.api.documented import refusals
from app.web.api.idempotency import OnceDep
from app.web.api.schemas.runs import (
    MappingList,
    OwnershipList,
    PartitionMapping,
    PartitionOwnership,
)
from app.web.api.schemas.words import NameInPath
from app.web.dependencies import Uow, WiringDep, may

router = APIRouter(prefix="/pipelines/{name}", tags=["pipelines"])


@router.get("/mappings", responses=refusals(404))
async def list_mappings(name: NameInPath, uow: Uow, _: Annotated[Principal, may(Verb.VIEW)]) -> MappingList:
    """Each input partition with its transactional id, owner and offsets, by topic and partition."""
    found = await mappings.list_mappings(uow, name)
    return MappingList(items=[PartitionMapping.of(item, lag_records=item.lag_records) for item in found])
