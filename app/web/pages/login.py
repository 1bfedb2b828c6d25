"""Logging in by a token or a one-time link, and out again."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from app.domain.access import Principal
from app.services import tokens
from app.web.dependencies import Uow, Wiring, WiringDep
from app.web.pages import screen
from app.web.pages.errors import PageRoute
from app.web.pages.screen import Screen
from app.web.security.cookies import clear_session, session_secret, set_session

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
    if (wait_s := _wait_s(request, wiring)) > 0:
        return _form(request, wiring, wanted=next, problem=_too_many(wait_s), status=429)
    found = await tokens.authenticate(uow, token.strip(), now=wiring.clock.now())
    if found is None:
        wiring.login_limit.failed(_address(request), now_s=time.monotonic())
        problem = "This token is unknown or revoked." if token.strip() else "Paste a token first."
        return _form(request, wiring, wanted=next, problem=problem, status=401)
    return await _begin_session(request, wiring, uow, found, token=token.strip(), wanted=next)


@router.get("/login/{secret}")
async def show_link(request: Request, wiring: WiringDep, secret: str) -> Response:
    """A one-time link opens a page with one button: a mail scanner's or a browser's own look must not use it up."""
    shown = Screen(template="login/link", title="Log in", context={"secret": secret})
    return screen.show(request, shown, principal=None, now=wiring.clock.now())


@router.post("/login/{secret}")
async def use_link(request: Request, wiring: WiringDep, uow: Uow, secret: str) -> Response:
    if (wait_s := _wait_s(request, wiring)) > 0:
        return _form(request, wiring, wanted="/", problem=_too_many(wait_s), status=429)
    found = await tokens.redeem_one_time_link(uow, secret, now=wiring.clock.now())
    if found is None:
        wiring.login_limit.failed(_address(request), now_s=time.monotonic())
        problem = (
            "This link was used already, or its time is over. Log in with a token, or ask for a new one: "
            "fenceline tokens create NAME --role ROLE"
        )
        return _form(request, wiring, wanted="/", problem=problem, status=401)
    return await _begin_session(request, wiring, uow, found, token=None, wanted="/")


@router.post("/logout")
async def log_out(request: Request, wiring: WiringDep, uow: Uow) -> Response:
    secret = session_secret(request)
    if secret is not None:
        await tokens.revoke_session(uow, secret, now=wiring.clock.now())
        await uow.commit()
    response = RedirectResponse(screen.url_of("login", said="logged-out"), status_code=303)
    clear_session(response, request)
    return response


async def _begin_session(
    request: Request, wiring: Wiring, uow: Uow, principal: Principal, *, token: str | None, wanted: str
) -> Response:
    lifetime_hours = wiring.settings.session_lifetime_hours
    _, secret = await tokens.create_session(
        uow, principal=principal, token=token, lifetime_hours=lifetime_hours, now=wiring.clock.now()
    )
    await uow.commit()
    response = RedirectResponse(_local(wanted), status_code=303)
    set_session(response, request, secret, lifetime_s=int(lifetime_hours * 3_600))
    return response


def _form(request: Request, wiring: Wiring, *, wanted: str, problem: str | None = None, status: int = 200) -> Response:
    context = {"next": _local(wanted), "problem": problem}
    shown = Screen(template="login/detail", title="Log in", context=context, status=status)
    return screen.show(request, shown, principal=None, now=wiring.clock.now())


def _local(wanted: str) -> str:
    """A path of this server, or `/`: an address elsewhere (`//evil`, `\\evil`) is no place to send somebody to."""
    parts = urlsplit(wanted)
    is_local = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc
    return wanted if is_local else "/"


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _wait_s(request: Request, wiring: Wiring) -> float:
    return wiring.login_limit.wait_s(_address(request), now_s=time.monotonic())


def _too_many(wait_s: float) -> str:
    return f"Too many failed logins from this address. Try again in {wait_s:.0f} s."
