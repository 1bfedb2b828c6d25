"""Keep clients that have answered a question, for the next question with the same settings.

A new client costs a thread and two connections, each with its own round trips, more of them with TLS and SASL. A kept
one costs a metadata request, which also proves that a broker still answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Lock, Timer
from typing import Generic, TypeVar

from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_client import RawClient

KEPT_S = 15.0
"""At least this long after its question, at most twice: far below a broker's usual `connections.max.idle.ms`."""
_MOST_KEPT = 4
"""With the same settings: what a page and the server's loops ask at the same moment."""

C = TypeVar("C", bound=RawClient)
Settings = Mapping[str, str]
_Key = frozenset[tuple[str, str]]
"""All settings of a client, with its secrets: a changed password is another key."""


class KeptClients(Generic[C]):
    """Clients without a question, by their settings. Safe from any thread; its methods block.

    kept_s: how long a client waits for the next question.
    """

    def __init__(self, make: Callable[[Settings, ConnectionAttempt], C], *, kept_s: float = KEPT_S) -> None:
        self._make = make
        self._kept_s = kept_s
        self._lock = Lock()
        # With the time of its last question; the newest is the last of its list.
        self._kept: dict[_Key, list[tuple[C, float]]] = {}
        self._timer: Timer | None = None
        self._is_closed = False

    @contextmanager
    def client(self, resolved: Settings, attempt: ConnectionAttempt) -> Generator[C]:
        """Give one question a client. It is kept only if every broker has answered.

        Raises as RawClient does, and its `__exit__`.
        """
        key = frozenset(resolved.items())
        client = self._taken(key)
        if client is not None and not client.resume(attempt):
            client.close()
            client = None
        if client is None:
            client = self._make(resolved, attempt)
        with ExitStack() as stack:
            stack.push(client)
            yield client
            stack.pop_all()
        if not self._is_kept(key, client):
            client.close()

    def close(self) -> None:
        """Close all clients; one with a question is closed after it."""
        with self._lock:
            self._is_closed = True
            clients = [client for kept in self._kept.values() for client, _ in kept]
            self._kept.clear()
            if self._timer is not None:
                self._timer.cancel()
        for client in clients:
            client.close()

    def _taken(self, key: _Key) -> C | None:
        with self._lock:
            kept = self._kept.get(key)
            return kept.pop()[0] if kept else None

    def _is_kept(self, key: _Key, client: C) -> bool:
        with self._lock:
            kept = self._kept.get(key, [])
            if self._is_closed or len(kept) >= _MOST_KEPT or not client.is_at_rest:
                return False
            self._kept[key] = [*kept, (client, time.monotonic())]
            self._start_timer()
            return True

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = Timer(self._kept_s, self._close_idle)
            self._timer.daemon = True
            self._timer.start()

    def _close_idle(self) -> None:
        until = time.monotonic() - self._kept_s
        idle: list[C] = []
        with self._lock:
            self._timer = None
            for key, kept in list(self._kept.items()):
                idle += [client for client, since in kept if since <= until]
                self._kept[key] = [one for one in kept if one[1] > until]
                if not self._kept[key]:
                    del self._kept[key]
            if self._kept:
                self._start_timer()
        for client in idle:
            client.close()
