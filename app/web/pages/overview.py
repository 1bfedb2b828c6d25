"""The overview: is everything exactly once right now, and if not, where?"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response

from app.domain.access import Principal, Verb
from app.ports.unit_of_work import UnitOfWork
from app.services import overview
from app.web.dependencies import WiringDep, may
from app.web.pages.frame import screen
from app.web.pages.frame.charts import chart_of
from app.web.pages.frame.errors import PageRoute
from app.web.pages.frame.screen import Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Viewer = Annotated[Principal, may(Verb.VIEW)]


async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
    del principal
    view = await overview.overview(uow, now=now)
    context = {"view": view, "chart": chart_of(view.series)}
    return Screen(template="overview/detail", title="Overview", context=context)


@router.get("/")
@router.get("/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer) -> Response:
    return await screen.live(request, wiring, by, look)
