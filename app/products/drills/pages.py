"""The pages of a pipeline's drills, and of one drill."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.pipelines.pages.tabs import tabs_of
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.runs.run import Run
from app.core.runs.store.runs import RunStore
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.products.drills.drill import DEFAULT_S, LONGEST_S, SHORTEST_S, Drill, DrillKind, TargetState
from app.products.drills.service import drills

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Why = Annotated[str, Form(max_length=1000)]
_PAGE = 25
_LOOK_AGAIN_S = 0.5


def looking_at_list(pipeline: str, after: str | None = None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        found = await drills.list_drills(uow, pipeline=pipeline, after=after, limit=_PAGE)
        run = await uow.of(RunStore).find_live(pipeline)
        open_one = await drills.blocking(uow, pipeline)
        definition = None if run is None else await _definition(uow, run)
        is_query = definition is not None and definition.dataframe is not None
        context = {
            "pipeline": pipeline,
            "run": run,
            "is_allowed": definition is not None and definition.allows_drills,
            "is_query": is_query,
            "replaced_after_s": "" if definition is None else f"{definition.session_timeout_ms / 1000:g}",
            "open_one": open_one,
            "lines": [(one, drills.sentence_of(one)) for one in found.items],
            "pages": links_of(found.next_cursor, partial(screen.url_of, "pipelines", pipeline, "drills")),
            "kinds": DrillKind,
            "default_s": f"{DEFAULT_S:g}",
            "shortest_s": f"{SHORTEST_S:g}",
            "longest_s": f"{LONGEST_S:g}",
        }
        concerns = frozenset({f"pipeline:{pipeline}"})
        tabs = await tabs_of(uow, pipeline, "drills")
        title = f"Drills of {pipeline}"
        return Screen(template="drills/list", title=title, context=context, concerns=concerns, tabs=tabs)

    return look


def looking_at_one(drill_id: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        drill = await drills.get_drill(uow, drill_id)
        context = {
            "drill": drill,
            "sentence": drills.sentence_of(drill),
            "start": drill.begun_at or drill.ordered_at,
            "stood": standstill_of(drill),
            "frozen": [
                one for one in drill.targets if one.state in (TargetState.CLAIMED, TargetState.FROZEN) and drill.is_open
            ],
        }
        return Screen(
            template="drills/detail",
            title=f"Drill of {drill.pipeline}",
            context=context,
            concerns=frozenset({f"pipeline:{drill.pipeline}"}),
            look_again_s=_LOOK_AGAIN_S if drill.is_open else None,
            tabs=await tabs_of(uow, drill.pipeline, "drills"),
        )

    return look


def standstill_of(drill: Drill) -> tuple[str, str, str]:
    """Return the main figure of a drill, its explanation and its tone."""
    watched, bound_s = drill.watched, drill.plan.stands_still_s
    if drill.kind is DrillKind.FREEZE_SERVER and watched.unseen_s:
        return f"{watched.committed_unseen:,}", f"records committed in {watched.unseen_s:.1f} s without observation", ""
    expected = "" if bound_s is None else f", expected at most {bound_s:g} s"
    if watched.longest is None:
        return "–", ("not observed yet" if watched.at is None else "no partition had commits before") + expected, ""
    name, longest_s = watched.longest
    tone = "bad" if bound_s is not None and longest_s > bound_s else ""
    if watched.unseen_s:
        # A lower bound must not appear as a measurement within the expectation.
        return f"≥ {longest_s:.1f} s", f"{name}{expected}; {watched.unseen_s:.1f} s not observed", tone or "warn"
    return f"{longest_s:.1f} s", f"{name}{expected}", tone


async def _definition(uow: UnitOfWork, run: Run) -> PipelineDefinition:
    return (await uow.of(PipelineStore).get_revision(run.pipeline, run.revision)).definition


@router.get("/pipelines/{name}/drills")
@router.get("/pipelines/{name}/drills/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(name, after))


@router.post("/pipelines/{name}/drills")
async def begin(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.START_DRILL)],
    name: str,
    kind: Annotated[DrillKind, Form()],
    ordinal: Annotated[int | None, Form(ge=0, lt=2**31)] = None,
    for_s: Annotated[float, Form()] = DEFAULT_S,
    why: Why = "",
) -> Response:
    try:
        drill = await drills.begin_drill(
            uow,
            pipeline=name,
            kind=kind,
            ordinal=ordinal,
            for_s=for_s,
            by=by,
            why=why or None,
            now=wiring.clock.now(),
            times=await drills.broker_times(uow, wiring.surveys, name),
        )
        await uow.commit()
    except FencelineError as error:
        return await screen.page(
            request, wiring, by, looking_at_list(name), refused=error, at=("pipelines", name, "drills")
        )
    return screen.see("drills", drill.id, said="drill-ordered")


@router.get("/drills/{drill_id}")
@router.get("/drills/{drill_id}/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, drill_id: str) -> Response:
    return await screen.live(request, wiring, by, looking_at_one(drill_id))


@router.post("/drills/{drill_id}/stop")
async def stop(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.STOP_DRILL)],
    drill_id: str,
    why: Why = "",
) -> Response:
    try:
        await drills.stop_drill(uow, drill_id, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except FencelineError as error:
        look = looking_at_one(drill_id)
        return await screen.page(request, wiring, by, look, refused=error, at=("drills", drill_id))
    return screen.see("drills", drill_id, said="drill-stopped")
