"""The page of a partition's log, batch by batch."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.clusters import service as clusters
from app.core.journals.log_entries import LogEntry
from app.core.journals.log_look import Landmark, parse_start
from app.core.observing.service.observations import notice_of
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb, allows
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, ForbiddenError, InvalidError, NotFoundError
from app.kit.page import MAX_LIMIT
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen
from app.kit.web.pages.shared_looks import Rhythm
from app.kit.words import moment
from app.products.partition_log.service import PartitionLog
from app.products.partition_log.web_looks import AskedIds, look_for

router = APIRouter(route_class=PageRoute, include_in_schema=False)
# Each refresh asks the broker, so it may take only a small part of the time.
_RHYTHM = Rhythm(frames_per_s=10, share_of_time=0.2)
# Only transactions are announced; this is the interval for other writes.
_LOOK_AGAIN_S = 0.5
LIMITS = (20, 50, 200, MAX_LIMIT)


@router.get("/clusters/{name}/log")
async def choose(
    request: Request, wiring: WiringDep, uow: Uow, by: Viewer, name: str, topic: str = "", partition: str = ""
) -> Response:
    """Show a form for the partition, which leads to its address."""
    await clusters.get_cluster(uow, name)
    if topic.strip() and partition.strip().isdecimal():
        return screen.see("clusters", name, "log", topic.strip(), str(int(partition)))
    context = {"cluster": name, "topic": topic, "partition": partition}
    shown = Screen(template="partition_log/list", title=f"Logs of {name}", context=context)
    return screen.show(request, shown, principal=by, now=wiring.clock.now())


class LogSelection:
    """The input of the page's form. keys, values: the page does not refresh, and the request was logged."""

    def __init__(
        self,
        name: str,
        topic: str,
        partition: Annotated[int, Path(ge=0, lt=2**31)],
        start: Annotated[str, Query(alias="from")] = Landmark.END.value,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
        *,
        keys: bool = False,
        values: bool = False,
    ) -> None:
        self.cluster = name
        self.topic = topic
        self.partition = partition
        self.start = start
        self.limit = limit
        self.keys = keys
        self.values = values

    @property
    def shows_records(self) -> bool:
        return self.keys or self.values


WantedDep = Annotated[LogSelection, Depends()]


def looking_at(wiring: Wiring, wanted: LogSelection, *, asked: AskedIds | None = None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        # The view's own unit of work would keep its connection while brokers are asked.
        del uow
        found: PartitionLog | None = None
        error: FencelineError | None = None
        try:
            found = await look_for(
                principal,
                wiring,
                cluster=wanted.cluster,
                topic=wanted.topic,
                partition=wanted.partition,
                start=parse_start(wanted.start.strip(), now=now),
                limit=wanted.limit,
                keys=wanted.keys,
                values=wanted.values,
                asked=asked,
            )
        except ForbiddenError:
            raise
        except FencelineError as refusal:
            # The form stays, to correct a wrong offset.
            error = refusal
        context = {
            "cluster": wanted.cluster,
            "topic": wanted.topic,
            "partition": wanted.partition,
            "start": wanted.start,
            "limit": wanted.limit,
            "limits": [(number, number) for number in sorted({*LIMITS, wanted.limit})],
            "keys": wanted.keys,
            "values": wanted.values,
            "may_see_records": allows(principal.role, Verb.READ_RECORDS),
            "log": found,
            "error": error,
            "is_gone": isinstance(error, NotFoundError),
            "last_abort": _last_abort(found.entries) if found else None,
            "moment": moment,
        }
        return Screen(
            template="partition_log/detail",
            title=f"{wanted.topic}-{wanted.partition}",
            context=context,
            status=200 if error is None else error.status,
            concerns=frozenset({notice_of(wanted.cluster)}),
            rhythm=_RHYTHM,
            look_again_s=_LOOK_AGAIN_S,
        )

    return look


@router.get("/clusters/{name}/log/{topic}/{partition}")
async def show(request: Request, wiring: WiringDep, by: Viewer, wanted: WantedDep) -> Response:
    return await screen.page(request, wiring, by, looking_at(wiring, wanted), is_live=not wanted.shows_records)


@router.get("/clusters/{name}/log/{topic}/{partition}/stream")
async def follow(request: Request, wiring: WiringDep, by: Viewer, wanted: WantedDep) -> Response:
    if wanted.shows_records:
        raise InvalidError("keys and values are not refreshed: load the page again for newer ones")
    return screen.stream(request, wiring, by, looking_at(wiring, wanted, asked=AskedIds()))


def _last_abort(entries: tuple[LogEntry, ...]) -> int | None:
    return next((entry.base_offset for entry in reversed(entries) if entry.marker == "ABORT"), None)
