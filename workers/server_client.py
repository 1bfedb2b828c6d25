"""HTTP to the workers' listener of the server: several addresses, short bounds, standard library only."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from app.core.wire import protocol
from app.kit.storable import storable

Answer = TypeVar("Answer")

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A specification carries an uploaded file; no other answer of the server is larger."""


class ServerAwayError(Exception):
    """No address answered in time; the message names each address and its error."""


class ServerRefusedError(Exception):
    """The server answered with a refusal."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the server refused ({status}): {reason}")
        self.status = status
        self.reason = reason


class ServerClient:
    """One caller's connection to the server; belongs to one thread. The address that answered last is tried first.

    A 5xx answer counts as "away" (the server is there but its database is not); a 4xx is a refusal and final.
    """

    def __init__(self, urls: Sequence[str], token: str, *, timeout_s: float = 2.0) -> None:
        self._urls = list(urls)
        self._token = token
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._connected_to: str | None = None

    @property
    def is_configured(self) -> bool:
        """False when the instance runs without a server."""
        return bool(self._urls)

    def post(
        self, path: str, message: msgspec.Struct, answer: type[Answer], *, timeout_s: float | None = None
    ) -> Answer:
        """Send `message`, made storable, and decode the answer; raises ServerAwayError or ServerRefusedError."""
        return self._call("POST", path, msgspec.json.encode(storable(message)), answer, timeout_s)

    def get(self, path: str, answer: type[Answer], *, timeout_s: float | None = None) -> Answer:
        """As `post`, without a body."""
        return self._call("GET", path, None, answer, timeout_s)

    def get_raw(self, path: str, *, timeout_s: float | None = None) -> bytes:
        """The answer's bytes, for messages whose protocol version must be checked before the rest."""
        return self._first_answer("GET", path, None, timeout_s)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(
        self, method: str, path: str, body: bytes | None, answer: type[Answer], timeout_s: float | None
    ) -> Answer:
        raw = self._first_answer(method, path, body, timeout_s)
        try:
            decoded = msgspec.json.decode(raw, type=answer)
        except msgspec.MsgspecError as error:
            raise ServerAwayError(f"{path}: the answer is not one of this protocol: {error}") from error
        version: Any = getattr(decoded, "protocol_version", None)
        if version is not None:
            protocol.check(version, peer="the server")
        return decoded

    def _first_answer(self, method: str, path: str, body: bytes | None, timeout_s: float | None) -> bytes:
        bound_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + bound_s
        seen: list[str] = []
        for url in sorted(self._urls, key=lambda u: u != self._connected_to):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                seen.append(f"{url}: not tried, the {bound_s:g} s were used up")
                continue
            try:
                return self._request(url, method, path, body, left_s)
            except (OSError, http.client.HTTPException, ServerAwayError) as error:
                self.close()
                seen.append(f"{url}: {error or type(error).__name__}")
        raise ServerAwayError("; ".join(seen) or "no server address is configured")

    def _request(self, url: str, method: str, path: str, body: bytes | None, left_s: float) -> bytes:
        reused = self._connection is not None and self._connected_to == url
        connection = self._connection if reused and self._connection is not None else self._connect(url, left_s)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if connection.sock is not None:
            connection.sock.settimeout(left_s)
        try:
            # A proxy may show the listener below a path of its own.
            connection.request(method, f"{urlsplit(url).path.rstrip('/')}{path}", body=body, headers=headers)
            response = connection.getresponse()
            raw = response.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException):
            self.close()
            if reused:
                # A kept-alive connection that was closed meanwhile shows nothing about the server: repeat it once.
                return self._request(url, method, path, body, left_s)
            raise
        if response.will_close or len(raw) > MAX_ANSWER_BYTES:
            self.close()
        if response.status >= 500:
            raise ServerAwayError(f"answered {response.status}: {_reason(raw)}")
        if response.status >= 300:
            raise ServerRefusedError(response.status, _reason(raw))
        return raw

    def _connect(self, url: str, left_s: float) -> http.client.HTTPConnection:
        self.close()
        parts = urlsplit(url)
        host = parts.hostname or "127.0.0.1"
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=left_s, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=left_s)
        self._connection = connection
        self._connected_to = url
        return connection


class _Problem(msgspec.Struct):
    """The text of an RFC 9457 answer or a ClaimAnswer."""

    detail: str | None = None
    reason: str | None = None
    title: str | None = None


def _reason(raw: bytes) -> str:
    try:
        problem = msgspec.json.decode(raw, type=_Problem)
    except msgspec.MsgspecError:
        return raw[:200].decode("utf-8", "replace")
    return problem.detail or problem.reason or problem.title or "no reason given"
