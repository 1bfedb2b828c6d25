"""Malformed HTTP is answered like every other error."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import pytest
from fastapi import FastAPI, Request, Response

from app.kit.web import http_protocol, listeners
from app.kit.web.connection_limit import ConnectionLimit, limits_of_process
from app.kit.web.http_protocol import LONGEST_HEAD, authenticated
from app.kit.web.listeners import Listener, address_of, bind
from tests.support.waiting import wait_for


async def answer_to(request: bytes) -> httpx.Response:
    """Return a listener's answer to these bytes, until it closes the connection."""
    bound = bind("127.0.0.1", 0, setting="port")
    host, port = address_of(bound)
    limit = ConnectionLimit(8, 8)
    listener = Listener(FastAPI(), bound, limit=limit, certificate=None, key=None, log_level="critical")
    serving = asyncio.create_task(listener.serve())
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        head, _, body = (await asyncio.wait_for(reader.read(), 20)).partition(b"\r\n\r\n")
    finally:
        writer.close()
        listener.stop()
        await serving
    status, *lines = head.decode().split("\r\n")
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


@pytest.mark.parametrize(
    "request_line",
    [
        pytest.param(b"GET /" + b"a" * (LONGEST_HEAD + 1) + b" HTTP/1.1\r\n\r\n", id="too long"),
        pytest.param(b"what is this?\r\n\r\n", id="no HTTP"),
    ],
)
async def test_malformed_requests_get_a_problem_document(request_line: bytes) -> None:
    answer = await answer_to(request_line)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["content-length"]) == len(answer.content)
    problem = orjson.loads(answer.content)
    assert problem["status"] == 400
    assert "64 KiB" in problem["detail"]


async def test_an_address_of_almost_that_length_reaches_the_application() -> None:
    request = b"GET /" + b"a" * (LONGEST_HEAD - 200) + b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    assert (await answer_to(request)).status_code == 404


