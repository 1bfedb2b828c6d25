"""Render a page and its live region from the same view of the data.

A noun's module gives a `Look`: from a unit of work and a user it returns the template and context. `page` renders it
inside `base.html`; `stream` renders the region alone, again after each change, and sends it if it differs. So the event
stream sends the same content as a reload. A handler with two routes, the page's and the same with `/stream` at the end,
answers both by `live`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sse_starlette import EventSourceResponse

from app.kit import access, words
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, NotFoundError, UnavailableError
from app.kit.printable import clipboard_text
from app.kit.web.base_path import links_below
from app.kit.web.dependencies import Credential, WebWiring, credential_of
from app.kit.web.pages import display
from app.kit.web.pages.admission import StreamAdmission
from app.kit.web.pages.assets import STYLESHEETS, asset_integrity, asset_url
from app.kit.web.pages.navigation import Tabs, cluster_tabs, door_of, doors, places_behind
from app.kit.web.pages.said import sentence_of
from app.kit.web.pages.shared_looks import STORED, Frame, Rhythm, SeenFrame, SharedLooks, Watching
from app.kit.web.pages.stream_limit import LimitedStream, StreamLimit
from app.kit.web.used_query import query_names_of

TEMPLATES_DIR = Path(__file__).resolve().parents[4] / "templates"

# The longest time for which a revoked session still gets updates.
_ASK_AGAIN_S = 1.0
_PING_S = 15
_STREAM = "/stream"
# Named events, which app.js listens to.
_GONE = "gone"
_AWAY = "away"
_ENDED = Frame(event="session-ended", data="session-ended", is_last=True)


@dataclass(frozen=True, kw_only=True)
class Screen:
    """The result of a view: the page's template, and its region's beside it, with the context of both.

    template: such as `pipelines/detail`; the region is `pipelines/_detail`.
    concerns: the pipelines and runs on the page, as their changes are announced; None: all of them.
    rhythm: the interval of its region's updates. look_again_s: as of `Seen`.
    tabs: of the pipeline that the page is about. A cluster's tabs follow from the address.
    """

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200
    concerns: frozenset[str] | None = None
    rhythm: Rhythm = STORED
    look_again_s: float | None = None
    tabs: Tabs | None = None


Look = Callable[[UnitOfWork, Principal, datetime], Awaitable[Screen]]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES_DIR),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Jinja types its tables by its own contents.
    cast("dict[str, Any]", environment.globals).update(
        asset=asset_url,
        integrity=asset_integrity,
        stylesheets=STYLESHEETS,
        Verb=Verb,
        url=url_of,
        doors=doors,
        door_of=door_of,
        places_behind=places_behind,
    )
    cast("dict[str, Any]", environment.filters).update(
        count=words.number,
        rate=display.rate,
        ms=words.milliseconds,
        duration=words.duration,
        size=words.size,
        relative=words.ago,
        moment=words.moment,
        absolute=display.absolute,
        short=display.short,
        prose=display.prose,
        words=words.words,
        tone=display.tone,
        clipboard=clipboard_text,
    )
    return environment


def url_of(*parts: str, **query: str | None) -> str:
    """Return a path of this server from raw parts, each escaped: `url_of("pipelines", name, "edit")`."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


_JINJA = _environment()


def render(template: str, context: Mapping[str, Any]) -> str:
    return links_below(_JINJA.get_template(f"{template}.html").render(context))


def _base_context(request: Request, *, principal: Principal | None, now: datetime) -> dict[str, Any]:
    def may(verb: Verb) -> bool:
        return principal is not None and access.allows(principal.role, verb)

    return {
        "path": request.url.path,
        "principal": principal,
        "may": may,
        "now": now,
        "said": sentence_of(request.query_params.get("said")),
        "stream_url": None,
        "refused": None,
    }


def show(
    request: Request, screen: Screen, *, principal: Principal | None, now: datetime, stream_url: str | None = None
) -> HTMLResponse:
    """Render a page from present data: inside `base.html`, with its stream if it has one."""
    context = {
        **_base_context(request, principal=principal, now=now),
        "title": screen.title,
        "tabs": screen.tabs or _cluster_tabs(request),
        "region": _region(screen.template),
        "stream_url": stream_url,
        **screen.context,
    }
    return HTMLResponse(render(screen.template, context), status_code=screen.status)


def _cluster_tabs(request: Request) -> Tabs | None:
    route = request.scope.get("route")
    # An address without a page has none.
    return None if route is None else cluster_tabs(route.path, request.path_params, request.query_params)


async def live(
    request: Request, wiring: WebWiring, principal: Principal, look: Look, *, is_live: bool = True
) -> HTMLResponse | EventSourceResponse:
    """Answer with the page or its stream, by the matched route, as a name may be "stream", too."""
    if request.scope["route"].path.endswith(_STREAM):
        return stream(request, wiring, principal, look)
    return await page(request, wiring, principal, look, is_live=is_live)


