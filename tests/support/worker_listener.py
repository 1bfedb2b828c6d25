"""A small real HTTP server in place of the workers' listener: it records requests and answers as configured.

For contract tests of the workers' side only, where the server's answers are the recorded messages under tests/wire.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

Answerer = Callable[[dict[str, Any]], msgspec.Struct | bytes]


class WorkerListener:
    """`received` holds the decoded bodies by path, oldest first."""

    def __init__(self) -> None:
        self.received: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.authorizations: list[str] = []
        self._answers: dict[str, Answerer] = {}
        self._failures: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self._http = _Http(("127.0.0.1", 0), self)
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def answer_with(self, path: str, answer: msgspec.Struct | bytes | Answerer) -> None:
        self._answers[path] = answer if callable(answer) else lambda _: answer

    def fail_with(self, path: str, status: int, *, detail: str = "as the test set it", times: int = 1) -> None:
        """Fail the next `times` requests, before any answer."""
        self._failures[path] += [(status, detail)] * times

    def respond(self, path: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        said: dict[str, Any] = json.loads(body) if body else {}
        self.authorizations.append(authorization)
        self.received[path].append(said)
        if self._failures[path]:
            status, detail = self._failures[path].pop(0)
            return status, json.dumps({"status": status, "detail": detail}).encode()
        answer = self._answers[path](said)
        return 200, answer if isinstance(answer, bytes) else msgspec.json.encode(answer)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], owner: WorkerListener) -> None:
        super().__init__(address, _Handler)
        self.owner = owner


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride]  # the base class names its own parent type

    def do_POST(self) -> None:
        self._respond(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def do_GET(self) -> None:
        self._respond(b"")

    def _respond(self, body: bytes) -> None:
        status, answer = self.server.owner.respond(self.path, body, self.headers.get("Authorization", ""))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
        """Do nothing: the test reads `received`."""
