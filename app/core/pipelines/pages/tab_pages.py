"""The pages of a pipeline beside its status: runs, events, definition with revisions, and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from app.core.access.command import CommandFilter
from app.core.access.signed_in import Viewer
from app.core.access.store.commands import CommandStore
from app.core.clusters.store import ClusterStore
from app.core.fencing.record import FencingFilter
from app.core.fencing.service import feed as fencing_feed
from app.core.fencing.service.feed import FencingLine
from app.core.mappings.store.mappings import MappingStore
from app.core.observing.pages.tracks import epochs_of, generations_of, mark_of
from app.core.observing.snapshot import Snapshot
from app.core.pipelines.file_text import describe_columns
from app.core.pipelines.pages.tabs import links_within, pipeline_tabs, tabs_of
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_ids import id_forms
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.service import pipelines
from app.core.pipelines.store import PipelineStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.kit.web.pages.timeline import Point, Timeline, timeline_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_RUNS = 25
_EVENTS = 100
_FENCINGS = 25
_COMMANDS = 10


def concerns_of(pipeline: Pipeline) -> frozenset[str]:
    run = pipeline.current_run
    return frozenset({f"pipeline:{pipeline.name}", *([] if run is None else [f"run:{run.id}"])})


def columns_of(definition: PipelineDefinition) -> str:
    """Return the columns by which files are partitioned, in words."""
    return "" if definition.files is None else describe_columns(definition.files.partition_by)


def _tab(pipeline: Pipeline, tab: str, context: Mapping[str, Any]) -> Screen:
    return Screen(
        template=f"pipelines/{tab}",
        title=f"{tab.capitalize()} of {pipeline.name}",
        context=context,
        concerns=concerns_of(pipeline),
        tabs=pipeline_tabs(pipeline.name, pipeline.definition, tab),
    )


def looking_at_runs(name: str, after: str | None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        pipeline = await uow.of(PipelineStore).get(name)
        run = None if pipeline.current_run is None else await uow.of(RunStore).get(pipeline.current_run.id)
        found = await uow.of(RunStore).list(pipeline=name, after=after, limit=_RUNS)
        context = {
            "name": name,
            "run": run,
            "is_live": run is not None and run.ended_at is None,
            "runs": found.items,
            "pages": links_of(found.next_cursor, partial(screen.url_of, "pipelines", name, "runs"), after=after),
        }
        return _tab(pipeline, "runs", context)

    return look


def looking_at_events(wiring: Wiring, name: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        pipeline = await uow.of(PipelineStore).get(name)
        cluster = await uow.of(ClusterStore).get(pipeline.cluster)
        group = pipeline.definition.group_id
        mappings = await uow.of(MappingStore).of_group(kafka_cluster_id=cluster.kafka_cluster_id, group=group)
        wanted = FencingFilter(pipeline=name)
        fencings = (await fencing_feed.list_lines(uow, wanted, cluster=None, limit=_FENCINGS)).items
        ids = sorted({one.transactional_id for one in mappings if one.transactional_id is not None})
        context = {
            "name": name,
            "timeline": timeline_beside(wiring.observations.of(cluster.name), group, ids, fencings, now=now),
            "fencings": fencings,
            "events": [event for _, event in await uow.of(TaskStore).recent_events(pipeline=name, limit=_EVENTS)],
        }
        return _tab(pipeline, "events", context)

    return look


def timeline_beside(
    snapshot: Snapshot, group: str, transactional_ids: Sequence[str], fencings: Sequence[FencingLine], *, now: datetime
) -> Timeline | None:
    """Return rebalances of the pipeline's group, and epochs of the ids of its partitions, with events of its tasks."""
    live = snapshot.groups.get(group)
    fenced: dict[str, list[Point]] = {}
    for line in fencings:
        fenced.setdefault(line.record.event.key.transactional_id, []).append(mark_of(line.record))
    tracks = [] if live is None else [generations_of(live, cluster=snapshot.cluster)]
    tracks += [
        epochs_of(snapshot.transactions[name], cluster=snapshot.cluster, marks=fenced.get(name, ()))
        for name in transactional_ids
        if name in snapshot.transactions
    ]
    return timeline_of("Rebalances of the group, and epochs of the ids that its tasks use", tracks, now=now)


def looking_at_definition(name: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        pipeline = await uow.of(PipelineStore).get(name)
        definition = pipeline.definition
        commands = await uow.of(CommandStore).list(
            CommandFilter(target=f"pipeline:{name}"), after=None, limit=_COMMANDS
        )
        context = {
            "name": name,
            "pipeline": pipeline,
            "columns": columns_of(definition),
            "id_forms": id_forms(definition, name),
            "definition_json": msgspec.json.format(msgspec.json.encode(definition), indent=2).decode(),
            "revisions": await uow.of(PipelineStore).list_revisions(name),
            "commands": commands.items,
        }
        return _tab(pipeline, "definition", context)

    return look


def looking_at_more(name: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        pipeline = await uow.of(PipelineStore).get(name)
        context = {
            "name": name,
            "links": links_within(pipeline.definition, "more"),
            "is_live": await uow.of(RunStore).find_live(name) is not None,
        }
        return _tab(pipeline, "more", context)

    return look


@router.get("/pipelines/{name}/runs")
@router.get("/pipelines/{name}/runs/stream")
async def show_runs(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_runs(name, after))


@router.get("/pipelines/{name}/events")
@router.get("/pipelines/{name}/events/stream")
async def show_events(request: Request, wiring: WiringDep, by: Viewer, name: str) -> Response:
    return await screen.live(request, wiring, by, looking_at_events(wiring, name))


@router.get("/pipelines/{name}/definition")
@router.get("/pipelines/{name}/definition/stream")
async def show_definition(request: Request, wiring: WiringDep, by: Viewer, name: str) -> Response:
    return await screen.live(request, wiring, by, looking_at_definition(name))


@router.get("/pipelines/{name}/more")
@router.get("/pipelines/{name}/more/stream")
async def show_more(request: Request, wiring: WiringDep, by: Viewer, name: str) -> Response:
    return await screen.live(request, wiring, by, looking_at_more(name))


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
    tabs = await tabs_of(uow, name, "definition")
    context = {"name": name, "before": before, "after": after, "changes": changes}
    shown = Screen(template="pipelines/diff", title=f"{name}: revision {before} to {after}", context=context, tabs=tabs)
    return screen.show(request, shown, principal=by, now=wiring.clock.now())
