"""Times of the server's pages on a large cluster, while 500 pages are open: `python -m bench.pages [--dry]`.

A real server, Postgres and broker, which has 10,000 topics, 5,000 groups with committed offsets, and 50,000
transactional ids in its journal; 200 transactions a second go on. 500 event streams of all these pages are open, of
100 sessions. Each page is then loaded TIMES times, one after the other, over HTTP. The results are in
bench/results/pages.json. The simulated part: ids are written into the journal, as coordinators would have done it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

import httpx
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import OffsetAndMetadata, TopicPartition

from bench.growth.ids import going_round, written
from bench.growth.server import CLUSTER, MeasuredServer, measured_server
from bench.machine import keep, machine
from bench.stream_readers import sessions
from tests.support.definitions import a_definition
from tests.support.waiting import wait_for

IDS, GROUPS, TOPICS, STREAMS, PEOPLE = 50_000, 5_000, 10_000, 500, 100
PIPELINES = 20
TIMES = 40
IDLE_S = 20.0
_AT_ONCE = 500
_OPEN_WITHIN_S = 120.0
_HEAD_BYTES = 400
_FRAME_END = b"\r\n\r\n"
PAGES = {
    "overview": "/",
    "blocked readers": f"/stuck?cluster={CLUSTER}",
    "cluster": f"/clusters/{CLUSTER}",
    "topics": f"/clusters/{CLUSTER}/topics",
    "topics, by a part of the name": f"/clusters/{CLUSTER}/topics?search=0999",
    "one topic": f"/clusters/{CLUSTER}/topics/topic-00042",
    "groups": f"/groups?cluster={CLUSTER}",
    "one group": f"/groups/group?cluster={CLUSTER}&name=group-0042",
    "transactions": f"/transactions?cluster={CLUSTER}",
    "transactions, by a part of the id": f"/transactions?cluster={CLUSTER}&search=.4999",
    "one transactional id": f"/transactions/id?cluster={CLUSTER}&id=fl.t.pipeline-42.0.0",
    "owners": f"/mappings?cluster={CLUSTER}",
    "fencing events": f"/fencing?cluster={CLUSTER}",
    "pipelines": "/pipelines",
    "one pipeline": "/pipelines/pipeline-1",
    "search": "/search?q=group-0042",
    "command log": "/commands",
}

_WITHOUT_STREAM = {"topics", "topics, by a part of the name", "one topic", "search", "command log"}


@dataclass
class OpenPage(asyncio.Protocol):
    """The event stream of a page. frames: those that have arrived; the first part is the answer's header.

    head: its first bytes, for an error.
    """

    server_url: str
    path: str
    cookie: str
    ends: int = 0
    received_bytes: int = 0
    is_lost: bool = False
    head: bytes = b""
    _rest: bytes = field(default=b"")

    @property
    def frames(self) -> int:
        return max(0, self.ends - 1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        host = urlsplit(self.server_url).netloc
        transport.write(f"GET {self.path} HTTP/1.1\r\nHost: {host}\r\nCookie: {self.cookie}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        whole = self._rest + data
        self.ends += whole.count(_FRAME_END)
        self._rest = whole[-len(_FRAME_END) + 1 :]
        self.received_bytes += len(data)
        self.head = (self.head + data)[:_HEAD_BYTES] if len(self.head) < _HEAD_BYTES else self.head

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_lost = True


def stream_of(page: str) -> str:
    path, _, query = page.partition("?")
    return f"{path.rstrip('/')}/stream" + (f"?{query}" if query else "")


def fill(server: MeasuredServer) -> None:
    """Make topics, groups and pipelines."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    _create_topics(admin, 0, _AT_ONCE)
    _commit_for_groups(server.bootstrap_servers)
    for begin in range(_AT_ONCE, TOPICS, _AT_ONCE):
        _create_topics(admin, begin, begin + _AT_ONCE)
    for number in range(PIPELINES):
        name = f"pipeline-{number}"
        server.process.create_pipeline(
            name,
            a_definition(
                cluster=CLUSTER,
                source_topics=(f"topic-{number:05}",),
                sink_topic=f"topic-{number + 100:05}",
                group_id=name,
            ),
        )


def _create_topics(admin: Any, begin: int, end: int) -> None:
    topics = [NewTopic(f"topic-{number:05}", 1, 1) for number in range(begin, end)]
    for made in admin.create_topics(topics, request_timeout=120).values():
        made.result(120)


def _commit_for_groups(bootstrap_servers: str) -> None:
    client: Any = KafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def commit(group: str, topic: str) -> None:
        client.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)})

    def is_answered() -> bool:
        # The first request makes the topic of offsets.
        with suppress(CoordinatorNotAvailableError):
            commit("group-0000", "topic-00000")
            return True
        return False

    wait_for(is_answered, 60, "a coordinator of groups")
    for number in range(1, GROUPS):
        commit(f"group-{number:04}", f"topic-{number % _AT_ONCE:05}")
    client.close()


