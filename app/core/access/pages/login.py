"""Login by a token or a one-time link, and logout."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from app.core.access.service import tokens
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Session
from app.kit.errors import UnauthenticatedError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Screen
from app.kit.web.security.cookies import clear_session, session_secret, set_session
from app.kit.words import duration_s

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/login")
async def show_form(request: Request, wiring: WiringDep, next: str = "/") -> Response:  # noqa: A002 - the query's name
    return _form(request, wiring, wanted=next)


@router.post("/login")
async def log_in(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    token: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002 - the field's name
) -> Response:
    """Exchange a token for a session. The cookie holds the session's secret, never the token."""
    opening = tokens.create_session(uow, token, lifetime=_lifetime(wiring), now=wiring.clock.now())
    return await _log_in(request, wiring, uow, opening, wanted=next)


@router.get("/login/{secret}")
async def show_link(request: Request, wiring: WiringDep, secret: str) -> Response:
    """Show a page with one button: the prefetch of a mail scanner or browser must not use the link up."""
    shown = Screen(template="login/link", title="Log in", context={"secret": secret})
    return screen.show(request, shown, principal=None, now=wiring.clock.now())


@router.post("/login/{secret}")
async def use_link(request: Request, wiring: WiringDep, uow: Uow, secret: str) -> Response:
    opening = tokens.redeem_one_time_link(uow, secret, session_lifetime=_lifetime(wiring), now=wiring.clock.now())
    return await _log_in(request, wiring, uow, opening, wanted="/")


@router.post("/logout")
async def log_out(request: Request, wiring: WiringDep, uow: Uow) -> Response:
    secret = session_secret(request)
    if secret is not None:
        await tokens.revoke_session(uow, secret, now=wiring.clock.now())
        await uow.commit()
    response = RedirectResponse(screen.url_of("login", said="logged-out"), status_code=303)
    clear_session(response, request)
    return response


async def _log_in(
    request: Request, wiring: Wiring, uow: Uow, opening: Coroutine[Any, Any, tuple[Session, str]], *, wanted: str
) -> Response:
    """Open the session unless this address has failed too often; a failure is counted and shown in the form."""
    address = "" if request.client is None else request.client.host
    wait_s = wiring.login_limit.wait_s(address, now_s=time.monotonic())
    if wait_s > 0:
        opening.close()
        problem = f"Too many failed logins from this address. Try again in {duration_s(wait_s)}."
        return _form(request, wiring, wanted=wanted, problem=problem, status=429)
    try:
        _, secret = await opening
    except UnauthenticatedError as error:
        wiring.login_limit.failed(address, now_s=time.monotonic())
        return _form(request, wiring, wanted=wanted, problem=error.message, status=error.status)
    await uow.commit()
    response = RedirectResponse(_local(wanted), status_code=303)
    set_session(response, request, secret, lifetime_s=int(_lifetime(wiring).total_seconds()))
    return response


def _lifetime(wiring: Wiring) -> timedelta:
    return timedelta(hours=wiring.settings.session_lifetime_hours)


def _form(request: Request, wiring: Wiring, *, wanted: str, problem: str | None = None, status: int = 200) -> Response:
    context = {"next": _local(wanted), "problem": problem}
    shown = Screen(template="login/detail", title="Log in", context=context, status=status)
    return screen.show(request, shown, principal=None, now=wiring.clock.now())


def _local(wanted: str) -> str:
    """Return a path of this server, or `/`: an address elsewhere (`//evil`, `\\evil`) must not be a target."""
    # Browsers leave out tabs and line ends, and read `\\` as `/`; a path of Fenceline has none of them.
    is_path = wanted.startswith("/") and not wanted.startswith("//")
    return wanted if is_path and wanted.isprintable() and "\\" not in wanted else "/"
