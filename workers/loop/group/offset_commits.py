"""Commits of offsets outside of a transaction (at_least_once), sent without waiting for the answers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from workers.loop.client_config import Config
from workers.loop.errors import AbortableError, LoopError, RetriableError, kafka_call, translated

_DOING = "commit the input offsets"
_CLOSE_S = 2.0


class _Sent(NamedTuple):
    """A commit without an answer: its time, and the call after its confirmation. `confirmed` must not raise."""

    at: float
    confirmed: Callable[[], None]


class OffsetCommits:
    """The consumer of an attempt, and its commits that are not answered yet.

    The client's synchronous commit waits for the coordinator for ever, despite `socket.timeout.ms`, and every
    other call on the consumer waits with it. So commits are only sent; the client keeps them in order, and sends them
    before it releases partitions. A poll receives the answer. After a refusal the loop reads again from the committed
    offsets. An answer that comes very late does no harm: its offsets are of delivered records.
    """

    def __init__(self, config: Config, *, trouble: Callable[[LoopError], None]) -> None:
        self.consumer = Consumer({**config, "on_commit": self._heard})
        self._trouble = trouble
        self._sent: deque[_Sent] = deque()

    def commit(self, offsets: list[TopicPartition], *, bound_s: float, confirmed: Callable[[], None]) -> None:
        """Send them. AbortableError when an earlier commit has not been answered for `bound_s`.

        Args:
            confirmed: called by the poll that receives the coordinator's confirmation.
        """
        now = time.monotonic()
        if self._sent and now - self._sent[0].at > bound_s:
            raise AbortableError(
                f"could not {_DOING}: the group's coordinator has not answered for {now - self._sent[0].at:.1f} s"
            )
        try:
            with kafka_call(_DOING):
                self.consumer.commit(offsets=offsets, asynchronous=True)
        except RetriableError as error:
            raise AbortableError(str(error)) from error
        self._sent.append(_Sent(now, confirmed))

    def close(self) -> bool:
        """Leave the group and close the consumer, after its last commits were answered; False if they were not.

        `Consumer.close` waits for them without a bound. If the coordinator does not answer, that wait is left to a
        thread that ends with the process. The group then removes the member after the session timeout.
        """
        deadline = time.monotonic() + _CLOSE_S
        with kafka_call("receive the answers to the last commits"):
            self.consumer.pause(self.consumer.assignment())
            while self._sent and time.monotonic() < deadline:
                # A record that still comes is not committed.
                self.consumer.consume(1, 0.05)
        if self._sent:
            threading.Thread(target=self.consumer.close, name="close-consumer", daemon=True).start()
            return False
        self.consumer.close()
        return True

    def _heard(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Called by a poll, in the order of sending. Never raises: it runs inside `consume`."""
        sent = self._sent.popleft() if self._sent else None
        refused = error or next((entry.error for entry in partitions if entry.error is not None), None)
        if refused is not None:
            problem = translated(refused, _DOING)
            is_sorted = isinstance(problem, AbortableError) or refused.fatal()
            self._trouble(problem if is_sorted else AbortableError(str(problem)))
        elif sent is not None:
            sent.confirmed()
