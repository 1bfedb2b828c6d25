"""HTTP/1.1 that answers malformed requests with a problem document too, before any application gets them.

A connection has time limits as well. One that sends no complete request, or does not read its answer, is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from starlette.requests import HTTPConnection
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from app.kit.web.connection_limit import ConnectionLimit
from app.kit.web.problems import ProblemResponse, title_of

LONGEST_HEAD = 64 * 1024
"""Bytes of request line and headers; longer ones are refused, as is anything but HTTP."""
HEAD_WITHIN_S = 10.0
"""From the connection, or from the last answer, to the end of the headers."""
BODY_WITHIN_S = 60.0
"""From there to the end of the body."""
READ_WITHIN_S = 60.0
"""The time for a client to read the 64 KiB that wait for it, and the rest after the end of its connection."""
_RETRY_AFTER_S = "5"
_AUTHENTICATED = "authenticated"


def authenticated(request: HTTPConnection) -> None:
    """Keep the place of the request's connection under the limit: it came with a valid credential."""
    setattr(request.state, _AUTHENTICATED, True)


class ProblemProtocol(H11Protocol):
    """uvicorn's protocol, which would answer in plain text, and wait forever for the rest of a request."""

    def __init__(
        self,
        limit: ConnectionLimit,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limit = limit
        self._was_authenticated = False
        self._awaited: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn has it
        super().connection_made(transport)
        refused = self._limit.admit(self, self.client[0] if self.client else "")
        if refused is not None:
            self._end_with(503, refused, retry_after=_RETRY_AFTER_S)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._is_read()
        self._limit.leave(self)
        super().connection_lost(exc)

    @property
    def is_authenticated(self) -> bool:
        """A request of this connection had a valid credential, as `authenticated` records."""
        if not self._was_authenticated and self.scope is not None:  # pyright: ignore[reportUnnecessaryComparison] - before the first request
            self._was_authenticated = bool(self.scope.get("state", {}).get(_AUTHENTICATED))
        return self._was_authenticated

    def evict(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_to_be_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._is_read()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        # The next request of the connection has a scope of its own.
        self._was_authenticated = self.is_authenticated
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it is always the same
        self._end_with(400, f"Not HTTP, or the address and headers are longer than {LONGEST_HEAD // 1024} KiB.")

    def _watch(self) -> None:
        """Start a time limit when the next part is expected; bytes that trickle in do not extend it."""
        if self.transport.is_closing():
            # It closes only after all written data was read.
            self._expect_to_be_read()
        awaited = self.conn.their_state if not self.transport.is_closing() else None
        if awaited is self._awaited:
            return
        self._awaited = awaited
        self._stop_timer()
        if awaited is h11.IDLE or awaited is h11.SEND_BODY:
            within_s = HEAD_WITHIN_S if awaited is h11.IDLE else BODY_WITHIN_S
            self._timer = self.loop.call_later(within_s, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expect_to_be_read(self) -> None:
        if self._reading_timer is None:
            self._reading_timer = self.loop.call_later(READ_WITHIN_S, self.transport.abort)

    def _is_read(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        is_head = self._awaited is h11.IDLE
        if is_head and not self.conn.trailing_data[0]:
            # No request was begun: a browser that keeps a spare connection expects no answer.
            self.transport.close()
            self._watch()
        elif not is_head and self.cycle.response_started:
            self.transport.abort()
        else:
            what = "the headers" if is_head else "the body"
            within_s = HEAD_WITHIN_S if is_head else BODY_WITHIN_S
            self._end_with(408, f"The rest of {what} did not arrive within {within_s:g} s. Send the request again.")

    def _end_with(self, status: int, detail: str, *, retry_after: str | None = None) -> None:
        """Answer without the application, and close."""
        problem = ProblemResponse(status, detail, headers=None if retry_after is None else {"Retry-After": retry_after})
        status_line = f"HTTP/1.1 {status} {title_of(status)}".encode("ascii")
        headers = [*problem.raw_headers, (b"connection", b"close")]
        lines = [status_line, *(b"%b: %b" % header for header in headers), b"", b""]
        self.transport.write(b"\r\n".join(lines) + bytes(problem.body))
        self.transport.close()
        self._watch()


def limited_by(limit: ConnectionLimit) -> Callable[..., ProblemProtocol]:
    """Make uvicorn's protocol for each connection of a listener."""

    def made(*args: Any, **options: Any) -> ProblemProtocol:
        return ProblemProtocol(limit, *args, **options)

    return made