async def opened(server: MeasuredServer, cookies: Sequence[str]) -> tuple[list[OpenPage], list[asyncio.BaseTransport]]:
    """Open the streams, and wait until each has had a frame."""
    at = urlsplit(server.process.url)
    assert at.hostname is not None
    assert at.port is not None
    streams = [stream_of(page) for name, page in PAGES.items() if name not in _WITHOUT_STREAM]
    pages = [
        OpenPage(server.process.url, streams[number % len(streams)], cookies[number % len(cookies)])
        for number in range(STREAMS)
    ]
    loop = asyncio.get_running_loop()
    transports: list[asyncio.BaseTransport] = []
    for page in pages:
        transport, _ = await loop.create_connection(lambda page=page: page, at.hostname, at.port)
        transports.append(transport)
    began = time.monotonic()
    while waiting := [page for page in pages if not page.frames]:
        lost = {page.path: page.head for page in waiting if page.is_lost}
        assert not lost, f"these streams ended at once: {lost}"
        assert time.monotonic() - began < _OPEN_WITHIN_S, f"no frame of {len(waiting)}: {waiting[0].path}"
        await asyncio.sleep(0.1)
    return pages, transports


async def load_times(server: MeasuredServer, cookie: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    headers = {"Accept": "text/html", "Cookie": cookie}
    async with httpx.AsyncClient(base_url=server.process.url, timeout=60, headers=headers, trust_env=False) as browser:
        for name, page in PAGES.items():
            took_ms: list[float] = []
            size = 0
            for turn in range(TIMES + 2):
                began = time.perf_counter()
                answer = await browser.get(page)
                assert answer.status_code == 200, f"{page}: {answer.status_code} {answer.text[:300]}"
                if turn >= 2:
                    took_ms.append((time.perf_counter() - began) * 1000)
                size = len(answer.content)
            parts = quantiles(took_ms, n=20)
            found[name] = {
                "p50_ms": round(parts[9], 1),
                "p95_ms": round(parts[18], 1),
                "longest_ms": round(max(took_ms), 1),
                "kilobytes": round(size / 1000),
            }
    return found


async def look(server: MeasuredServer, cookies: Sequence[str]) -> dict[str, object]:
    alone = await load_times(server, cookies[0])
    began = time.monotonic()
    pages, transports = await opened(server, cookies)
    open_s = time.monotonic() - began
    before = server.spent()
    received = sum(page.received_bytes for page in pages)
    await asyncio.sleep(IDLE_S)
    after = server.spent()
    took_s = after.at_s - before.at_s
    received = sum(page.received_bytes for page in pages) - received
    among = await load_times(server, cookies[0])
    assert not any(page.is_lost for page in pages), "a stream has ended"
    for transport in transports:
        transport.close()
    return {
        "seconds_until_all_had_a_frame": round(open_s, 1),
        "server_cores": round((after.server_cpu_s - before.server_cpu_s) / took_s, 3),
        "postgres_cores": round((after.postgres_cpu_s - before.postgres_cpu_s) / took_s, 3),
        "server_memory_mb": round(server.memory_mb()),
        "megabytes_per_second": round(received / took_s / 1e6, 2),
        "slowest_p95_ms": max(one["p95_ms"] for one in among.values()),
        "slowest_p95_alone_ms": max(one["p95_ms"] for one in alone.values()),
        "pages": {name: {**among[name], "alone_p95_ms": alone[name]["p95_ms"]} for name in PAGES},
    }


def measure(folder: Path) -> dict[str, object]:
    with measured_server(folder, heap_mb=1_024) as server:
        fill(server)
        read_s = written(server, 0, IDS)
        path = f"/api/v1/clusters/{CLUSTER}/groups?limit=1&search=group-{GROUPS - 1:04}"
        wait_for(lambda: bool(server.process.ask(path).json()["items"]), 60, lambda: server.process.ask(path).text)
        cookies = sessions(server.process, PEOPLE)
        with going_round(server.bootstrap_servers, IDS):
            figures = asyncio.run(look(server, cookies))
    return {
        "ids": IDS,
        "groups": GROUPS,
        "topics": TOPICS,
        "pipelines": PIPELINES,
        "open_pages": STREAMS,
        "sessions": PEOPLE,
        "seconds_to_read_the_ids": read_s,
        **figures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="print only")
    parser.parse_args()
    on = machine()
    with tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder:
        keep("pages", on, measure(Path(folder)))


if __name__ == "__main__":
    main()
