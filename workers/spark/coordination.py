"""The driver's answers to its tasks: a small HTTP server of its own (rule 9 without Fenceline's server)."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from app.core.wire.heartbeat import DesiredTaskState
from workers.spark.attempts import AttemptBook, AttemptPatience, AttemptVerdict
from workers.spark.messages import (
    BEGIN_PATH,
    END_PATH,
    POLL_PATH,
    AttemptEnded,
    Begun,
    DriverMessage,
    PolledControl,
    TaskAdmission,
)

LARGEST_MESSAGE_BYTES = 64 * 1024


class CoordinationServer:
    """Reports the desired state to tasks and writes their attempts into the book; thread-safe.

    Only tasks with `secret` may ask; it is new for each application and travels to the tasks with their closure.
    """

    def __init__(
        self,
        *,
        host: str,
        tasks: int,
        desired: DesiredTaskState,
        patience: AttemptPatience | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.secret = secrets.token_urlsafe(32)
        self._desired = desired
        self._book = AttemptBook(tasks=tasks, patience=patience)
        self._now_s = now_s
        self._lock = threading.Lock()
        self._http = _Http((host, 0), self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.1,), name="fenceline-coordination", daemon=True
        )

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def desired(self) -> DesiredTaskState:
        return self._desired

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def want(self, desired: DesiredTaskState) -> None:
        """Answer the next polls of tasks with this state; DRAIN is final."""
        with self._lock:
            if self._desired is not DesiredTaskState.DRAIN:
                self._desired = desired

    def verdict(self) -> AttemptVerdict | None:
        with self._lock:
            return self._book.verdict()

    def attempts_begun(self) -> int:
        """The number of attempts that have reached our code."""
        with self._lock:
            return self._book.attempts_begun

    def active_attempts(self) -> int:
        """The number of attempts of this instance that may be running."""
        with self._lock:
            return self._book.active

    def crashing_tasks(self) -> int:
        """The number of tasks that failed several times in a row and were not healthy for a while since."""
        with self._lock:
            return self._book.crashing(now_s=self._now_s())

    def answer(self, path: str, body: bytes) -> msgspec.Struct | None:
        """The answer to one request; None for a path that is not known. Raises msgspec.MsgspecError on a bad body."""
        with self._lock:
            if path == POLL_PATH:
                polled = msgspec.json.decode(body, type=PolledControl)
                return self._word(polled.task, polled.attempt)
            if path == BEGIN_PATH:
                begun = msgspec.json.decode(body, type=Begun)
                wait_s = self._book.begin(begun.task, begun.attempt, now_s=self._now_s())
                return TaskAdmission(
                    desired=self._desired,
                    is_current_attempt=wait_s is not None,
                    wait_s=wait_s or 0.0,
                    reason=self._book.why_waits(begun.task) if wait_s else "",
                )
            if path == END_PATH:
                ended = msgspec.json.decode(body, type=AttemptEnded)
                self._book.end(ended.task, ended.attempt, ended.end, ended.message, now_s=self._now_s())
                return self._word(ended.task, ended.attempt)
        return None

    def _word(self, task: int, attempt: int) -> DriverMessage:
        return DriverMessage(desired=self._desired, is_current_attempt=self._book.is_current(task, attempt))


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], owner: CoordinationServer) -> None:
        super().__init__(address, _Handler)
        self.owner = owner


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride]  # the base class names its own parent type

    def do_POST(self) -> None:
        said = self.headers.get("Authorization", "")
        if not hmac.compare_digest(said.encode(), f"Bearer {self.server.owner.secret}".encode()):
            self._reply(401, b"")
            return
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_MESSAGE_BYTES:
            self._reply(413, b"")
            return
        try:
            answer = self.server.owner.answer(self.path, self.rfile.read(length))
        except msgspec.MsgspecError as error:
            self._reply(400, str(error).encode())
            return
        if answer is None:
            self._reply(404, b"")
        else:
            self._reply(200, msgspec.json.encode(answer))

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status != 200:
            # Unread data of a refused request must not be taken for the next one.
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
        """Log nothing: polls come several times a second."""
