"""The pages of webhooks: the receivers of alerts, and their deliveries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import may
from app.core.alerts.alert import AlertKind
from app.core.alerts.webhook import Webhook
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, NotFoundError, Problem
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import by_field, problems_of
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.kit.words import words
from app.products.webhooks import service as webhooks

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Viewer = Annotated[Principal, may(Verb.VIEW_WEBHOOKS)]
_FIELDS = ("name", "url", "secrets", "kinds")
_KINDS = tuple((kind, words(kind)) for kind in AlertKind if kind is not AlertKind.TEST)
_PAGE = 50

Problems = Mapping[str, Sequence[Problem]]


def looking_at_list(values: Mapping[str, object] | None = None, problems: Problems | None = None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del now
        context = {
            "lines": await webhooks.list_webhooks(uow, by=principal),
            "kinds": _KINDS,
            "values": values or {},
            "problems": problems or {},
        }
        return Screen(template="webhooks/list", title="Webhooks", context=context, concerns=frozenset())

    return look


def looking_at_one(
    name: str, after: str | None, values: Mapping[str, object] | None = None, problems: Problems | None = None
) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del now
        line = await webhooks.get_webhook(uow, name, by=principal)
        found = await webhooks.list_deliveries(uow, name, by=principal, after=after, limit=_PAGE)
        before = {"url": line.address, "secrets": "\n".join(line.webhook.secrets), "kinds": line.webhook.kinds}
        context = {
            "line": line,
            "deliveries": found.items,
            "pages": links_of(found.next_cursor, partial(screen.url_of, "webhooks", name)),
            "kinds": _KINDS,
            "values": values or before,
            "problems": problems or {},
        }
        return Screen(template="webhooks/detail", title=name, context=context, concerns=frozenset())

    return look


@router.get("/webhooks")
@router.get("/webhooks/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer) -> Response:
    return await screen.live(request, wiring, by, looking_at_list())


@router.post("/webhooks")
async def add(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.ADD_WEBHOOK)],
    name: Annotated[str, Form()] = "",
    url: Annotated[str, Form()] = "",
    secrets: Annotated[str, Form()] = "",
    kinds: Annotated[tuple[AlertKind, ...], Form()] = (),
    why: Annotated[str, Form()] = "",
) -> Response:
    try:
        await webhooks.add_webhook(
            uow,
            name=name.strip(),
            url=url.strip(),
            secrets=secrets.split(),
            kinds=kinds,
            allowed_hosts=wiring.settings.allowed_webhook_hosts,
            by=by,
            why=why or None,
            now=wiring.clock.now(),
        )
        await uow.commit()
    except FencelineError as error:
        values = {"name": name, "url": url, "secrets": secrets, "kinds": kinds, "why": why}
        problems = by_field(problems_of(error), fields=_FIELDS)
        return await _again(request, wiring, by, looking_at_list(values, problems), status=error.status)
    return screen.see("webhooks", name.strip(), said="webhook-added")


@router.get("/webhooks/{name}")
@router.get("/webhooks/{name}/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_one(name, after))


@router.post("/webhooks/{name}/change")
async def change(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.CHANGE_WEBHOOK)],
    name: str,
    url: Annotated[str, Form()] = "",
    secrets: Annotated[str, Form()] = "",
    kinds: Annotated[tuple[AlertKind, ...], Form()] = (),
    why: Annotated[str, Form()] = "",
) -> Response:
    try:
        await webhooks.change_webhook(
            uow,
            name,
            url=url.strip(),
            secrets=secrets.split(),
            kinds=kinds,
            allowed_hosts=wiring.settings.allowed_webhook_hosts,
            by=by,
            why=why or None,
            now=wiring.clock.now(),
        )
        await uow.commit()
    except FencelineError as error:
        values = {"url": url, "secrets": secrets, "kinds": kinds}
        problems = by_field(problems_of(error), fields=_FIELDS)
        return await _again(request, wiring, by, looking_at_one(name, None, values, problems), status=error.status)
    return screen.see("webhooks", name, said="webhook-changed")


async def _again(request: Request, wiring: WiringDep, by: Principal, look: Look, *, status: int) -> Response:
    """Show the form with its input and its problems; read again, as an error ends its unit of work."""
    now = wiring.clock.now()
    async with wiring.unit_of_work() as fresh:
        shown = await look(fresh, by, now)
    return screen.show(
        request,
        Screen(template=shown.template, title=shown.title, context=shown.context, status=status),
        principal=by,
        now=now,
    )


Act = Callable[..., Awaitable[Webhook]]


def _post(word: str, verb: Verb, act: Act, *, said: str) -> None:
    """A form with a reason only."""
    allowed = may(verb)

    async def do(
        wiring: WiringDep, uow: Uow, name: str, by: Principal = allowed, why: Annotated[str, Form()] = ""
    ) -> Response:
        await act(uow, name, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
        return screen.see("webhooks", name, said=said)

    router.add_api_route(f"/webhooks/{{name}}/{word}", do, methods=["POST"], name=f"{word} webhook")


_post("pause", Verb.PAUSE_WEBHOOK, webhooks.pause_webhook, said="webhook-paused")
_post("resume", Verb.RESUME_WEBHOOK, webhooks.resume_webhook, said="webhook-resumed")
_post("test", Verb.TEST_WEBHOOK, webhooks.send_test, said="webhook-test")


@router.post("/webhooks/{name}/remove")
async def remove(
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.REMOVE_WEBHOOK)],
    name: str,
    why: Annotated[str, Form()] = "",
) -> Response:
    try:
        await webhooks.remove_webhook(uow, name, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except NotFoundError:
        return screen.see("webhooks", said="already-gone")
    return screen.see("webhooks", said="webhook-removed")
