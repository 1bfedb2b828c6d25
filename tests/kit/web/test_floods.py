"""A whole server under a flood of streams and idle connections: heartbeats of workers are answered, a surplus not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from app.core.wire.heartbeat import HeartbeatAnswer
from app.edges.db.database import Database
from app.edges.main.products import PARTS
from tests.support.control_plane import ControlPlane, task_heartbeat
from tests.support.databases import create_database, drop_database
from tests.support.server_process import ServerProcess
from tests.support.serving import FENCELINE

# Of the descriptors the users' listener holds a quarter, one address half of that; the workers' listener a half.
_DESCRIPTORS = 2_048
_OF_ONE_ADDRESS = _DESCRIPTORS // 8
_STREAMS = 300
_IDLE = 300
_HEARTBEATS = 30
_ANSWERED_WITHIN_S = 10
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def server(postgres_server_url: str, tmp_path: Path) -> Generator[ServerProcess]:
    url = create_database(postgres_server_url)
    limited = ("bash", "-c", f'ulimit -n {_DESCRIPTORS}; exec "$@"', "bash", *FENCELINE)
    made = ServerProcess(
        state_dir=tmp_path / "state",
        cache_dir=tmp_path / "cache",
        database_url=url,
        settings={"FENCELINE_OBSERVE": "false"},
        program=limited,
    )
    try:
        made.start()
        yield made
    finally:
        made.process.stop()
        drop_database(postgres_server_url, url)


async def _connected(url: str, address: str) -> _Connection:
    at = urlsplit(url)
    return await asyncio.open_connection(at.hostname, at.port, local_addr=(address, 0))


async def _stream(server: ServerProcess, cookie: str, number: int) -> tuple[str, _Connection]:
    """The status of an event stream that differs in a parameter which nothing reads, and its open connection."""
    connection = await _connected(server.url, "127.0.0.1")
    reader, writer = connection
    head = (
        f"GET /commands/stream?x={number} HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\nCookie: {cookie}\r\n\r\n"
    )
    try:
        writer.write(head.encode())
        line = await asyncio.wait_for(reader.readline(), 60)
    except ConnectionError:
        return "refused", connection
    return (line.split()[1].decode() if line else "refused"), connection


async def test_heartbeats_are_answered_while_streams_and_idle_connections_fill_the_listeners(
    server: ServerProcess,
) -> None:
    database = Database(server.database_url, parts=PARTS)
    plane = ControlPlane(database, now=datetime.now(UTC))
    await plane.pipeline()
    run = await plane.run()
    token = await plane.submit(run.id)
    await plane.claim(run.id)
    await database.close()
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as browser:
        server.log_in(browser)
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())

    with ExitStack() as stack:
        streams: Counter[str] = Counter()
        held: list[asyncio.StreamReader] = []
        for number in range(_STREAMS):
            status, (reader, writer) = await _stream(server, cookie, number)
            stack.callback(writer.close)
            streams[status] += 1
            if status == "200":
                held.append(reader)
        for url in (server.url, server.workers_url):
            for _ in range(_IDLE):
                _, writer = await _connected(url, "127.0.0.2")
                stack.callback(writer.close)

        answers: list[HeartbeatAnswer] = []
        async with httpx.AsyncClient(
            base_url=server.workers_url, timeout=_ANSWERED_WITHIN_S, trust_env=False
        ) as worker:
            for sequence in range(1, _HEARTBEATS + 1):
                answer = await worker.post(
                    "/workers/v1/heartbeat",
                    content=msgspec.json.encode(task_heartbeat(run.id, sequence=sequence)),
                    headers={"Authorization": f"Bearer {token}", "Connection": "close"},
                )
                assert answer.status_code == 200, answer.text
                answers.append(msgspec.json.decode(answer.content, type=HeartbeatAnswer))
        # None was lost, each on a connection of its own; and the flood was there to the end.
        assert [answer.is_current for answer in answers] == [True] * _HEARTBEATS
        # The surplus is refused: as one person's streams, or as one address's connections.
        assert 0 < streams["200"] <= _OF_ONE_ADDRESS, streams
        assert streams["429"] + streams["503"] + streams["refused"] == _STREAMS - streams["200"], streams
        assert not [reader for reader in held if reader.at_eof()]
