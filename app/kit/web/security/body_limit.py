"""Refuse bodies beyond the limit with a problem document, by their announced length or while they arrive."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.web.problems import ProblemResponse

TOO_LARGE = "the request body is larger than the setting request_limit_kib allows"


class BodyLimit:
    """ASGI middleware. FastAPI's own limit answers in plain text and breaks the connection's application."""

    def __init__(self, app: ASGIApp, *, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > self._limit_bytes:
            await ProblemResponse(413, TOO_LARGE, headers={"Connection": "close"})(scope, receive, send)
            return
        taken = 0

        async def counting() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit_bytes:
                raise HTTPException(413, TOO_LARGE, headers={"Connection": "close"})
            return message

        await self._app(scope, counting, send)
