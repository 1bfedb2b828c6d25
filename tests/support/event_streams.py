"""Event streams of an app that is called in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from fastapi import FastAPI
from starlette.types import Message

from tests.support.wiring import USERS_URL


async def streamed(app: FastAPI, path: str, *, query: str = "", token: str) -> AsyncGenerator[str]:
    """An event stream as it comes; HTTPX would wait for its end."""
    parts: asyncio.Queue[str] = asyncio.Queue()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("the client does not close the connection")

    async def send(message: Message) -> None:
        parts.put_nowait(message.get("body", b"").decode())

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [
            (b"host", USERS_URL.removeprefix("http://").encode()),
            (b"authorization", f"Bearer {token}".encode()),
        ],
        "client": ("127.0.0.1", 40_000),
        "server": ("127.0.0.1", 8700),
    }
    serving = asyncio.create_task(app(scope, receive, send))
    try:
        while True:
            yield await parts.get()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
