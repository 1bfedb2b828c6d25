"""The page of the registry: every transactional id of a cluster, with owner, use and expiry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.ids.pages.chart import id_growth_chart_of
from app.core.ids.registry import Only, Orphan, RegisteredId, RegistryQuery, RegistrySort
from app.core.ids.service import registry as id_registry
from app.core.observing.pages.listing import ListSelection
from app.core.observing.pages.reading import reading_of
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import AfterName
from app.kit.web.pages.screen import Look, Screen
from app.kit.words import duration, moment

router = APIRouter(route_class=PageRoute, include_in_schema=False)
PAGE_SIZE = 50
_LOOK_AGAIN_S = 10.0

_ONLY = (
    ("", "all"),
    (Only.OURS, "managed"),
    (Only.FOREIGN, "foreign"),
    (Only.ORPHANED, "orphaned"),
    (Only.ARCHIVED, "archived"),
    (Only.CONTESTED, "contested"),
    (Only.UNSEEN, "owned, not on the brokers"),
)
_SORTS = (
    (RegistrySort.ID, "by id"),
    (RegistrySort.EXPIRES, "soonest to expire first"),
    (RegistrySort.CHANGED, "changed last first"),
)
_ORPHANED = {
    Orphan.NO_PIPELINE: "It has the form of a Fenceline id, and no pipeline here owns it: its pipeline was deleted, or "
    "it belongs to another Fenceline.",
    Orphan.NO_TASK: "No task of its pipeline's definition uses it any more.",
    Orphan.NO_MAPPING: "Its pipeline owns it, and no partition is read under it.",
}


class RegistrySelection(ListSelection):
    path = ("mappings", "ids")
    fields = ("only", "sort")

    def __init__(
        self,
        cluster: Annotated[str, Query(max_length=100)] = "",
        search: Annotated[str, Query(max_length=1000)] = "",
        only: Annotated[str, Query(pattern="|".join(f"^{value}$" for value, _ in _ONLY))] = "",
        sort: RegistrySort = RegistrySort.ID,
        after: AfterName = None,
    ) -> None:
        super().__init__(cluster, search, after)
        self.only = only
        self.sort = sort

    def query(self) -> RegistryQuery:
        return RegistryQuery(search=self.search, only=Only(self.only) if self.only else None, sort=self.sort)


WantedDep = Annotated[RegistrySelection, Depends()]


def looking_at_list(wiring: Wiring, wanted: RegistrySelection) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        context = await wanted.form(uow, {"only": _ONLY, "sort": _SORTS})
        cluster = context["cluster"]
        # The brokers' data change all the time, and owners change rarely.
        shown = Screen(
            template="id_registry/list",
            title="Transactional ids",
            context=context,
            concerns=frozenset(),
            look_again_s=_LOOK_AGAIN_S,
        )
        if not cluster:
            return shown
        found = await id_registry.get_registry(
            uow,
            wiring.observations,
            wiring.surveys,
            cluster=cluster,
            query=wanted.query(),
            now=now,
            after=wanted.after,
            limit=PAGE_SIZE,
        )
        growth = await id_registry.get_growth(uow, cluster=cluster, now=now)
        context |= {
            **wanted.page(cluster, found, [_row(one) for one in found.items]),
            "expires_after": None if found.expiration_ms is None else duration(found.expiration_ms),
            "growth": growth,
            "growth_chart": id_growth_chart_of(growth),
            "reading": reading_of(wiring.observations.of(cluster), found.journal, now=now),
            "contested_url": screen.url_of("mappings", "ids", cluster=cluster, only=Only.CONTESTED.value),
        }
        return shown

    return look


def _row(one: RegisteredId) -> Mapping[str, Any]:
    state = None if one.live is None else one.live.state
    return {
        "id": one.transactional_id,
        "standing": one.standing,
        "owner": one.owner,
        "partitions": one.partitions,
        "state": None if state is None else state.status.word,
        "changed_at": None if state is None else moment(state.last_update_ms),
        "expires_at": moment(one.expires_at_ms),
        "is_open": one.live is not None and one.live.is_open,
        "contested": one.contested,
        "archived": None if one.owner is None else one.owner.archived,
        "orphaned": "" if one.orphan is None else _ORPHANED[one.orphan],
    }


@router.get("/mappings/ids")
@router.get("/mappings/ids/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, wanted: WantedDep) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(wiring, wanted))
