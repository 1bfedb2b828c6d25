"""Access: tokens by name and role, and browsers that are logged in.

A new token's secret is shown once, on the answer to the form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.core.access.service import tokens
from app.core.access.signed_in import may
from app.core.wiring import WiringDep
from app.kit.access import Principal, Role, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, NotFoundError, Problem
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import by_field, problems_of
from app.kit.web.pages.screen import Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)


async def _look(
    uow: UnitOfWork,
    *,
    by: Principal,
    now: datetime,
    values: Mapping[str, str] | None = None,
    problems: Mapping[str, Sequence[Problem]] | None = None,
    issued: Mapping[str, str] | None = None,
    status: int = 200,
) -> Screen:
    context = {
        "tokens": await tokens.list_tokens(uow, by=by),
        "sessions": await tokens.list_sessions(uow, by=by, now=now),
        "roles": list(Role),
        "values": values or {"role": Role.VIEWER},
        "problems": problems or {},
        "issued": issued,
    }
    return Screen(template="tokens/list", title="Access", context=context, status=status)


@router.get("/tokens")
async def show_list(
    request: Request, wiring: WiringDep, uow: Uow, by: Annotated[Principal, may(Verb.VIEW_TOKENS)]
) -> Response:
    return screen.show(request, await _look(uow, by=by, now=wiring.clock.now()), principal=by, now=wiring.clock.now())


@router.post("/tokens")
async def create(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.CREATE_TOKEN)],
    name: Annotated[str, Form()] = "",
    role: Annotated[Role, Form()] = Role.VIEWER,
) -> Response:
    now = wiring.clock.now()
    try:
        created, secret = await tokens.create_token(uow, name=name.strip(), role=role, by=by, why=None, now=now)
        await uow.commit()
    except FencelineError as error:
        async with wiring.unit_of_work() as fresh:
            problems = by_field(problems_of(error), fields=("name", "role"))
            values = {"name": name, "role": role}
            shown = await _look(fresh, by=by, now=now, values=values, problems=problems, status=error.status)
        return screen.show(request, shown, principal=by, now=now)
    async with wiring.unit_of_work() as fresh:
        shown = await _look(fresh, by=by, now=now, issued={"name": created.name, "secret": secret})
    # Not a redirect: the secret must not travel in an address.
    return screen.show(request, shown, principal=by, now=now)


@router.post("/tokens/{name}/revoke")
async def revoke(
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.REVOKE_TOKEN)],
    name: str,
    why: Annotated[str, Form()] = "",
) -> Response:
    try:
        await tokens.revoke_token(uow, name=name, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except NotFoundError:
        return screen.see("tokens", said="already-gone")
    return screen.see("tokens", said="token-revoked")


@router.post("/sessions/{id}/end")
async def end_session(
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.END_SESSION)],
    id: str,  # noqa: A002 - the path's name
    why: Annotated[str, Form()] = "",
) -> Response:
    try:
        await tokens.end_session(uow, id, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except NotFoundError:
        return screen.see("tokens", said="already-gone")
    return screen.see("tokens", said="session-ended")
