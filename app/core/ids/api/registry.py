"""REST: the registry of a cluster's transactional ids: owner, use, expiry and growth."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.core.access.signed_in import Viewer
from app.core.ids.api.schemas import Registry
from app.core.ids.registry import IdCount, Only, RegistryQuery, RegistrySort
from app.core.ids.service import registry as id_registry
from app.core.wiring import WiringDep
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/clusters/{name}", tags=["mappings"])


@router.get("/id-registry", responses=refusals(404))
async def get_id_registry(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    _: Viewer,
    search: Annotated[str, Query(max_length=1000, description="A part of the id.")] = "",
    only: Only | None = None,
    sort: RegistrySort = RegistrySort.ID,
    after: After = None,
    limit: Limit = 50,
) -> Registry:
    """List the ids on the brokers and those that pipelines own, with owner and expiry."""
    now = wiring.clock.now()
    found = await id_registry.get_registry(
        uow,
        wiring.observations,
        wiring.surveys,
        cluster=name,
        query=RegistryQuery(search=search, only=only, sort=sort),
        now=now,
        after=after,
        limit=limit,
    )
    return Registry.of_registry(found, now=now)


@router.get("/id-growth", responses=refusals(404))
async def get_id_growth(name: NameInPath, uow: Uow, wiring: WiringDep, _: Viewer) -> Shown[Items[IdCount]]:
    """Return the number of ids of the last 30 days, and of the managed ones."""
    growth = await id_registry.get_growth(uow, cluster=name, now=wiring.clock.now())
    return Items(growth)
