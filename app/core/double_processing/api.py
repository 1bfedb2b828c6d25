"""REST: offsets that two producers of a group processed, by the journal of a cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.core.access.signed_in import Viewer
from app.core.double_processing import service as double_processing
from app.core.double_processing.schemas import OverlapFindings
from app.core.wiring import WiringDep
from app.kit.web.api.documented import refusals
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/clusters/{name}/double-processing", tags=["observing"])


@router.get("", responses=refusals(404))
async def list_double_processing(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    _: Viewer,
    group: Annotated[str | None, Query(max_length=32_767, description="One group; none: all.")] = None,
) -> OverlapFindings:
    """List offsets that were processed twice, of any client: both commits, the grade, and alternatives."""
    found = await double_processing.list_overlaps(uow, wiring.observations, cluster=name, group=group)
    return OverlapFindings.of_list(found, now=wiring.clock.now())
