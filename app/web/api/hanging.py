"""What hangs on a cluster, found by this server's search without anybody asking, and what hung before."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from app.domain.access import Principal, Verb
from app.domain.hanging.record import HangingRecord
from app.domain.page import Page
from app.services import hanging
from app.web.api.documented import refusals
from app.web.api.paging import After, Limit
from app.web.api.schemas.hanging import Hanging
from app.web.api.schemas.shown import Shown
from app.web.api.schemas.words import NameInPath
from app.web.dependencies import Uow, WiringDep, may

router = APIRouter(prefix="/clusters/{name}/hanging", tags=["stuck"])


@router.get("", responses=refusals(404))
async def get_hanging(
    name: NameInPath, uow: Uow, wiring: WiringDep, _: Annotated[Principal, may(Verb.VIEW)]
) -> Hanging:
    """Transactions that nobody will ever end, with what ends them, and offsets that new owners wait for."""
    now = wiring.clock.now()
    return Hanging.of_look(await hanging.look(uow, wiring.observations, cluster=name, now=now), now=now)


@router.get("/history", responses=refusals(404))
async def list_hanging(
    name: NameInPath, uow: Uow, _: Annotated[Principal, may(Verb.VIEW)], after: After = None, limit: Limit = 50
) -> Shown[Page[HangingRecord]]:
    """All that were found, newest first, with how they ended; ended ones are kept for 30 days."""
    return await hanging.list_records(uow, cluster=name, after=after, limit=limit)
