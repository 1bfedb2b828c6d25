"""REST: fencing events with their causes and evidence."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.core.access.signed_in import Viewer
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.record import FencingFilter
from app.core.fencing.schemas import FencingEventDetail
from app.core.fencing.service import feed as fencing_feed
from app.core.fencing.service.feed import FencingLine
from app.core.observing.service import groups
from app.core.wiring import WiringDep
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import IdInPath, Moment, Name
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/fencing", tags=["fencing"])


@router.get("", responses=refusals(404))
async def list_fencing(
    wiring: WiringDep,
    uow: Uow,
    _: Viewer,
    cluster: Annotated[Name | None, Query()] = None,
    pipeline: Annotated[Name | None, Query()] = None,
    transactional_id: Annotated[str | None, Query(max_length=32_767)] = None,
    group: Annotated[
        str | None,
        Query(max_length=32_767, description="Its members; with `cluster` also the ids that store its offsets."),
    ] = None,
    cause: FencingCause | None = None,
    since: Annotated[Moment | None, Query(description="Occurred then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Occurred before.")] = None,
    with_what_is_none: Annotated[bool, Query(description="Also events that only look like fencing.")] = False,
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[FencingLine]]:
    """List the fencing events of producers and members, of all clients of the clusters, newest first."""
    wanted = FencingFilter(
        transactional_id=transactional_id,
        of_group=None if group is None else await groups.losses_of(wiring.observations, cluster=cluster, group=group),
        pipeline=pipeline,
        cause=cause,
        since=since,
        until=until,
        with_what_is_none=with_what_is_none or (cause is not None and not cause.is_fencing),
    )
    return await fencing_feed.list_lines(uow, wanted, cluster=cluster, after=after, limit=limit)


@router.get("/{event_id}", responses=refusals(404))
async def get_fencing(event_id: IdInPath, uow: Uow, _: Viewer) -> FencingEventDetail:
    """Return one event with its evidence and its earlier verdicts."""
    return FencingEventDetail.of_line(await fencing_feed.get_line(uow, event_id))
