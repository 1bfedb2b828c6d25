"""Send one question to many brokers: to any, to each, and again while leaders and coordinators move."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from app.core.blocked.facts import Refused
from app.edges.kafka.raw_client import RawClient, error_of, errors, is_transient

_RETRY_S = 0.1
_LATER_MS = 200.0
"""The library's own limit comes first, whose error is retried."""
K = TypeVar("K")
V = TypeVar("V")


class AskingClient(RawClient):
    """A connection to the cluster whose questions keep each broker's refusal apart."""

    def _ask_any(self, request: Any) -> Any:
        """Return the answer of the first broker that gives one. Raises a KafkaError of the library's otherwise."""
        while True:
            try:
                return self._manager.run(self._sent_to_any, request)
            except errors.KafkaError as error:
                if not is_transient(error) or self._attempt.is_over:
                    raise
            self._pause()

    async def _sent_to_any(self, request: Any) -> Any:
        if self._reached is None:
            return await self._manager.send(request, request_timeout_ms=self.left_ms / 2)
        try:
            return await self._sent_to(request, self._reached, self.left_ms / 2)
        except errors.KafkaError:
            self._reached = None
            raise

    def _from_each(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Return the answer of each broker, or the reason why it has none."""
        return self._manager.run(self._all_sent, requests) if requests else {}

    async def _all_sent(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        # Half of the remaining time: a broker without an answer must not use up the other questions' time.
        timeout_ms = self.left_ms / 2
        sent = {broker: self._sent_to(request, broker, timeout_ms) for broker, request in requests.items()}
        until = time.monotonic() + timeout_ms / 1000
        answers: dict[int, Any] = {}
        for broker, future in sent.items():
            # A frozen broker accepts a new connection, for which the library waits longer than for an answer.
            left_ms = max(0.0, (until - time.monotonic()) * 1000) + _LATER_MS
            try:
                answers[broker] = await self._manager.wait_for(future, left_ms)
            except errors.KafkaError as error:
                answers[broker] = error
        return answers

    def _settle(
        self,
        found: dict[K, V | Refused],
        asked: Iterable[K],
        last: Mapping[K, Exception],
        refused: Callable[[K, Exception], Refused],
    ) -> None:
        """Record errors that a retry does not fix, and wait before the rest is retried.

        `last` has the newest error of each. A coordinator or leader that moves takes a moment.
        """
        missing = [key for key in asked if key not in found]
        for key in missing:
            error = last.get(key)
            if self._attempt.is_over or (error is not None and not is_transient(error)):
                found[key] = refused(key, error or errors.KafkaTimeoutError("no answer in time"))
        if any(key not in found for key in missing):
            self._pause()

    def _pause(self) -> None:
        time.sleep(min(_RETRY_S, self.left_ms / 1000))


def error_of_answer(answer: Any) -> Exception | None:
    """Return a broker's reason, or its answer to the question as a whole."""
    return answer if isinstance(answer, Exception) else error_in(answer.error_code)


def error_in(code: int) -> Exception | None:
    return None if code == 0 else error_of(code, None)
