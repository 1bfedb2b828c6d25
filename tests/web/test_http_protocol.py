"""What cannot be read as HTTP is answered like everything else that is wrong."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import orjson
import pytest
from fastapi import FastAPI, Request

from app.web import http_protocol
from app.web.connection_limit import ConnectionLimit, limits_of_process
from app.web.http_protocol import LONGEST_HEAD
from app.web.listeners import Listener, address_of, bind


async def answer_to(request: bytes) -> httpx.Response:
    """What a listener answers to these bytes, until it closes the connection."""
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
async def test_what_is_no_request_is_answered_with_a_problem_document(request_line: bytes) -> None:
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
        return len(await request.body())

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
async def test_connections_beyond_the_limit_are_refused_and_the_other_listener_is_free(limit: tuple[int, int]) -> None:
    async with (
        listening(ConnectionLimit(*limit)) as flooded,
        listening(ConnectionLimit(8, 8)) as other,
        AsyncExitStack() as idle,
    ):
        for _ in range(3):
            _, writer = await asyncio.open_connection(*flooded)
            idle.callback(writer.close)
            writer.write(BEGUN)
        reader, writer = await asyncio.open_connection(*flooded)
        idle.callback(writer.close)
        head, _, body = (await _all_of(reader)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable")
        assert b"retry-after: 5" in head.lower()
        assert orjson.loads(body)["status"] == 503
        assert await _status(*other) == 200


def test_both_listeners_together_leave_descriptors_for_everything_else() -> None:
    users, workers = limits_of_process()
    assert workers.most >= users.most > users.most_of_a_peer > 0
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert users.most + workers.most <= descriptors * 3 / 4
