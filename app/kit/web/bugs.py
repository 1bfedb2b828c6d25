"""Unexpected errors: logged completely, answered without details, and with the perimeter's headers."""

from __future__ import annotations

import logging
from urllib.parse import quote

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.web.problems import ProblemResponse

log = logging.getLogger(__name__)


class BugBarrier:
    """ASGI middleware: turns an exception into a 500 problem document, if nothing was sent yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            # No client is connected to be answered; a worker asks again.
            log.info("%s %s: the client closed the connection", scope["method"], quote(scope["path"]))
        except Exception:
            if scope["type"] != "http":
                raise
            # Quoted: a decoded path may hold a line end, and would forge a line of the log.
            log.exception("%s %s failed", scope["method"], quote(scope["path"]))
            if has_begun:
                raise
            problem = ProblemResponse(500, "internal error: the server's log has the details")
            await problem(scope, receive, send)
