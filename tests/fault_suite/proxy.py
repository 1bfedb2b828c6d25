"""A bad network between clients and one broker: a TCP proxy that cuts, slows, delays, stalls one way, and loses frames.

Clients come to it because the broker advertises its port (`advertised` of app/edges/embedded/kafka.py). It does only
what a real network can do: bytes come in order or not at all. A lost frame is therefore the last one of its connection.
The connection is cut when the loss has been kept secret for the configured time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Self

from app.edges.embedded.ports import LOOPBACK
from tests.fault_suite.frames import END_TXN, FrameSplitter, correlation_id, end_txn, request_header
from tests.fault_suite.loop_thread import LoopThread

_Queue = asyncio.Queue[tuple[float, bytes] | None]
"""Frames on their way, with the moment at which they came; None: there is nothing more."""

_CHUNK_BYTES = 64 * 1024
_QUEUED_FRAMES = 64
_STEP_S = 0.1


class Direction(StrEnum):
    TO_BROKER = "to broker"
    TO_CLIENT = "to client"


class Part(StrEnum):
    """The lost part of an EndTxn. Without its request the coordinator decides nothing; without its answer it has."""

    REQUEST = "request"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the network is for every connection, those that stand and those to come.

    is_refusing: new connections are closed at once. stalled: nothing arrives that way, and nothing is lost.
    delay_s: each way. bytes_per_s: of each connection, in each of the ways that are slowed; None: as fast as it goes.
    """

    is_refusing: bool = False
    stalled: frozenset[Direction] = frozenset()
    delay_s: float = 0.0
    bytes_per_s: int | None = None
    slowed: frozenset[Direction] = frozenset(Direction)


WELL = Conditions()


@dataclass(frozen=True, slots=True)
class Loss:
    """Lose the next EndTxn that fits: of this id, or of any; a commit, or an abort.

    silence_s: how long the connection is held before it is cut.
    """

    part: Part
    is_commit: bool = True
    transactional_id: str | None = None
    silence_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """A loss that has happened, at a moment of time.time()."""

    loss: Loss
    transactional_id: str
    producer_id: int
    producer_epoch: int
    at: float


class _EndedError(Exception):
    """Everything that one side has sent has arrived, and it sends no more."""