async def page(
    request: Request,
    wiring: WebWiring,
    principal: Principal,
    look: Look,
    *,
    is_live: bool = True,
    refused: FencelineError | None = None,
    at: Sequence[str] | None = None,
) -> HTMLResponse:
    """Make the view once and answer with the complete page.

    is_live: its stream has the same address with `/stream` at the end.
    refused: the error of a form's action; shown above the page, with the error's status.
    at: the page's own path, if a form elsewhere led to it.
    """
    now = wiring.clock.now()
    async with wiring.unit_of_work() as uow:
        screen = await look(uow, principal, now)
    path = request.url.path if at is None else url_of(*at)
    if refused is not None:
        screen = replace(screen, status=refused.status, context={**screen.context, "refused": refused})
    stream_url = _stream_url(path, request) if is_live else None
    return show(request, screen, principal=principal, now=now, stream_url=stream_url)


def fragment(request: Request, screen: Screen, *, principal: Principal, now: datetime) -> HTMLResponse:
    """Render the region alone, as the stream sends it."""
    context = {**_base_context(request, principal=principal, now=now), **screen.context}
    return HTMLResponse(render(_region(screen.template), context), status_code=screen.status)


def stream(request: Request, wiring: WebWiring, principal: Principal, look: Look) -> EventSourceResponse:
    """The page's region now, and again after every change, until the browser goes or its session ends.

    Each frame is the complete state, so a reconnecting browser needs no earlier one. Viewers of one address differ in
    the role only, so those of one role share each view.
    """
    key = (request.url.path, _used_query(request), principal.role)
    answer = LimitedStream(_frames(request, wiring, principal, look, key), ping=_PING_S)
    limit: StreamLimit = request.app.state.stream_limit
    return answer.within(limit, principal.name, key)


def _used_query(request: Request) -> tuple[tuple[str, str], ...]:
    """Return the part of the query that its route reads: addresses that differ elsewhere show the same."""
    used = query_names_of(request.scope["route"])
    given = [(name, value) for name, value in request.query_params.multi_items() if name in used]
    return tuple(sorted(given, key=lambda item: item[0]))


async def _frames(
    request: Request, wiring: WebWiring, principal: Principal, look: Look, key: Hashable
) -> AsyncGenerator[bytes]:
    async def take() -> SeenFrame:
        return await _seen(request, wiring, principal, look)

    looks: SharedLooks = request.app.state.looks
    admission: StreamAdmission = request.app.state.admission
    credential = credential_of(request)
    assert credential is not None  # noqa: S101 - the route has just authenticated the user
    asked_at = time.monotonic()
    stopping = asyncio.ensure_future(wiring.stopping.wait())
    try:
        with admission.watch(credential.secret):
            async with looks.watch(key, take, wiring.changes) as watching:
                while True:
                    frame = await _frame_or_stop(watching, stopping)
                    if stopping.done():
                        return
                    if time.monotonic() - asked_at >= _ASK_AGAIN_S:
                        try:
                            now = await _principal_now(wiring, admission, credential)
                        except UnavailableError:
                            # The view has the same error from Postgres, and reports it.
                            now = principal
                        if now is None:
                            # Without this event the browser would see a broken connection, and reconnect.
                            yield _ENDED.encoded
                            return
                        if now.role is not principal.role:
                            return
                        asked_at = time.monotonic()
                    if frame is not None:
                        yield frame.encoded
                        if frame.is_last:
                            return
    finally:
        stopping.cancel()


async def _principal_now(wiring: WebWiring, admission: StreamAdmission, credential: Credential) -> Principal | None:
    if credential.is_session:
        return await admission.principal_of(credential.secret)
    return await admission.shared(credential.secret, lambda: wiring.principal_of(credential))


async def _seen(request: Request, wiring: WebWiring, principal: Principal, look: Look) -> SeenFrame:
    now = wiring.clock.now()
    try:
        async with wiring.unit_of_work() as uow:
            screen = await look(uow, principal, now)
    except NotFoundError:
        return SeenFrame(frame=Frame(event=_GONE, data=_GONE, is_last=True))
    except UnavailableError as error:
        # The screen keeps its content; the browser shows that it is not live.
        return SeenFrame(frame=Frame(event=_AWAY, data=error.message))
    # The frame is shared by all viewers, so it has no message of one user's form.
    context = {**_base_context(request, principal=principal, now=now), "said": None, **screen.context}
    frame = Frame(data=render(_region(screen.template), context))
    return SeenFrame(
        frame=frame,
        concerns=screen.concerns,
        rhythm=screen.rhythm,
        look_again_s=screen.look_again_s,
    )


async def _frame_or_stop(watching: Watching, stopping: asyncio.Future[Any]) -> Frame | None:
    """Return the next frame; None when the server stops, or when the sessions are to be checked again."""
    coming = asyncio.ensure_future(watching.newer(timeout_s=_ASK_AGAIN_S))
    try:
        await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _region(template: str) -> str:
    folder, _, name = template.rpartition("/")
    return f"{folder}/_{name}"


def _stream_url(path: str, request: Request) -> str:
    # The message after a form is shown once, not in every frame.
    query = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "said"])
    return f"{path.rstrip('/')}{_STREAM}" + (f"?{query}" if query else "")


def see(*parts: str, said: str | None = None, **query: str | None) -> RedirectResponse:
    """Redirect to the result of a form (303), with a message about it."""
    return RedirectResponse(url_of(*parts, said=said, **query), status_code=303)
