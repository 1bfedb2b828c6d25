"""The path under which a proxy shows this server, such as `/fenceline`: removed from requests, added to every link.

Inside, addresses are without it. A proxy may remove the path or leave it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

from starlette.datastructures import URL, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BASE: ContextVar[str] = ContextVar("base_path", default="")
# The places of addresses in a page. Values from outside cannot match: templates escape their quotation marks.
_ADDRESS = re.compile(r'(?<=\s)((?:href|src|action|formaction|hx-[a-z]+(?::[a-z]+)?)=")/(?!/)')


class BasePath:
    """ASGI middleware: requests lose the base path, and redirects get it."""

    def __init__(self, app: ASGIApp, *, base_path: str) -> None:
        """`base_path` begins with a slash and does not end with one; empty: there is none."""
        self._app = app
        self._base = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._base:
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == self._base or path.startswith(f"{self._base}/"):
            rest = path[len(self._base) :] or "/"
            raw: bytes = scope.get("raw_path") or path.encode()
            scope = {**scope, "path": rest, "raw_path": raw[len(self._base.encode()) :] or b"/"}

        origin = str(URL(scope=scope).replace(path="", query="", fragment=""))

        async def send_redirects_below(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if (location := headers.get("location")) is not None:
                    # Starlette's own redirects, from an address with a trailing slash, have an absolute address.
                    ours = location.removeprefix(origin) if location.startswith(f"{origin}/") else location
                    headers["location"] = below(ours)
            await send(message)

        was = _BASE.set(self._base)
        try:
            await self._app(scope, receive, send_redirects_below)
        finally:
            _BASE.reset(was)


def base_path() -> str:
    """The base path of the request that is being answered."""
    return _BASE.get()


def below(address: str) -> str:
    """Return a path of this server as a browser must request it; other addresses stay as they are."""
    is_path = address.startswith("/") and not address.startswith("//")
    return f"{_BASE.get()}{address}" if is_path else address


def links_below(html: str) -> str:
    """A page, or a part of one, whose links lead below the base path."""
    base = _BASE.get()
    return _ADDRESS.sub(rf"\g<1>{base}/", html) if base else html
