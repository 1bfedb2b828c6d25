"""What cannot be read as HTTP is answered like everything else that is wrong."""

from __future__ import annotations

import asyncio

import httpx
import orjson
import pytest
from fastapi import FastAPI

from app.web.http_protocol import LONGEST_HEAD
from app.web.listeners import Listener, address_of, bind


async def answer_to(request: bytes) -> httpx.Response:
    """What a listener answers to these bytes, until it closes the connection."""
    bound = bind("127.0.0.1", 0, setting="port")
    host, port = address_of(bound)
    listener = Listener(FastAPI(), bound, certificate=None, key=None, log_level="critical")
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
