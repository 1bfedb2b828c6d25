"""Readers of event streams that say when they were shown which of a probe's records."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

import httpx

from tests.support.server_process import ServerProcess

Shown = list[tuple[float, int]]
"""The moment, and the time that the probe's newest record carries."""
SHOWN = re.compile(rb'data-label="Changed" data-sort="([\d.]+)"|<dt>Changed</dt><dd><time datetime="([^"]+)"')
_NEVER = 1 << 62
_END = b"\r\n\r\n"


@dataclass
class Reader(asyncio.Protocol):
    """One stream: when it had which of the probe's records, and every frame's moment."""

    server_url: str
    path: str
    cookie: str
    shown: Shown = field(default_factory=list[tuple[float, int]])
    frames_at: list[float] = field(default_factory=list[float])
    received_bytes: int = 0
    _rest: bytearray = field(default_factory=bytearray)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        host = urlsplit(self.server_url).netloc
        transport.write(f"GET {self.path} HTTP/1.1\r\nHost: {host}\r\nCookie: {self.cookie}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._rest += data
        self.received_bytes += len(data)
        if _END not in data and not self._rest.endswith(_END):
            return
        now_ms = time.time() * 1000
        whole, _, rest = self._rest.rpartition(_END)
        for frame in whole.split(_END):
            found = SHOWN.search(frame)
            if found is not None:
                self.frames_at.append(now_ms)
                self.shown.append((now_ms, shown_ms(found)))
        self._rest = bytearray(rest)


async def opened(reader: Reader) -> asyncio.Transport:
    """Connect the reader; `abort` ends its stream."""
    at = urlsplit(reader.server_url)
    assert at.port is not None
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: reader, "127.0.0.1", at.port)
    return transport


def shown_ms(found: re.Match[bytes]) -> int:
    """Which of its times the probe's cell shows."""
    seconds, moment = found.groups()
    if seconds is not None:
        return round(float(seconds) * 1000)
    return round(datetime.fromisoformat(moment.decode()).timestamp() * 1000)


def sessions(server: ServerProcess, number: int) -> list[str]:
    """The cookies of as many people, each with a login token and a browser."""
    found: list[str] = []
    for person in range(number):
        token = server.post("/tokens", {"name": f"person-{person}", "role": "viewer"})["secret"]
        with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as browser:
            server.log_in(browser, token=token)
            found.append("; ".join(f"{name}={value}" for name, value in browser.cookies.items()))
    return found


def seen_at(shown: Shown, times: Iterable[int]) -> dict[int, float]:
    """When each of the probe's records, by its time, was there, or a newer one; from the first that was shown on."""
    found: dict[int, float] = {}
    at = iter(shown)
    now_ms, newest = next(at, (0.0, -1))
    first = newest
    for time_ms in sorted(times):
        while newest < time_ms:
            now_ms, newest = next(at, (0.0, _NEVER))
        if newest == _NEVER:
            break
        if time_ms > first:
            found[time_ms] = now_ms
    return found


def took_ms(later: Mapping[int, float], earlier: Mapping[int, float]) -> list[float]:
    """The delay of every record that both had, from the one to the other; in order of size."""
    return sorted(later[time_ms] - earlier[time_ms] for time_ms in later.keys() & earlier.keys())


def at_part(ordered: Sequence[float], part: float) -> float:
    """A percentile: 0.99 is what 99 of 100 are not above."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * part))], 1)
