"""A real broker that claims an older version.

A relay in front of it rewrites the ranges of its ApiVersions to those of brokers of that version, as kafka-python has
them. It also rewrites addresses, so that clients stay with the relay. It is no old broker: it behaves like the real
one.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import cast

from kafka.protocol.broker_version_data import (  # pyright: ignore[reportMissingTypeStubs]
    BROKER_API_VERSIONS,
)

_API_VERSIONS = 18
_FIRST_FLEXIBLE = 3
_RANGES = cast("Mapping[tuple[int, ...], Mapping[int, tuple[int, int]]]", BROKER_API_VERSIONS)


@contextmanager
def said_to_be(version: tuple[int, int], bootstrap_servers: str) -> Generator[str]:
    """The address of a relay to the broker, by which it says that it is of this version."""
    host, _, port = bootstrap_servers.partition(":")
    offered = next(ranges for known, ranges in _RANGES.items() if known[:2] == version)
    with socket.create_server((host, 0)) as listener:
        here = listener.getsockname()[1]
        relay = _Relay(host, int(port), here, offered)
        threading.Thread(target=relay.accept, args=(listener,), daemon=True).start()
        yield f"{host}:{here}"
        # Only this wakes a thread in accept.
        listener.shutdown(socket.SHUT_RDWR)


class _Relay:
    def __init__(self, host: str, port: int, here: int, offered: Mapping[int, tuple[int, int]]) -> None:
        self._broker = host, port
        self._offered = offered
        self._there = host.encode() + struct.pack(">i", port), host.encode() + struct.pack(">i", here)

    def accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed: the test is over
            broker = socket.create_connection(self._broker)
            asked: dict[int, int] = {}
            for pump, ends in ((self._requests, (client, broker)), (self._answers, (broker, client))):
                threading.Thread(target=pump, args=(*ends, asked), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        """asked: by correlation id, the version of each ApiVersions whose answer is on its way."""
        with suppress(OSError), client, broker:
            while frame := _frame(client):
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                if key == _API_VERSIONS:
                    asked[correlation_id] = version
                broker.sendall(struct.pack(">i", len(frame)) + frame)

    def _answers(self, broker: socket.socket, client: socket.socket, asked: dict[int, int]) -> None:
        with suppress(OSError), client, broker:
            while frame := _frame(broker):
                version = asked.pop(struct.unpack_from(">i", frame)[0], None)
                frame = frame.replace(*self._there) if version is None else self._rewritten(frame, version)
                client.sendall(struct.pack(">i", len(frame)) + frame)

    def _rewritten(self, frame: bytes, version: int) -> bytes:
        """Without the keys that the older version had not, each at most as high as it went; and without features."""
        error = struct.unpack_from(">h", frame, 4)[0]
        if error:
            return frame
        flexible = version >= _FIRST_FLEXIBLE
        # A compact array's length is one more than it is, and below 128 it is one byte.
        at = 7 if flexible else 10
        count = frame[6] - 1 if flexible else struct.unpack_from(">i", frame, 6)[0]
        entries = b""
        kept = 0
        for _ in range(count):
            key, lowest, highest = struct.unpack_from(">hhh", frame, at)
            at += 7 if flexible else 6
            if key in self._offered and self._offered[key][1] >= lowest:
                entries += struct.pack(">hhh", key, lowest, min(highest, self._offered[key][1])) + flexible * b"\x00"
                kept += 1
        length = bytes([kept + 1]) if flexible else struct.pack(">i", kept)
        throttle = b"" if version == 0 else b"\x00" * 4
        return frame[:6] + length + entries + throttle + flexible * b"\x00"


def _frame(source: socket.socket) -> bytes:
    """The next one without its size; empty at the end."""
    size = _exactly(source, 4)
    return _exactly(source, struct.unpack(">i", size)[0]) if size else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = source.recv(size - len(found))
        if not data:
            return b""
        found += data
    return found
