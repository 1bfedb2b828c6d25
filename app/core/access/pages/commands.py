"""The command log: user, command, reason and time of each change."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from fastapi import APIRouter, Request, Response

from app.core.access.service import command_log
from app.core.access.signed_in import Viewer
from app.core.wiring import WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import links_of
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_PAGE = 50


def _looking_at(target: str | None, after: str | None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        page = await command_log.list_commands(uow, target=target or None, after=after, limit=_PAGE)
        pages = links_of(page.next_cursor, partial(screen.url_of, "commands", target=target))
        context = {"commands": page.items, "target": target, "pages": pages}
        return Screen(template="commands/list", title="Command log", context=context, concerns=frozenset())

    return look


@router.get("/commands")
@router.get("/commands/stream")
async def show_list(
    request: Request, wiring: WiringDep, by: Viewer, target: str | None = None, after: str | None = None
) -> Response:
    return await screen.live(request, wiring, by, _looking_at(target, after))
