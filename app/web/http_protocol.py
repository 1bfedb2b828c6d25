"""HTTP/1.1 of which also what cannot be read is answered with a problem document: no application hears of it."""

from __future__ import annotations

from uvicorn.protocols.http.h11_impl import H11Protocol

from app.web.problems import ProblemResponse

LONGEST_HEAD = 64 * 1024
"""Bytes of request line and headers; what is longer is refused, and what is no HTTP."""


class ProblemProtocol(H11Protocol):
    """uvicorn's own, which would say so in plain text."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it is always the same
        problem = ProblemResponse(
            400, f"This is not HTTP, or its address and headers are longer than {LONGEST_HEAD // 1024} KiB."
        )
        headers = [*problem.raw_headers, (b"connection", b"close")]
        lines = [b"HTTP/1.1 400 Bad Request", *(b"%b: %b" % header for header in headers), b"", b""]
        self.transport.write(b"\r\n".join(lines) + bytes(problem.body))
        self.transport.close()