class _LostFrameError(Exception):
    """Ends a connection whose next frame is lost."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(f"{lost.loss.part} of EndTxn lost")
        self.lost = lost


class BrokerProxy:
    """Listens on `port` of loopback and connects to `target_port`, which may be set later; a context manager.

    Its methods may be called from any thread; they return when their effect is there.
    """

    def __init__(self, port: int, *, target_port: int | None = None, clock: Callable[[], float] = time.time) -> None:
        self.port = port
        self.target_port = target_port
        self._clock = clock
        self._conditions = WELL
        self._losses: list[Loss] = []
        self._lost: list[Lost] = []
        self._connections: set[_Connection] = set()
        self._changed = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread = LoopThread(f"proxy {self.port}")
        self._server = self._thread.ask(asyncio.start_server(self._serve, LOOPBACK, self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.ask(self._end())
        self._thread.close()

    @property
    def conditions(self) -> Conditions:
        return self._conditions

    @property
    def lost(self) -> tuple[Lost, ...]:
        """The losses so far, in order."""
        return tuple(self._lost)

    @property
    def connections(self) -> int:
        """How many stand now."""
        return len(self._connections)

    def impose(self, conditions: Conditions) -> None:
        """Make the network so from now on."""

        async def impose() -> None:
            self._conditions = conditions
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

        self._thread.ask(impose())

    def heal(self) -> None:
        """End all faults and pending losses. Stalled data arrive now."""

        async def forget() -> None:
            self._losses.clear()

        self._thread.ask(forget())
        self.impose(WELL)

    def cut(self) -> None:
        """End every connection at once; what was on its way is lost."""

        async def cut() -> None:
            for connection in tuple(self._connections):
                connection.abort()

        self._thread.ask(cut())

    def refuse(self) -> None:
        """As if the broker were gone: every connection is cut, and no new one comes about until `heal`."""
        self.impose(replace(self._conditions, is_refusing=True))
        self.cut()

    def lose(self, loss: Loss) -> None:
        """Lose one EndTxn, once, when it comes."""

        async def lose() -> None:
            self._losses.append(loss)

        self._thread.ask(lose())

    async def _end(self) -> None:
        self._server.close()
        for connection in tuple(self._connections):
            connection.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._conditions.is_refusing or self.target_port is None:
            writer.transport.abort()
            return
        try:
            broker_reader, broker_writer = await asyncio.open_connection(LOOPBACK, self.target_port)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(self, writer, broker_writer)
        self._connections.add(connection)
        try:
            await connection.run(reader, broker_reader)
        finally:
            self._connections.discard(connection)
            connection.abort()

    async def travelled(self, direction: Direction, arrived_at: float, size_bytes: int) -> None:
        """Wait for as long as these bytes are on their way, under the conditions of now and of what they become."""
        while direction in self._conditions.stalled:
            await self._changed.wait()
        left_s = arrived_at + self._conditions.delay_s - asyncio.get_running_loop().time()
        if left_s > 0:
            await asyncio.sleep(left_s)
        left_bytes = float(size_bytes)
        # In steps: what is slow now may be well before a large frame has passed.
        while left_bytes > 0 and (bytes_per_s := self._conditions.bytes_per_s) is not None:
            if direction not in self._conditions.slowed:
                return
            step_s = min(left_bytes / bytes_per_s, _STEP_S)
            await asyncio.sleep(step_s)
            left_bytes -= step_s * bytes_per_s

    def take_loss(self, part: Part, frame: bytes) -> Lost | None:
        """The loss that this EndTxn request fits, taken from those that are due."""
        asked = end_txn(frame)
        for loss in self._losses:
            is_id = loss.transactional_id in (None, asked.transactional_id)
            if loss.part is part and loss.is_commit is asked.is_commit and is_id:
                self._losses.remove(loss)
                return Lost(loss, asked.transactional_id, asked.producer_id, asked.producer_epoch, self._clock())
        return None

    def happened(self, lost: Lost) -> None:
        self._lost.append(replace(lost, at=self._clock()))


class _Connection:
    """One client's connection and its twin to the broker."""

    def __init__(
        self, proxy: BrokerProxy, client_writer: asyncio.StreamWriter, broker_writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client_writer = client_writer
        self._broker_writer = broker_writer
        self._unanswered: dict[int, Lost] = {}

    def abort(self) -> None:
        self._client_writer.transport.abort()
        self._broker_writer.transport.abort()

    async def run(self, client_reader: asyncio.StreamReader, broker_reader: asyncio.StreamReader) -> None:
        """Until either side ends it, or a frame is lost."""
        queues = {way: _Queue(_QUEUED_FRAMES) for way in Direction}
        pumps = [
            asyncio.create_task(self._read(client_reader, self._heed_request, queues[Direction.TO_BROKER])),
            asyncio.create_task(self._read(broker_reader, self._heed_answer, queues[Direction.TO_CLIENT])),
            asyncio.create_task(self._write(queues[Direction.TO_BROKER], Direction.TO_BROKER, self._broker_writer)),
            asyncio.create_task(self._write(queues[Direction.TO_CLIENT], Direction.TO_CLIENT, self._client_writer)),
        ]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
            for error in filter(None, (pump.exception() for pump in done)):
                if isinstance(error, _LostFrameError):
                    await self._keep_secret(pumps, error.lost)
                elif not isinstance(error, ConnectionError | _EndedError):
                    raise error
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _keep_secret(self, pumps: list[asyncio.Task[None]], lost: Lost) -> None:
        for pump in pumps:
            pump.cancel()
        self._proxy.happened(lost)
        await asyncio.sleep(lost.loss.silence_s)

    async def _read(self, reader: asyncio.StreamReader, heed: Callable[[bytes], None], queue: _Queue) -> None:
        splitter = FrameSplitter()
        loop = asyncio.get_running_loop()
        while data := await reader.read(_CHUNK_BYTES):
            for frame in splitter.feed(data):
                heed(frame)
                await queue.put((loop.time(), frame))
        await queue.put(None)

    async def _write(self, queue: _Queue, direction: Direction, writer: asyncio.StreamWriter) -> None:
        while (arrived := await queue.get()) is not None:
            arrived_at, frame = arrived
            await self._proxy.travelled(direction, arrived_at, len(frame))
            writer.write(frame)
            await writer.drain()
        raise _EndedError

    def _heed_request(self, frame: bytes) -> None:
        header = request_header(frame)
        if header.api_key != END_TXN:
            return
        if (lost := self._proxy.take_loss(Part.REQUEST, frame)) is not None:
            raise _LostFrameError(lost)
        if (lost := self._proxy.take_loss(Part.ANSWER, frame)) is not None:
            self._unanswered[header.correlation_id] = lost

    def _heed_answer(self, frame: bytes) -> None:
        # Not when it was asked for: that the answer has come proves that the coordinator has decided.
        if self._unanswered and (lost := self._unanswered.pop(correlation_id(frame), None)) is not None:
            raise _LostFrameError(lost)
