"""The overview: all issues, rates and pipelines at one glance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.blocked.readers import BlockedReport
from app.core.double_processing.listing import OpenOverlaps
from app.core.double_processing.service import open_overlaps
from app.core.observing.pages.lag import lags_of
from app.core.observing.pages.markers import fencing_markers
from app.core.observing.wording import Quality, quality_of
from app.core.overview import service as overview
from app.core.overview.problems import Unreached, problems_of, unreached_of
from app.core.overview.search import Found, FoundKind, search
from app.core.pipelines.ports import TopicReader
from app.core.runs.pages.charts import run_chart_of
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.chart_range import ChartRange
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.charts import ChosenRange, page_charts
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_UNSEEN = (Quality.STALE, Quality.NOTHING)


def looking_at(wiring: Wiring, chosen: ChartRange = ChartRange.QUARTER) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        view = await overview.overview(uow, needs=wiring.needs, now=now, chosen=chosen)
        overlaps = await open_overlaps(wiring.observations, now=now)
        context = context_of(
            view,
            wiring.observations.blocked(),
            unseen=unseen(wiring, now=now),
            overlaps=overlaps,
            unreached=unreached_of(wiring.observations.all(), overview.pipeline_clusters(view.lines)),
            lags=lags_of(wiring.lags, (line.pipeline for line in view.lines), now=now),
        )
        return Screen(template="overview/detail", title="Overview", context=context)

    return look


def unseen(wiring: Wiring, *, now: datetime) -> list[str]:
    """Return the clusters whose transactions this server does not observe now."""
    return [
        snapshot.cluster
        for snapshot in wiring.observations.all()
        if quality_of(snapshot.transaction_journal, now_ms=int(now.timestamp() * 1000)).quality in _UNSEEN
    ]


def context_of(
    view: overview.Overview,
    blocked: Sequence[BlockedReport] = (),
    *,
    unseen: Sequence[str] = (),
    overlaps: Sequence[OpenOverlaps] = (),
    unreached: Sequence[Unreached] = (),
    lags: Mapping[str, Mapping[str, object]],
) -> Mapping[str, object]:
    """The page's context. A partition that brokers refuse may be blocked: its cluster is not verified."""
    markers = fencing_markers(view.marked)
    return {
        "view": view,
        "lags": lags,
        "chart": run_chart_of(view.series, view.window, markers) if view.series else None,
        "charts": page_charts(view.window, lambda span: screen.url_of(range=span), markers=markers),
        "unseen": sorted({*unseen, *(report.cluster for report in blocked if report.problem)}),
        "blocked": blocked,
        "checked_at": min((report.at for report in blocked if report.at is not None), default=None),
        "problems": problems_of(
            view.needs,
            blocked=blocked,
            hanging=view.hanging,
            raised=view.raised,
            overlaps=overlaps,
            unreached=unreached,
        ),
    }


_PAGES: dict[FoundKind, Callable[[Found], str]] = {
    FoundKind.PIPELINE: lambda one: screen.url_of("pipelines", one.name),
    FoundKind.CLUSTER: lambda one: screen.url_of("clusters", one.name),
    FoundKind.TOPIC: lambda one: screen.url_of("clusters", one.cluster, "topics", one.name),
    FoundKind.GROUP: lambda one: screen.url_of("groups", "group", cluster=one.cluster, name=one.name),
    FoundKind.TRANSACTIONAL_ID: lambda one: screen.url_of("transactions", "id", cluster=one.cluster, id=one.name),
    FoundKind.RUN: lambda one: screen.url_of("runs", one.name),
    FoundKind.FENCING_EVENT: lambda one: screen.url_of("fencing", one.name),
}


def looking_for(wiring: Wiring, text: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        reader = cast("TopicReader | None", wiring.parts.get(TopicReader))
        names_of = None if reader is None else reader.names
        found = await search(uow, wiring.observations.all(), text, names_of=names_of)
        context = {
            "text": text,
            "items": [(one, _PAGES[one.kind](one)) for one in found.items],
            "left_out": found.left_out,
            "unlisted": found.unlisted,
        }
        return Screen(template="search/list", title="Search", context=context)

    return look


@router.get("/search")
async def find(
    request: Request, wiring: WiringDep, by: Viewer, q: Annotated[str, Query(max_length=1_000)] = ""
) -> Response:
    return await screen.page(request, wiring, by, looking_for(wiring, q), is_live=False)


@router.get("/")
@router.get("/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, chosen: ChosenRange = ChartRange.QUARTER) -> Response:
    return await screen.live(request, wiring, by, looking_at(wiring, chosen))
