"""A member's group metadata for threads that must not call the consumer."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer

from workers.loop.errors import AbortableError


class MemberMetadata:
    """Reads it from the consumer on the polling thread, for any thread, and again for each request (rule 2).

    The consumer's calls are made from one thread. Inside a rebalance callback that thread is in the middle of
    `consume`, and a call from another one might wait for it. So other threads ask here, and the polling thread answers
    while it waits for them (`serve`). Made on the polling thread.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._polling_thread = threading.get_ident()
        self._asked: SimpleQueue[Future[object] | None] = SimpleQueue()
        self._is_closed = False

    def consumer_group_metadata(self) -> object:
        """Read it now. Another thread waits for the polling one to serve. AbortableError: it never will."""
        if threading.get_ident() == self._polling_thread:
            return self._consumer.consumer_group_metadata()
        answer: Future[object] = Future()
        self._asked.put(answer)
        if self._is_closed:
            self._refuse_all()
        return answer.result()

    def wake(self) -> None:
        """End the `serve` that waits now, or the next one. From any thread."""
        self._asked.put(None)

    def serve(self, timeout_s: float) -> None:
        """Answer the next request, if one comes within `timeout_s`. On the polling thread; never raises."""
        try:
            answer = self._asked.get(timeout=timeout_s)
        except Empty:
            return
        if answer is None:
            return
        try:
            found = self._consumer.consumer_group_metadata()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
            answer.set_exception(error)
        else:
            answer.set_result(found)

    def close(self) -> None:
        """End serving: open and later requests are refused. A thread that waited for ever would keep the process from
        ending."""
        self._is_closed = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        with suppress(Empty):
            while True:
                answer = self._asked.get_nowait()
                if answer is not None:
                    answer.set_exception(AbortableError("the loop has ended"))
