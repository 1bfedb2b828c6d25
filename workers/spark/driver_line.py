"""A task's connection to its driver: begins, polls from a thread of its own, reports its end."""

from __future__ import annotations

import http.client
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

import msgspec

from app.kit.storable import storable
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

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.3
Answer = TypeVar("Answer")


class DriverAwayError(Exception):
    """The driver did not answer; it is dying, or the network between it and the executor is cut."""


class DriverLine:
    """`hear` is called with every answer of the driver, on the polling thread. One line belongs to one attempt."""

    def __init__(self, *, host: str, port: int, secret: str, timeout_s: float = 2.0) -> None:
        self._host = host
        self._port = port
        self._secret = secret
        self._timeout_s = timeout_s
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, begun: Begun) -> TaskAdmission:
        """Enter this attempt in the driver's book; raises DriverAwayError."""
        return self._once(BEGIN_PATH, begun, TaskAdmission)

    def end(self, ended: AttemptEnded) -> None:
        """Report the end of this attempt, if the driver still answers."""
        try:
            self._once(END_PATH, ended, DriverMessage)
        except DriverAwayError as error:
            log.warning("the end of this attempt (%s) did not reach the driver: %s", ended.end, error)

    def listen(
        self, polled: PolledControl, hear: Callable[[DriverMessage], None], *, after_each: Callable[[], None]
    ) -> None:
        """Poll until `close`; `after_each` is called after every poll, answered or not."""
        self._thread = threading.Thread(
            target=self._poll, args=(polled, hear, after_each), name="fenceline-driver-line", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(self._timeout_s)

    def _poll(
        self, polled: PolledControl, hear: Callable[[DriverMessage], None], after_each: Callable[[], None]
    ) -> None:
        connection: http.client.HTTPConnection | None = None
        is_away = False
        while not self._closing.wait(POLL_INTERVAL_S):
            try:
                connection = connection or self._connect()
                hear(self._exchange(connection, POLL_PATH, polled, DriverMessage))
                is_away = False
            except DriverAwayError as error:
                if not is_away:
                    log.warning("the driver does not answer, the task continues without it: %s", error)
                is_away = True
                if connection is not None:
                    connection.close()
                connection = None
            except Exception:
                # A bug of Fenceline, or a machine without memory or threads: without this thread a drain would be lost.
                if not is_away:
                    log.exception("the driver's answer was not understood; the task continues and asks again")
                is_away = True
            after_each()
        if connection is not None:
            connection.close()

    def _once(self, path: str, message: msgspec.Struct, answer: type[Answer]) -> Answer:
        connection = self._connect()
        try:
            return self._exchange(connection, path, message, answer)
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _exchange(
        self, connection: http.client.HTTPConnection, path: str, message: msgspec.Struct, answer: type[Answer]
    ) -> Answer:
        try:
            connection.request(
                "POST",
                path,
                body=msgspec.json.encode(storable(message)),
                headers={"Authorization": f"Bearer {self._secret}"},
            )
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise DriverAwayError(f"{self._host}:{self._port}: {error or type(error).__name__}") from error
        if response.status != 200:
            raise DriverAwayError(f"{self._host}:{self._port} answered {response.status}")
        try:
            return msgspec.json.decode(raw, type=answer)
        except msgspec.MsgspecError as error:
            raise DriverAwayError(f"{self._host}:{self._port} gave an answer of another protocol: {error}") from error
