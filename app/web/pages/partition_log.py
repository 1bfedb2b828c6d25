"""A partition's log: what is really in there, batch by batch."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from app.domain.access import Principal, Verb, allows
from app.domain.errors import FencelineError, ForbiddenError, NotFoundError
from app.domain.page import MAX_LIMIT
from app.domain.partition_log.entries import LogEntry
from app.domain.partition_log.look import Landmark, parse_start
from app.services.defining import clusters
from app.services.partition_log import PartitionLog
from app.web.dependencies import Uow, WiringDep, may
from app.web.log_looks import look_for
from app.web.pages.frame import screen
from app.web.pages.frame.display import moment
from app.web.pages.frame.errors import PageRoute
from app.web.pages.frame.screen import Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Viewer = Annotated[Principal, may(Verb.VIEW)]
LIMITS = (20, 50, 200, MAX_LIMIT)


@router.get("/clusters/{name}/log")
async def choose(
    request: Request, wiring: WiringDep, uow: Uow, by: Viewer, name: str, topic: str = "", partition: str = ""
) -> Response:
    """Which partition? A form that leads to its address."""
    await clusters.get_cluster(uow, name)
    if topic.strip() and partition.strip().isdecimal():
        return screen.see("clusters", name, "log", topic.strip(), str(int(partition)))
    context = {"cluster": name, "topic": topic, "partition": partition}
    shown = Screen(template="partition_log/list", title=f"Logs of {name}", context=context)
    return screen.show(request, shown, principal=by, now=wiring.clock.now())


@router.get("/clusters/{name}/log/{topic}/{partition}")
async def show(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    name: str,
    topic: str,
    partition: Annotated[int, Path(ge=0, lt=2**31)],
    start: Annotated[str, Query(alias="from")] = Landmark.END.value,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
    *,
    keys: bool = False,
    values: bool = False,
) -> Response:
    found: PartitionLog | None = None
    error: FencelineError | None = None
    try:
        found = await look_for(
            by,
            wiring,
            cluster=name,
            topic=topic,
            partition=partition,
            start=parse_start(start.strip()),
            limit=limit,
            keys=keys,
            values=values,
        )
    except ForbiddenError:
        raise
    except FencelineError as refusal:
        # The form stays: a wrong offset is put right where it was typed.
        error = refusal
    context = {
        "cluster": name,
        "topic": topic,
        "partition": partition,
        "start": start,
        "limit": limit,
        "limits": [(number, number) for number in sorted({*LIMITS, limit})],
        "keys": keys,
        "values": values,
        "may_see_records": allows(by.role, Verb.READ_RECORDS),
        "log": found,
        "error": error,
        "is_gone": isinstance(error, NotFoundError),
        "last_abort": _last_abort(found.entries) if found else None,
        "moment": moment,
    }
    shown = Screen(
        template="partition_log/detail",
        title=f"{topic}-{partition}",
        context=context,
        status=200 if error is None else error.status,
    )
    return screen.show(request, shown, principal=by, now=wiring.clock.now())


def _last_abort(entries: tuple[LogEntry, ...]) -> int | None:
    return next((entry.base_offset for entry in reversed(entries) if entry.marker == "ABORT"), None)
