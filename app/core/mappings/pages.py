"""Mappings: the owner of each partition, now or at a given time, and one partition over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.clusters import service as clusters
from app.core.mappings import service as mappings
from app.core.mappings.mapping import OwnershipFilter, PartitionMapping, PartitionOwnership
from app.core.overview.service import LIST_LIMIT
from app.core.wiring import WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import Problem
from app.kit.moments import WordsError, moment_of
from app.kit.web.api.words import NO_NUL
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import AfterName, links_of
from app.kit.web.pages.screen import Look, Screen
from app.kit.web.pages.timeline import Point, Timeline, Tone, Track, timeline_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Cluster = Annotated[str, Query(max_length=100)]
PAGE_SIZE = 50
DRAWN = 200
"""The number of newest ownership intervals in the timeline; the table below pages through all of them."""

_Row = Mapping[str, Any]


def looking_at_list(*, cluster: str, search: str, at: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        registered = [one.name for one in await clusters.list_clusters(uow)]
        chosen = cluster or (registered[0] if registered else "")
        context: dict[str, Any] = {
            "clusters": registered,
            "cluster": chosen,
            "search": search,
            "at": at,
            "moment": None,
            "problems": {},
            "rows": (),
            "left_out": 0,
            "all_url": screen.url_of("mappings", cluster=chosen),
        }
        if chosen:
            try:
                moment = moment_of(at, now=now) if at else None
            except WordsError as error:
                context["problems"] = {"at": (Problem(field="at", message=str(error)),)}
            else:
                rows = [row for row in await _rows(uow, chosen, moment) if search.casefold() in row["name"].casefold()]
                context |= {
                    "moment": moment,
                    "rows": rows[:LIST_LIMIT],
                    "left_out": max(0, len(rows) - LIST_LIMIT),
                    "unowned": sum(1 for row in rows if row["owner"] is None),
                }
        status = 422 if context["problems"] else 200
        return Screen(template="mappings/list", title="Owners", context=context, status=status)

    return look


async def _rows(uow: UnitOfWork, cluster: str, moment: datetime | None) -> list[_Row]:
    if moment is None:
        return [_row(one) for one in await mappings.list_mappings_of_cluster(uow, cluster)]
    found: list[PartitionOwnership] = []
    after: str | None = None
    while True:
        page = await mappings.list_owner_history_of_cluster(
            uow, cluster, OwnershipFilter(at=moment), after=after, limit=LIST_LIMIT
        )
        found += page.items
        after = page.next_cursor
        if after is None:
            return [_row(one) for one in sorted(found, key=lambda one: (one.group, one.topic, one.partition))]


def _row(one: PartitionMapping | PartitionOwnership) -> _Row:
    """Return a partition as the list shows it, now or at a given time."""
    return {
        "name": f"{one.topic}-{one.partition}",
        "topic": one.topic,
        "partition": one.partition,
        "group": one.group,
        "pipeline": one.pipeline,
        "transactional_id": one.transactional_id,
        "assigned_id": one.assigned_id if isinstance(one, PartitionMapping) else None,
        "archived": one.archived if isinstance(one, PartitionMapping) else None,
        "owner": one.owner,
        "producer_id": one.producer_id,
        "epoch": one.epoch,
        "generation": one.generation,
        "since": one.since,
    }


def looking_at_one(*, cluster: str, group: str, topic: str, partition: int, after: str | None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        wanted = OwnershipFilter(group=group, topic=topic, partition=partition)
        found = await mappings.list_owner_history_of_cluster(uow, cluster, wanted, after=after, limit=PAGE_SIZE)
        drawn = await mappings.list_owner_history_of_cluster(uow, cluster, wanted, limit=DRAWN)
        mapping = await mappings.find_mapping(uow, cluster, group=group, topic=topic, partition=partition)
        here = {"cluster": cluster, "group": group, "topic": topic, "partition": str(partition)}
        name = f"{topic}-{partition}"
        context: dict[str, Any] = {
            "cluster": cluster,
            "group": group,
            "topic": topic,
            "partition": partition,
            "name": name,
            "mapping": mapping,
            "stretches": found.items,
            "owners": len({_place(one) for one in drawn.items}),
            "timeline": _timeline(drawn.items, now=now),
            "pages": links_of(found.next_cursor, partial(screen.url_of, "mappings", "partition", **here), after=after),
        }
        is_known = mapping is not None or bool(drawn.items)
        concerns = frozenset({f"pipeline:{mapping.pipeline}"}) if mapping else frozenset[str]()
        return Screen(
            template="mappings/detail",
            title=name,
            context=context,
            status=200 if is_known else 404,
            concerns=concerns,
        )

    return look


def _timeline(stretches: Sequence[PartitionOwnership], *, now: datetime) -> Timeline | None:
    """Return its owners, their producers and the group's generations, with the times without an owner."""
    oldest_first = sorted(stretches, key=lambda one: one.since)
    tracks = [
        Track(name="owner", spans=list(_spans(oldest_first, _owner_point))),
        Track(name="producer : epoch", spans=list(_spans(oldest_first, _producer_point))),
        Track(name="generation", spans=list(_spans(oldest_first, _generation_point))),
    ]
    return timeline_of("Owner, producer and generation of this partition over time", tracks, now=now)


def _spans(stretches: Iterable[PartitionOwnership], point_of: Any) -> Iterator[Point]:
    """Yield a span for each change of the reported value, and one for each time without an owner."""
    points: list[Point] = []
    ordered = list(stretches)
    for one, after in pairwise([*ordered, None]):
        if one is None:
            continue
        points.append(point_of(one))
        if one.until is not None and (after is None or after.since > one.until):
            points.append(Point(one.until, "no owner", "no owner", Tone.LATE))
    before: Point | None = None
    for point in points:
        if before is None or (before.label, before.title, before.tone) != (point.label, point.title, point.tone):
            yield point
        before = point


def _owner_point(one: PartitionOwnership) -> Point:
    who = one.owner
    title = f"instance {who.ordinal}, task {who.task}, lease {who.lease}, attempt {who.attempt} on {who.host}"
    return Point(one.since, f"{who.ordinal}.{who.task}", title)


def _producer_point(one: PartitionOwnership) -> Point:
    if one.producer_id is None:
        return Point(one.since, "", "producer not reported")
    label = f"{one.producer_id}:{one.epoch}"
    return Point(one.since, label, f"{label} under {one.transactional_id}")


def _generation_point(one: PartitionOwnership) -> Point:
    if one.generation is None:
        return Point(one.since, "", "generation not reported")
    return Point(one.since, f"{one.generation}", f"generation {one.generation}")


def _place(one: PartitionOwnership) -> tuple[str, int, int]:
    return one.owner.run_id, one.owner.ordinal, one.owner.task


@router.get("/mappings")
@router.get("/mappings/stream")
async def show_list(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    cluster: Cluster = "",
    search: Annotated[str, Query(max_length=1000)] = "",
    at: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    look = looking_at_list(cluster=cluster, search=search.strip(), at=at.strip())
    return await screen.live(request, wiring, by, look)


@router.get("/mappings/partition")
@router.get("/mappings/partition/stream")
async def show(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    cluster: Cluster,
    group: Annotated[str, Query(max_length=32_767, pattern=NO_NUL)],
    topic: Annotated[str, Query(max_length=249, pattern=r"^[A-Za-z0-9._-]+$")],
    partition: Annotated[int, Query(ge=0, lt=2**31)],
    after: AfterName = None,
) -> Response:
    look = looking_at_one(cluster=cluster, group=group, topic=topic, partition=partition, after=after)
    return await screen.live(request, wiring, by, look)
