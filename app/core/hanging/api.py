"""REST: the hanging transactions that this server's search found on a cluster, and the earlier ones."""

from __future__ import annotations

from fastapi import APIRouter

from app.core.access.signed_in import Viewer
from app.core.hanging import service as hanging
from app.core.hanging.record import HangingRecord
from app.core.hanging.schemas import Hanging
from app.core.wiring import WiringDep
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/clusters/{name}/hanging", tags=["stuck"])


@router.get("", responses=refusals(404))
async def get_hanging(name: NameInPath, uow: Uow, wiring: WiringDep, _: Viewer) -> Hanging:
    """Return the hanging transactions with the commands that end them, and pending offsets that block new owners."""
    now = wiring.clock.now()
    return Hanging.of_look(await hanging.look(uow, wiring.observations, cluster=name, now=now), now=now)


@router.get("/history", responses=refusals(404))
async def list_hanging(
    name: NameInPath, uow: Uow, _: Viewer, after: After = None, limit: Limit = 50
) -> Shown[Page[HangingRecord]]:
    """List all hanging transactions that were found, newest first, with their end; ended ones are kept for 30 days."""
    return await hanging.list_records(uow, cluster=name, after=after, limit=limit)
