"""Pipelines: the list, and one pipeline with its state, owners and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Form, Query, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.clusters.partition import Partition
from app.core.observing.pages.lag import lag_row
from app.core.observing.pages.tracks import epochs_of, generations_of, mark_of
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.core.overview import service as overview
from app.core.overview.service import PipelinePage
from app.core.pipelines.file_text import describe_columns
from app.core.pipelines.pipeline import PipelineDefinition, Steps
from app.core.pipelines.pipeline_ids import id_forms
from app.core.pipelines.service import pipelines
from app.core.product import PipelineLink, Product
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
from app.kit.web.pages.timeline import Point, Timeline, timeline_of
from app.kit.words import moment

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Why = Annotated[str, Form(max_length=1000)]


def looking_at_all(wiring: Wiring) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        lines = await overview.pipeline_lines(uow, needs=wiring.needs, now=now)
        return Screen(template="pipelines/list", title="Pipelines", context={"lines": lines})

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
        lag = wiring.lags.report_of(view.cluster.name).groups.get(definition.group_id)
        context = {
            "view": view,
            "pipeline": view.line.pipeline,
            "run": view.line.run,
            "is_live": view.line.run is not None and view.line.run.ended_at is None,
            **charts_of(view),
            "links": links_of(wiring.products, definition),
            "steps": [describe_step(step) for step in transform.steps] if isinstance(transform, Steps) else [],
            "columns": "" if definition.files is None else describe_columns(definition.files.partition_by),
            "beside": beside(wiring, view),
            "lag": None if lag is None else lag_row(lag),
            "timeline": timeline_beside(snapshot, view, now=now),
            "unreached": unreached(snapshot),
            "id_forms": id_forms(definition, name),
            "definition_json": msgspec.json.format(msgspec.json.encode(definition), indent=2).decode(),
        }
        concerns = frozenset({f"pipeline:{name}", *(f"run:{item.id}" for item in view.runs)})
        return Screen(template="pipelines/detail", title=name, context=context, concerns=concerns)

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


_OWN_LINKS = (
    PipelineLink(
        path="imported-ids", title="Imported ids", order=30, is_shown=lambda definition: definition.dataframe is None
    ),
    # A query begins at its checkpoint: it has a page for a new one.
    PipelineLink(
        path="reset-offsets", title="Reset offsets", order=35, is_shown=lambda definition: definition.dataframe is None
    ),
)


def links_of(products: Sequence[Product], definition: PipelineDefinition) -> list[PipelineLink]:
    """The buttons to a pipeline's other pages, in their order."""
    links = [*_OWN_LINKS, *(link for product in products for link in product.pipeline_links)]
    return sorted((link for link in links if link.is_shown(definition)), key=lambda link: link.order)


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


def timeline_beside(snapshot: Snapshot, view: PipelinePage, *, now: datetime) -> Timeline | None:
    """Return rebalances of the pipeline's group, and epochs of the ids of its partitions, with events of its tasks."""
    group = snapshot.groups.get(view.line.pipeline.definition.group_id)
    fenced: dict[str, list[Point]] = {}
    for line in view.fencings:
        fenced.setdefault(line.record.event.key.transactional_id, []).append(mark_of(line.record))
    names = sorted({one.transactional_id for one in view.mappings if one.transactional_id is not None})
    tracks = [] if group is None else [generations_of(group, cluster=snapshot.cluster)]
    tracks += [
        epochs_of(snapshot.transactions[name], cluster=snapshot.cluster, marks=fenced.get(name, ()))
        for name in names
        if name in snapshot.transactions
    ]
    return timeline_of("Rebalances of the group, and epochs of the ids that its tasks use", tracks, now=now)


@router.get("/pipelines/{name}")
@router.get("/pipelines/{name}/stream")
async def show(
    request: Request, wiring: WiringDep, by: Viewer, name: str, chosen: ChosenRange = ChartRange.QUARTER
) -> Response:
    return await screen.live(request, wiring, by, looking_at(wiring, name, chosen))


@router.get("/pipelines/{name}/diff")
async def show_diff(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Viewer,
    name: str,
    before: Annotated[int, Query(alias="from", ge=1, lt=2**31)],
    after: Annotated[int, Query(alias="to", ge=1, lt=2**31)],
) -> Response:
    """Show the changes between two revisions, a sentence for each."""
    changes = await pipelines.diff_revisions(uow, name, before, after)
    context = {"name": name, "before": before, "after": after, "changes": changes}
    shown = Screen(template="pipelines/diff", title=f"{name}: revision {before} to {after}", context=context)
    return screen.show(request, shown, principal=by, now=wiring.clock.now())


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