def _application() -> FastAPI:
    app = FastAPI()

    @app.post("/taken")
    async def taken(request: Request) -> int:  # pyright: ignore[reportUnusedFunction] - it is a route
        if request.headers.get("authorization") == "good":
            authenticated(request)
        return len(await request.body())

    @app.get("/large")
    async def large() -> Response:  # pyright: ignore[reportUnusedFunction] - it is a route
        return Response(b"x" * LARGE)

    @app.get("/small")
    async def small() -> Response:  # pyright: ignore[reportUnusedFunction] - it is a route
        return Response(b"x" * (LARGE // 256))

    return app


@asynccontextmanager
async def listening(limit: ConnectionLimit) -> AsyncGenerator[tuple[str, int]]:
    bound = bind("127.0.0.1", 0, setting="port")
    listener = Listener(_application(), bound, limit=limit, certificate=None, key=None, log_level="critical")
    serving = asyncio.create_task(listener.serve())
    try:
        yield address_of(bound)
    finally:
        listener.stop()
        await serving


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(), 20)


GOOD = b"POST /taken HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx"
AUTHENTICATED = GOOD.replace(b"host: a", b"host: a\r\nauthorization: good")
LARGE = 8 << 20
TLS = Path(__file__).parent / "tls"
BEGUN = b"GET / HTTP/1.1\r\nhost: a\r\nx: "


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(BEGUN, [408], id="headers"),
        pytest.param(b"POST /taken HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx", [408], id="body"),
        pytest.param(GOOD + BEGUN, [200, 408], id="second headers"),
    ],
)
async def test_request_that_does_not_end_loses_its_connection(
    sent: bytes, answers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_WITHIN_S", 0.3)
    monkeypatch.setattr(http_protocol, "BODY_WITHIN_S", 0.3)
    limit = ConnectionLimit(1, 1)
    async with listening(limit) as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(sent)
        seen = await _all_of(reader)
        writer.close()
        assert [int(line.split()[1]) for line in seen.split(b"HTTP/")[1:]] == answers
        # Its place is free again.
        assert await _status(host, port) == 200


async def test_bytes_that_trickle_in_win_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_WITHIN_S", 0.5)
    async with listening(ConnectionLimit(1, 1)) as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(BEGUN)
        ended, began = asyncio.create_task(_all_of(reader)), time.monotonic()
        while not ended.done():
            writer.write(b"a")
            await asyncio.wait({ended}, timeout=0.05)
            assert time.monotonic() - began < 10
        assert b" 408 " in ended.result()
        writer.close()


async def _status(host: str, port: int) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(GOOD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    answer = await _all_of(reader)
    writer.close()
    return int(answer.split()[1])


@pytest.mark.parametrize("limit", [(3, 8), (8, 3)], ids=["in all", "of a peer"])
async def test_connections_beyond_the_limit_take_the_place_of_the_oldest_without_a_credential(
    limit: tuple[int, int],
) -> None:
    async with listening(ConnectionLimit(*limit)) as flooded, AsyncExitStack() as idle:
        first, *others = [await _idle(flooded, idle) for _ in range(3)]
        assert await _status(*flooded) == 200
        assert await _all_of(first) == b""
        assert not any(other.at_eof() for other in others)


@pytest.mark.parametrize("limit", [(3, 8), (8, 3)], ids=["in all", "of a peer"])
async def test_connections_with_a_credential_keep_their_places(limit: tuple[int, int]) -> None:
    """Connections beyond the limit are refused, and the other listener is free."""
    async with (
        listening(ConnectionLimit(*limit)) as flooded,
        listening(ConnectionLimit(8, 8)) as other,
        AsyncExitStack() as kept,
    ):
        held = [await _idle(flooded, kept, sent=AUTHENTICATED) for _ in range(3)]
        for reader in held:
            assert b" 200 " in await reader.readuntil(b"\r\n")
        reader = await _idle(flooded, kept)
        head, _, body = (await _all_of(reader)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable")
        assert b"retry-after: 5" in head.lower()
        assert orjson.loads(body)["status"] == 503
        assert await _status(*other) == 200
        assert not any(one.at_eof() for one in held)


async def _idle(at: tuple[str, int], stack: AsyncExitStack, *, sent: bytes = BEGUN) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection(*at)
    stack.callback(writer.close)
    writer.write(sent)
    await writer.drain()
    return reader


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n", id="one large answer"),
        pytest.param(b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", id="closed behind it"),
        pytest.param(b"GET /small HTTP/1.1\r\nhost: a\r\n\r\n" * 1_000, id="many small answers"),
    ],
)
async def test_client_that_does_not_read_its_answer_loses_its_connection(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "READ_WITHIN_S", 0.5)
    limit = ConnectionLimit(2, 2)
    async with listening(limit) as (host, port):
        reader, writer = await asyncio.open_connection(host, port, limit=1)
        sending = asyncio.create_task(_send_all(writer, sent))
        await asyncio.wait_for(sending, 20)
        # Of the client's own stream no more than its buffers is read: it waits.
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await _is_cut_off(limit, reader)
        writer.close()
        assert await _status(host, port) == 200


async def _send_all(writer: asyncio.StreamWriter, sent: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        writer.write(sent)
        await writer.drain()


async def _is_cut_off(limit: ConnectionLimit, reader: asyncio.StreamReader) -> None:
    """Wait until the server holds no connection, then read what had come: it is not the whole answer."""
    await asyncio.to_thread(wait_for, lambda: not limit.held, 20, "its place is free")
    await asyncio.wait_for(reader.readexactly(LARGE), 20)


async def test_handshake_that_does_not_end_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "HANDSHAKE_WITHIN_S", 0.5)
    bound = bind("127.0.0.1", 0, setting="port")
    listener = Listener(
        FastAPI(),
        bound,
        limit=ConnectionLimit(8, 8),
        certificate=TLS / "certificate.pem",
        key=TLS / "key.pem",
        log_level="critical",
    )
    serving = asyncio.create_task(listener.serve())
    reader, writer = await asyncio.open_connection(*address_of(bound))
    try:
        assert await _all_of(reader) == b""
    finally:
        writer.close()
        listener.stop()
        await serving


@pytest.mark.parametrize(
    ("one", "same"),
    [("2001:db8::1", "2001:db8::ffff:1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1")],
)
def test_addresses_of_one_host_share_its_places(one: str, same: str) -> None:
    limit = ConnectionLimit(8, 1)
    first, second, third = (_Connection(is_authenticated=True) for _ in range(3))
    assert limit.admit(first, one) is None
    assert "1 connections already" in (limit.admit(second, same) or "")
    assert limit.admit(third, "2001:db8:0:1::1") is None
    limit.leave(second)
    limit.leave(first)
    assert limit.admit(second, same) is None


@dataclass(eq=False)
class _Connection:
    is_authenticated: bool

    def evict(self) -> None:
        raise AssertionError("it has a credential")


def test_both_listeners_together_leave_descriptors_for_everything_else() -> None:
    users, workers = limits_of_process()
    assert workers.most >= users.most > users.most_of_a_peer > 0
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert users.most + workers.most <= descriptors * 3 / 4
