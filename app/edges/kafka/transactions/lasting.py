"""A connection that stays open for many questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.connections import BOOTSTRAP, ClusterConnector
from app.edges.kafka.raw_client import errors, failure, reading_answers
from app.edges.kafka.transactions.asking import AskingClient

T = TypeVar("T")
Opened = TypeVar("Opened", bound="LastingClient")

_GONE_AGAIN_MS = 1_000


class LastingClient(AskingClient):
    """A client whose questions have a time limit each, `timeout_s`. A context manager, used by one thread at a time."""

    def __init__(self, resolved: Mapping[str, str], attempt: ConnectionAttempt, *, timeout_s: float) -> None:
        super().__init__(resolved, attempt)
        # The library requests a deleted topic's metadata from then on, up to ten times a second.
        self._manager.cluster.config["retry_backoff_ms"] = _GONE_AGAIN_MS
        self._timeout_s = timeout_s

    @property
    def kafka_cluster_id(self) -> str:
        return str(self._manager.cluster.cluster_id)

    def _asked(self, what: str, question: Callable[[], T], *, times: int = 1) -> T:
        """Return the answer to one question; one of many parts gets a longer limit."""
        self._attempt = ConnectionAttempt(self._attempt.address, self._timeout_s * times)
        try:
            with reading_answers():
                return question()
        except errors.KafkaError as error:
            raise failure(self._attempt, what, error) from error


class LastingConnector(ClusterConnector):
    """Opens clients of one kind."""

    def _opened(self, client: type[Opened], connection: Mapping[str, str], *, timeout_s: float, what: str) -> Opened:
        resolved = self._resolve(connection)
        attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
        try:
            return client(resolved, attempt, timeout_s=timeout_s)
        except errors.KafkaError as error:
            raise failure(attempt, what, error) from error
