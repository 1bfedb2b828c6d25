"""REST: the offset log of a pipeline, with its status, contradictions and a check of any time range."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.core.access.signed_in import Viewer
from app.core.wiring import WiringDep
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import Moment, NameInPath
from app.kit.web.dependencies import Uow
from app.products.offset_log import service as offset_log
from app.products.offset_log.check import PipelineCheck
from app.products.offset_log.service import OffsetLog

router = APIRouter(prefix="/pipelines/{name}/offset-log", tags=["pipelines"])


@router.get("", responses=refusals(404))
async def get_offset_log(name: NameInPath, uow: Uow, _: Viewer) -> Shown[OffsetLog]:
    """Return the newest live check, and every contradiction that is kept."""
    return await offset_log.look(uow, pipeline=name)


@router.get("/check", responses=refusals(404))
async def check_offset_log(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    _: Viewer,
    since: Annotated[
        Moment | None, Query(description="Start of the range; by default all that is kept, 14 days.")
    ] = None,
) -> Shown[PipelineCheck]:
    """Replay the offset events since then: gaps, overlaps, commits without ownership, rewinds. Nothing is written."""
    return await offset_log.verify(uow, wiring.observations, pipeline=name, since=since, now=wiring.clock.now())
