"""A real HTTP receiver on loopback, which accepts as configured and keeps the requests."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from tests.support.waiting import wait_for_async

SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS13ZWJob29rcy10ZXN0cy0x"
OTHER_SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS13ZWJob29rcy10ZXN0cy0y"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    at: float
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def type(self) -> str:
        return msgspec.json.decode(self.body)["type"]

    @property
    def sentence(self) -> str:
        return msgspec.json.decode(self.body)["data"]["sentence"]


@dataclass(slots=True)
class Receiver:
    """answer: the head and body of the answer to each request; None holds the connection without an answer.

    drips: after the answer come spaces, one every few milliseconds, for as long as the client reads.
    """

    port: int = 0
    answer: Callable[[Received], bytes | None] = lambda _: answer_with(204)
    received: list[Received] = field(default_factory=list[Received])
    connections: int = 0
    scheme: str = "http"
    drips: bool = False

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/alerts"

    async def wait_for(self, count: int, *, deadline_s: float = 10.0) -> list[Received]:
        """The received requests, as soon as there are `count` of them."""

        async def enough() -> bool:
            return len(self.received) >= count

        await wait_for_async(
            enough, deadline_s, lambda: f"{count} deliveries; {[one.type for one in self.received]} have come"
        )
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            received = Received(at=time.monotonic(), path=request.split(" ")[1], headers=headers, body=body)
            self.received.append(received)
            said = self.answer(received)
            if said is None:
                await reader.read()
            else:
                writer.write(said)
                await writer.drain()
            while self.drips:
                writer.write(b" ")
                await writer.drain()
                # A receiver that is slow for ever: how long this takes is what the sender is tried with.
                await asyncio.sleep(0.01)
        except (asyncio.IncompleteReadError, ConnectionError):
            # A sender that has timed out, or was killed.
            return
        finally:
            writer.close()


def answer_with(status: int, body: str = "", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body.encode())}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", body]).encode()


def one_after_the_other(answers: Iterable[bytes | None]) -> Callable[[Received], bytes | None]:
    """These answers, and then 204 for ever."""
    waiting = iter(answers)
    return lambda _: next(waiting, answer_with(204))


@asynccontextmanager
async def receiving(receiver: Receiver | None = None, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Receiver]:
    """Listens at the receiver's port, or at a free one."""
    receiver = receiver or Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", receiver.port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    receiver.scheme = "http" if tls is None else "https"
    try:
        yield receiver
    finally:
        server.close()
