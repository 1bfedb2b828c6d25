"""A child process with one request and an answer of two lines, for any code: bounded in time and in bytes.

Streams of asyncio are not used: a full one is not read any more, and the wait for its process never ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import NamedTuple

LONGEST_ANSWER_BYTES = 16 * 1024
"""Later bytes are read and dropped."""
_COMPLAINT_BYTES = 16 * 1024
_COMPLAINT_LIMIT_S = 1.0
_ANSWER, _COMPLAINT = 1, 2


class ProcessEnd(NamedTuple):
    """started: the child wrote its first line. answer: the second one.

    exit_code: as in subprocess; None if its time was over, or its answer too long.
    reason: the last line of its standard error.
    """

    started: bool
    answer: bytes = b""
    exit_code: int | None = None
    is_too_long: bool = False
    reason: str = ""


async def ask(
    command: tuple[str, ...],
    request: bytes,
    *,
    folder: str,
    start_limit_s: float,
    limit_s: float,
    answer_bytes: int = LONGEST_ANSWER_BYTES,
) -> ProcessEnd:
    """Start the child in an empty environment, write the request to it, and wait for its end. Its session ends with it.

    Args:
        start_limit_s: seconds until the first line.
        limit_s: seconds from there to its end.
        answer_bytes: the longest answer; a longer one is refused.
    """
    loop = asyncio.get_running_loop()
    transport, child = await loop.subprocess_exec(
        lambda: _Child(answer_bytes), *command, env={}, cwd=folder, start_new_session=True
    )
    exit_code: int | None = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(start_limit_s):
                child.write(transport, request)
                await child.lines[0].wait()
            async with asyncio.timeout(limit_s):
                await child.lines[1].wait()
                if not child.is_too_long():
                    await child.exited.wait()
                    exit_code = transport.get_returncode()
    finally:
        # Its whole session, while the child itself is not yet reaped and the number certainly is its own. In isolation
        # the first process of its namespace ends with it, and all others in there.
        if transport.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(transport.get_pid(), signal.SIGKILL)
            await child.exited.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COMPLAINT_LIMIT_S):
                await child.closed[_COMPLAINT].wait()
        transport.close()
    return ProcessEnd(
        started=b"\n" in child.written[_ANSWER],
        answer=child.answer(),
        exit_code=exit_code,
        is_too_long=child.is_too_long(),
        reason=child.complaint(),
    )


class _Child(asyncio.SubprocessProtocol):
    def __init__(self, answer_bytes: int) -> None:
        self._most = {_ANSWER: answer_bytes, _COMPLAINT: _COMPLAINT_BYTES}
        self.written = {_ANSWER: bytearray(), _COMPLAINT: bytearray()}
        self.closed = {_ANSWER: asyncio.Event(), _COMPLAINT: asyncio.Event()}
        self.lines = asyncio.Event(), asyncio.Event()
        self.exited = asyncio.Event()

    def write(self, transport: asyncio.SubprocessTransport, request: bytes) -> None:
        """A child that ends before it has read everything reports it by its exit code."""
        to_child = transport.get_pipe_transport(0)
        if isinstance(to_child, asyncio.WriteTransport):
            to_child.write(request)
            to_child.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.written[fd]
        kept += data[: self._most[fd] - len(kept)]
        self._settle()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        if fd in self.closed:
            self.closed[fd].set()
            self._settle()

    def process_exited(self) -> None:
        self.exited.set()

    def is_too_long(self) -> bool:
        return len(self.written[_ANSWER]) == self._most[_ANSWER] and self.written[_ANSWER].count(b"\n") < len(
            self.lines
        )

    def answer(self) -> bytes:
        return bytes(self.written[_ANSWER]).partition(b"\n")[2].partition(b"\n")[0]

    def complaint(self) -> str:
        lines = self.written[_COMPLAINT].decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it did not start")

    def _settle(self) -> None:
        is_over = self.closed[_ANSWER].is_set() or self.is_too_long()
        found = self.written[_ANSWER].count(b"\n")
        for number, line in enumerate(self.lines, start=1):
            if is_over or found >= number:
                line.set()
