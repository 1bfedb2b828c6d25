"""The page of a pipeline's offset log: contradictions with the events of both sides, and checks of a time range."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.pipelines.pages.tabs import links_within, pipeline_tabs
from app.core.pipelines.store import PipelineStore
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen
from app.products.offset_log import service as offset_log

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_SPANS = ((1, "last hour"), (24, "last day"), (168, "last week"), (336, "all that is kept"))


def looking_at(wiring: Wiring, name: str, *, hours: int | None) -> Look:
    """hours: the range that each view replays; None: no replay."""

    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        pipeline = await uow.of(PipelineStore).get(name)
        log = await offset_log.log_of(uow, pipeline)
        check = None
        if hours is not None and log is not None:
            check = await offset_log.verify(
                uow, wiring.observations, pipeline=name, since=now - timedelta(hours=hours), now=now
            )
        return Screen(
            template="pipelines/offsets",
            title=f"Offsets of {name}",
            context={
                "name": name,
                "log": log,
                "check": check,
                "asked": hours,
                "spans": _SPANS,
                "links": links_within(pipeline.definition, "offsets"),
            },
            concerns=frozenset({f"pipeline:{name}"}),
            tabs=pipeline_tabs(name, pipeline.definition, "offsets"),
        )

    return look


@router.get("/pipelines/{name}/offsets")
@router.get("/pipelines/{name}/offsets/stream")
async def show(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    name: str,
    hours: Annotated[int | None, Query(ge=1, le=336)] = None,
) -> Response:
    # A requested check is a result of that moment, so it is not updated live.
    return await screen.live(request, wiring, by, looking_at(wiring, name, hours=hours), is_live=hours is None)
