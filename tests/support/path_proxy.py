"""A reverse proxy that shows a server below a path, and notes who asks for something beside it."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

_HEAD_END = b"\r\n\r\n"


class PathProxy(socketserver.ThreadingTCPServer):
    """`upstream` is where it leads to; `outside` are the requests that were not below `base_path`.

    strips: whether the server behind it is asked without the path.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, base_path: str, *, strips: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.base_path = base_path
        self.strips = strips
        self.upstream: tuple[str, int] | None = None
        self.outside: list[str] = []

    @property
    def url(self) -> str:
        """The server's address for its users."""
        return f"http://127.0.0.1:{self.server_address[1]}{self.base_path}"


class _Exchange(socketserver.BaseRequestHandler):
    """One request for each connection."""

    server: PathProxy  # pyright: ignore[reportIncompatibleVariableOverride] - the only one that makes it

    def handle(self) -> None:
        client: socket.socket = self.request
        head = b""
        while _HEAD_END not in head:
            if not (more := client.recv(65_536)):
                return
            head += more
        line, _, rest = head.partition(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        base = self.server.base_path
        if target != base and not target.startswith((f"{base}/", f"{base}?")):
            self.server.outside.append(f"{method} {target}")
            client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        asked = (target[len(base) :] or "/") if self.server.strips else target
        # One that asks to keep the connection would be kept by the server, and waited for here.
        rest = re.sub(rb"(?im)^connection:.*\r\n", b"", rest)
        assert self.server.upstream is not None
        with socket.create_connection(self.server.upstream) as server:
            server.sendall(f"{method} {asked} {version}\r\nConnection: close\r\n".encode() + rest)
            threading.Thread(target=_pump, args=(client, server), daemon=True).start()
            _pump(server, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def path_proxy(base_path: str, *, strips: bool) -> Generator[PathProxy]:
    with PathProxy(base_path, strips=strips) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
