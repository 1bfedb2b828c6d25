"""Pipelines: the list, and the status of one with its owners and actions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.clusters.partition import Partition
from app.core.observing.pages.lag import lags_of
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.core.overview import service as overview
from app.core.overview.service import PipelinePage
from app.core.pipelines.pages.tab_pages import columns_of, concerns_of
from app.core.pipelines.pages.tabs import pipeline_tabs
from app.core.pipelines.pipeline import Steps
from app.core.pipelines.service import pipelines
from app.core.runs.pages.charts import run_chart_of, run_markers
from app.core.runs.service import runs
from app.core.transforms.step_text import describe_step
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.chart_range import ChartRange
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, NotFoundError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.charts import ChosenRange, page_charts
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen
from app.kit.words import moment

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Why = Annotated[str, Form(max_length=1000)]


def looking_at_all(wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        lines = await overview.pipeline_lines(uow, needs=wiring.needs, now=now)
        context = {"lines": lines, "lags": lags_of(wiring.lags, (line.pipeline for line in lines), now=now)}
        return Screen(template="pipelines/list", title="Pipelines", context=context)

    return look


@router.get("/pipelines")
@router.get("/pipelines/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer) -> Response:
    return await screen.live(request, wiring, by, looking_at_all(wiring))


def looking_at(wiring: Wiring, name: str, chosen: ChartRange = ChartRange.QUARTER) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        view = await overview.pipeline_page(uow, name, needs=wiring.needs, panels=wiring.panels, now=now, chosen=chosen)
        definition = view.line.pipeline.definition
        transform = definition.transform
        snapshot = wiring.observations.of(view.cluster.name)
        context = {
            "view": view,
            "pipeline": view.line.pipeline,
            "run": view.line.run,
            "is_live": view.line.run is not None and view.line.run.ended_at is None,
            **charts_of(view),
            "steps": [describe_step(step) for step in transform.steps] if isinstance(transform, Steps) else [],
            "columns": columns_of(definition),
            "beside": beside(wiring, view),
            "lag": lags_of(wiring.lags, [view.line.pipeline], now=now).get(name),
            "unreached": unreached(snapshot),
        }
        tabs = pipeline_tabs(name, definition, "")
        concerns = concerns_of(view.line.pipeline)
        return Screen(template="pipelines/detail", title=name, context=context, concerns=concerns, tabs=tabs)

    return look


def charts_of(view: PipelinePage) -> dict[str, Any]:
    """Return the chart of the pipeline's runs, None without a sample, and its range control with the markers."""
    definition = view.line.pipeline.definition
    group_url = screen.url_of("groups", "group", cluster=definition.cluster, name=definition.group_id)
    markers = run_markers(view.rebalances, view.marked, group_url=group_url)
    name = view.line.pipeline.name
    return {
        "chart": run_chart_of(view.series, view.window, markers) if view.series else None,
        "charts": page_charts(view.window, lambda span: screen.url_of("pipelines", name, range=span), markers=markers),
    }


def unreached(snapshot: Snapshot) -> str | None:
    """Return why this server does not reach the cluster. For a certificate it has more details than a task, whose
    librdkafka always suspects the authority."""
    journal = snapshot.transaction_journal
    return journal.problem if journal.phase is ReadingPhase.LOST else None


def beside(wiring: Wiring, view: PipelinePage) -> Mapping[Partition, Mapping[str, Any]]:
    """Return the brokers' report of each partition beside its task's: the transaction of its id, and blocked
    records.
    """
    known = wiring.observations.of(view.cluster.name).transactions
    partitions = [Partition(one.topic, one.partition) for one in view.mappings]
    held = wiring.held_back.of(wiring.brokers, view.cluster, partitions)
    shown: dict[Partition, Mapping[str, Any]] = {}
    for at, mapping in zip(partitions, view.mappings, strict=True):
        live = None if mapping.transactional_id is None else known.get(mapping.transactional_id)
        shown[at] = {
            "state": None if live is None else live.state.status.word,
            "opened_at": moment(live.state.start_ms) if live is not None and live.is_open else None,
            "held_back": held.get(at),
        }
    return shown


@router.get("/pipelines/{name}")
@router.get("/pipelines/{name}/stream")
async def show(
    request: Request, wiring: WiringDep, by: Viewer, name: str, chosen: ChosenRange = ChartRange.QUARTER
) -> Response:
    return await screen.live(request, wiring, by, looking_at(wiring, name, chosen))


@router.post("/pipelines/{name}/start")
async def start(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.START_RUN)],
    name: str,
    why: Why = "",
) -> Response:
    try:
        await runs.start_run(
            uow,
            wiring.brokers,
            pipeline=name,
            allowed=wiring.allowed_options,
            by=by,
            why=why or None,
            now=wiring.clock.now(),
        )
        await uow.commit()
    except FencelineError as error:
        return await screen.page(request, wiring, by, looking_at(wiring, name), refused=error, at=("pipelines", name))
    return screen.see("pipelines", name, said="started")


@router.post("/pipelines/{name}/delete")
async def delete(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.DELETE_PIPELINE)],
    name: str,
    why: Why = "",
) -> Response:
    try:
        await pipelines.delete_pipeline(uow, name, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except NotFoundError:
        return screen.see("pipelines", said="already-gone")
    except FencelineError as error:
        return await screen.page(request, wiring, by, looking_at(wiring, name), refused=error, at=("pipelines", name))
    return screen.see("pipelines", said="deleted")
