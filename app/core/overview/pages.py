"""The overview: all issues, rates and pipelines at one glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from fastapi import APIRouter, Request, Response

from app.core.access.signed_in import Viewer
from app.core.blocked.readers import BlockedReport
from app.core.double_processing.listing import OpenOverlaps
from app.core.double_processing.service import open_overlaps
from app.core.observing.wording import Quality, quality_of
from app.core.overview import service as overview
from app.core.runs.pages.charts import chart_of
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_UNSEEN = (Quality.STALE, Quality.NOTHING)


def looking_at(wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        view = await overview.overview(uow, needs=wiring.needs, now=now)
        unseen = [
            snapshot.cluster
            for snapshot in wiring.observations.all()
            if quality_of(snapshot.transaction_journal, now_ms=int(now.timestamp() * 1000)).quality in _UNSEEN
        ]
        overlaps = await open_overlaps(wiring.observations, now=now)
        context = context_of(view, wiring.observations.blocked(), unseen=unseen, overlaps=overlaps)
        return Screen(template="overview/detail", title="Overview", context=context)

    return look


def context_of(
    view: overview.Overview,
    blocked: Sequence[BlockedReport] = (),
    *,
    unseen: Sequence[str] = (),
    overlaps: Sequence[OpenOverlaps] = (),
) -> Mapping[str, object]:
    """The page's context. A hanging transaction that blocks readers is one line: that of the blocked readers."""
    causes = [one for report in blocked for one in report.causes]
    told = {(one.cluster, one.producer_id, one.producer_epoch) for one in causes}
    keys = ((line, line.transaction.key) for line in view.hanging)
    hanging = [line for line, key in keys if (line.cluster, key.producer_id, key.producer_epoch) not in told]
    return {
        "view": view,
        "chart": chart_of(view.series),
        # A partition that brokers refuse may be blocked.
        "unseen": sorted({*unseen, *(report.cluster for report in blocked if report.problem)}),
        "blocked": blocked,
        "causes": causes,
        "hanging": hanging,
        "overlaps": overlaps,
    }


@router.get("/")
@router.get("/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer) -> Response:
    return await screen.live(request, wiring, by, looking_at(wiring))
