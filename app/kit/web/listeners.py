"""Two listeners in one process: sockets are bound first, so that a used port is reported before any start."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from sse_starlette.sse import AppStatus

from app.kit.web.connection_limit import ConnectionLimit
from app.kit.web.http_protocol import LONGEST_HEAD, limited_by

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastapi import FastAPI

_GRACE_S = 3
HANDSHAKE_WITHIN_S = 5.0
"""For the TLS handshake. Until its end, a connection takes a descriptor and is not counted."""


class ListenError(Exception):
    """A listener cannot be opened; the message has its address, the reason and the setting."""


def bind(host: str, port: int, *, setting: str) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one. Raises ListenError.

    setting: name of the setting that chooses this port, for the message.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Listen now, not with the server: on Linux two sockets with SO_REUSEADDR may bind one port. Only the second
        # `listen` fails, too late for a clear error.
        bound.listen(2048)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"port {port} on {host} is in use (another Fenceline?): end that process or change "
                f"FENCELINE_{setting.upper()} (0 takes a free port)"
            ) from error
        raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    bound.setblocking(False)
    return bound


def address_of(bound: socket.socket) -> tuple[str, int]:
    """Return the host and port of the socket."""
    name = bound.getsockname()
    return str(name[0]), int(name[1])


class _Server(uvicorn.Server):
    """A server without signal handlers, which belong to the process, and with a short limit for TLS handshakes."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Do as uvicorn for given sockets without a lifespan, which has no setting for the handshake."""
        loop = asyncio.get_running_loop()

        def connection(_loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Protocol:
            return cast(Any, self.config.http_protocol_class)(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=_loop
            )

        within_s = None if self.config.ssl is None else HANDSHAKE_WITHIN_S
        self.servers = [
            await loop.create_server(
                connection,
                sock=one,
                ssl=self.config.ssl,
                backlog=self.config.backlog,
                ssl_handshake_timeout=within_s,
                ssl_shutdown_timeout=within_s,
            )
            for one in sockets or ()
        ]
        self.started = True

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Listener:
    """Make a server for one application on one bound socket. Raises ListenError for a bad certificate or key."""

    def __init__(
        self,
        app: FastAPI,
        bound: socket.socket,
        *,
        limit: ConnectionLimit,
        certificate: Path | None,
        key: Path | None,
        log_level: str,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=cast(Any, limited_by(limit)),
            # No application uses WebSocket, whose connections would not be counted.
            ws="none",
            h11_max_incomplete_event_size=LONGEST_HEAD,
            lifespan="off",
            proxy_headers=False,  # the perimeter reads them, from trusted proxies only
            server_header=False,
            access_log=False,
            log_config=None,
            log_level=log_level,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=_GRACE_S,
        )
        try:
            config.load()
        except OSError as error:  # ssl.SSLError is one
            raise ListenError(f"TLS with {certificate} and {key} is not possible: {error}") from error
        self._bound = bound
        self._server = _Server(config)

    async def serve(self) -> None:
        await self._server.serve(sockets=[self._bound])

    def stop(self) -> None:
        self._server.should_exit = True


async def serve_until_signal(listeners: Sequence[Listener], stopping: asyncio.Event) -> None:
    """Serve until SIGTERM or SIGINT, which set `stopping` first, so that open event streams end by themselves.

    Also ends when another part sets `stopping`, and when one of the listeners ends.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    serving = [asyncio.create_task(listener.serve()) for listener in listeners]
    told = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([*serving, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.set()
        AppStatus.should_exit = True  # sse-starlette expects uvicorn's own signal handler, which is replaced here
        for listener in listeners:
            listener.stop()
        await asyncio.gather(*serving)
        told.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        AppStatus.should_exit = False
