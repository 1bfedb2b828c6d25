"""Listeners that answer as brokers do, and otherwise what a test has them say.

`recorded` passes questions on to a real broker and keeps its answers; `HostileBroker` gives such answers, or others.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

API_VERSIONS, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 17, 36
Answer = Callable[[int, int, bytes], bytes | None]
"""Number and version of a request, and the answer's frame behind its length as it would be; None to hang up."""


def hang_up(number: int, version: int, request: bytes) -> bytes | None:
    """No answer to anything."""
    del number, version, request
    return None


class Recorded(NamedTuple):
    """Answers of a real broker at `port` by (number, version) of the request, correlation ids included."""

    port: int
    answers: Mapping[tuple[int, int], Sequence[bytes]]


class HostileBroker:
    """Answers every request with the frame that `answer` makes, the correlation id set right."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with closing(connection):
            try:
                while (request := _frame(connection)) is not None:
                    number, version, correlation_id = struct.unpack_from(">hhi", request)
                    answer = self.answer(number, version, request)
                    if answer is None:
                        return
                    connection.sendall(struct.pack(">i", len(answer)) + struct.pack(">i", correlation_id) + answer[4:])
            except OSError:
                return


@contextmanager
def serving(answer: Answer) -> Generator[HostileBroker]:
    broker = HostileBroker(answer)
    try:
        yield broker
    finally:
        broker.close()


@contextmanager
def recording(host: str, port: int) -> Generator[tuple[str, Callable[[], Recorded]]]:
    """The address of a listener before a broker, and what the broker has answered through it until now."""
    answers: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
    behind: dict[int, socket.socket] = {}

    def passed_on(number: int, version: int, request: bytes) -> bytes | None:
        thread = threading.get_ident()
        if thread not in behind:
            behind[thread] = socket.create_connection((host, port), 30)
        behind[thread].sendall(struct.pack(">i", len(request)) + request)
        answer = _frame(behind[thread])
        if answer is None:
            return None
        answers[number, version].append(answer)
        return moved(answer, port, listener.port)

    with serving(passed_on) as listener:
        yield listener.address, lambda: Recorded(port, {key: tuple(found) for key, found in answers.items()})
    for connection in behind.values():
        connection.close()


@contextmanager
def answering(said: bytes, context: ssl.SSLContext | None = None) -> Generator[str]:
    """The address of a listener that answers every request with this, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return  # closed: the test is over
                with plain, suppress(OSError):
                    connection = plain if context is None else context.wrap_socket(plain, server_side=True)
                    connection.recv(4096)
                    connection.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(2)


def moved(answer: bytes, port: int, to: int) -> bytes:
    """The answer with every advertised 127.0.0.1:port moved to another port."""
    host = b"127.0.0.1"
    return answer.replace(host + struct.pack(">i", port), host + struct.pack(">i", to))


def _frame(connection: socket.socket) -> bytes | None:
    size = _exactly(connection, 4)
    return None if size is None else _exactly(connection, struct.unpack(">i", size)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        chunk = connection.recv(size - len(found))
        if not chunk:
            return None
        found += chunk
    return bytes(found)


def string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def versions(supported: Mapping[int, tuple[int, int]], asked_in: int) -> bytes:
    """ApiVersions, of a broker that knows only these messages, in version 0."""
    ranges = b"".join(struct.pack(">hhh", number, *span) for number, span in supported.items())
    return struct.pack(">ihi", 0, 35 if asked_in > 0 else 0, len(supported)) + ranges


def metadata(port: int, version: int, *, cluster_id: str | None, others: Mapping[int, int] | None = None) -> bytes:
    """Metadata in versions 1 and 2, of a cluster without topics; version 1 has no cluster id.

    Its broker is number 7; `others` has the ports of more of them by number.
    """
    brokers = {7: port, **(others or {})}
    listed = b"".join(
        struct.pack(">i", number) + string("127.0.0.1") + struct.pack(">i", at) + string(None)
        for number, at in brokers.items()
    )
    named = b"" if version < 2 else string(cluster_id)
    return struct.pack(">ii", 0, len(brokers)) + listed + named + struct.pack(">ii", 7, 0)


def sasl_handshake(code: int, mechanism: str) -> bytes:
    """SaslHandshake, of a listener that offers one mechanism."""
    return struct.pack(">ihi", 0, code, 1) + string(mechanism)


def expecting_sasl(number: int, version: int, request: bytes) -> bytes | None:
    """A listener that reports its versions to every client, and nothing else to a client without a login."""
    del request
    return versions({API_VERSIONS: (0, 0), METADATA: (0, 2)}, version) if number == API_VERSIONS else None


def damaged(answer: bytes, draw: Any) -> bytes:
    """The answer with one damage; `draw` is a random.Random. Its first four bytes are the correlation id."""
    data = bytearray(answer)
    at = draw.randrange(4, max(5, len(data)))
    kind = draw.choice(("flip", "int", "cut", "insert", "noise"))
    if kind == "flip" and at < len(data):
        data[at] ^= 1 << draw.randrange(8)
    elif kind == "int":
        number = draw.choice((-1, -2, -(2**31), 2**31 - 1, 2**24, 65_536))
        data[at : at + 4] = struct.pack(">i", number)
    elif kind == "cut":
        del data[at:]
    elif kind == "insert":
        data[at:at] = draw.randbytes(draw.randrange(1, 16))
    else:
        data[4:] = draw.randbytes(len(data) - 4)
    return bytes(data)
