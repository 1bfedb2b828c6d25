"""An error as a page: the error in one sentence, and links to continue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute

from app.kit.errors import FencelineError, UnauthenticatedError, UnavailableError
from app.kit.web.dependencies import WebWiring
from app.kit.web.pages import screen
from app.kit.web.pages.screen import Screen


def error_page(
    request: Request, *, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Render the page of an error. It needs neither database nor session, so it works when those have failed."""
    wiring = request.app.state.wiring
    assert isinstance(wiring, WebWiring)  # noqa: S101 - set by the app factory
    shown = Screen(template="errors/detail", title=title, context={"status": status, "detail": detail}, status=status)
    response = screen.show(request, shown, principal=None, now=wiring.clock.now())
    response.headers.update(headers or {})
    return response


def _address_of(request: Request) -> str:
    """Return path and query, without the parameter of a form's message."""
    query = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "said"])
    return request.url.path + (f"?{query}" if query else "")


class PageRoute(APIRoute):
    """A route whose errors are pages: a browser without a login goes to the login form."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # pyright: ignore[reportIncompatibleMethodOverride] - Coroutine there, the same to its caller
        handler: Callable[[Request], Any] = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except UnauthenticatedError:
                if "text/event-stream" in request.headers.get("accept", ""):
                    raise
                wanted = _address_of(request) if request.method == "GET" else "/"
                return RedirectResponse(screen.url_of("login", next=None if wanted == "/" else wanted), status_code=303)
            except FencelineError as error:
                headers = {"retry-after": "2"} if isinstance(error, UnavailableError) else None
                return error_page(
                    request, status=error.status, title=error.title, detail=error.message, headers=headers
                )

        return handle
