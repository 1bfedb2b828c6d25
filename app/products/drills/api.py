"""REST: start, observe and stop drills."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.runs.api.run_schemas import Reason
from app.core.runs.api.runs import NO_REASON
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import IdInPath, Name, NameInPath
from app.kit.web.dependencies import Uow
from app.products.drills.drill import Drill
from app.products.drills.schemas import DrillGiven
from app.products.drills.service import drills

router = APIRouter(tags=["drills"])


@router.post(
    "/pipelines/{name}/drills", status_code=201, response_model=Shown[Drill], responses=refusals(404, 409, 413)
)
async def begin_drill(
    name: NameInPath,
    body: DrillGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.START_DRILL)],
) -> Response:
    """Start a drill: freeze or kill an instance of the pipeline's run, or freeze the server. The answer comes first."""

    async def act() -> Drill:
        return await drills.begin_drill(
            uow,
            pipeline=name,
            kind=body.kind,
            ordinal=body.ordinal,
            for_s=body.for_s,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
            times=await drills.broker_times(uow, wiring.surveys, name),
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get("/drills", responses=refusals(404))
async def list_drills(
    uow: Uow,
    _: Viewer,
    pipeline: Annotated[Name | None, Query()] = None,
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[Drill]]:
    """List drills of all pipelines or of one, newest first."""
    return await drills.list_drills(uow, pipeline=pipeline, after=after, limit=limit)


@router.get("/drills/{drill_id}", responses=refusals(404))
async def get_drill(drill_id: IdInPath, uow: Uow, _: Viewer) -> Shown[Drill]:
    """Return one drill with its expectations, its events so far, and its result at the end."""
    return await drills.get_drill(uow, drill_id)


@router.post("/drills/{drill_id}/stop", response_model=Shown[Drill], responses=refusals(404, 409, 413))
async def stop_drill(
    drill_id: IdInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.STOP_DRILL)],
    body: Reason = NO_REASON,
) -> Response:
    """Stop a drill: no further action begins, and frozen processes are thawed. A kill cannot be undone."""

    async def act() -> Drill:
        return await drills.stop_drill(uow, drill_id, by=by, why=body.why, now=wiring.clock.now())

    answer = await once.do(act)
    await uow.commit()
    return answer
