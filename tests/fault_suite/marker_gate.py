"""Delays the markers that brokers ask each other to write, and nothing else. A transaction that is decided then is not
complete for as long as a test wants.

Brokers come to it because their own listener advertises its ports. Only the connections with marker requests are ever
held: replication continues, so that the coordinator's decision is replicated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from app.edges.embedded.ports import LOOPBACK
from tests.fault_suite.loop_thread import LoopThread

_CHUNK_BYTES = 64 * 1024
# TransactionMarkerChannelManager: the client id of its connections is `broker-N-txn-marker-sender`.
_MARKERS_ONLY = b"-txn-marker-sender"
# Length, api key, version, correlation id and the client id of any broker lie within these bytes of a connection.
_HEADER_BYTES = 48


class MarkerGate:
    """Listens on `ports` of loopback, one for each broker, and connects to `targets`, which may be set later.

    A context manager. Its methods may be called from any thread; they return when their effect is there.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = ports
        self.targets: Sequence[int] = ()
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread = LoopThread("marker gate")
        self._thread.ask(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.ask(self._end())
        self._thread.close()

    def hold(self) -> None:
        """From now on no marker is asked for, until `let_through`."""
        self._thread.ask(self._set_open(False))

    def let_through(self) -> None:
        """Those that were held arrive now."""
        self._thread.ask(self._set_open(True))

    async def _listen(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._servers = [
            await asyncio.start_server(self._server_of(at), LOOPBACK, port) for at, port in enumerate(self.ports)
        ]

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _set_open(self, is_open: bool) -> None:
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    def _server_of(self, broker: int) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers = [writer]
            try:
                broker_reader, broker_writer = await asyncio.open_connection(LOOPBACK, self.targets[broker])
                writers.append(broker_writer)
                self._writers.update(writers)
                await self._pass_on(reader, writer, broker_reader, broker_writer)
            except (OSError, IndexError):
                # The broker is away, or not known yet: the client is refused, and comes again.
                pass
            finally:
                self._writers.difference_update(writers)
                for one in writers:
                    one.transport.abort()

        return serve

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        broker_reader: asyncio.StreamReader,
        broker_writer: asyncio.StreamWriter,
    ) -> None:
        """Until either side ends it."""
        pumps = [
            asyncio.create_task(self._ask_on(reader, broker_writer)),
            asyncio.create_task(_pump(broker_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _ask_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = b""
        while len(first) < _HEADER_BYTES and _MARKERS_ONLY not in first:
            data = await reader.read(_CHUNK_BYTES)
            if not data:
                return
            first += data
            writer.write(data)
        is_held = _MARKERS_ONLY in first[:_HEADER_BYTES]
        while data := await reader.read(_CHUNK_BYTES):
            if is_held:
                await self._open.wait()
            writer.write(data)
            await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
