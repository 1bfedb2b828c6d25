"""The consumer is asked on the thread that polls it, whoever wants to know."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from workers.transactional.errors import AbortableError
from workers.transactional.group.member_metadata import MemberMetadata


class AskedConsumer:
    """Says in which thread it was asked, and how often."""

    def __init__(self, error: Exception | None = None) -> None:
        self.threads: list[int] = []
        self._error = error

    def consumer_group_metadata(self) -> object:
        self.threads.append(threading.get_ident())
        if self._error is not None:
            raise self._error
        return len(self.threads)


def served(metadata: MemberMetadata, times: int) -> list[Any]:
    """What `times` other threads hear while this one serves; an error as itself."""

    def ask() -> object:
        try:
            return metadata.consumer_group_metadata()
        except ValueError as error:
            return error

    with ThreadPoolExecutor(times) as pool:
        futures = [pool.submit(ask) for _ in range(times)]
        for future in futures:
            future.add_done_callback(lambda _: metadata.wake())
        while not all(future.done() for future in futures):
            metadata.serve(5.0)
        return [future.result() for future in futures]


def test_other_threads_are_answered_on_the_polling_one_each_anew() -> None:
    consumer: Any = AskedConsumer()
    assert sorted(served(MemberMetadata(consumer), 8)) == list(range(1, 9))
    assert set(consumer.threads) == {threading.get_ident()}


def test_polling_thread_asks_without_waiting() -> None:
    consumer: Any = AskedConsumer()
    assert MemberMetadata(consumer).consumer_group_metadata() == 1


def test_error_is_raised_where_it_was_asked_for() -> None:
    error = ValueError("the consumer is closed")
    consumer: Any = AskedConsumer(error)
    assert served(MemberMetadata(consumer), 2) == [error, error]


def test_who_serves_is_woken_when_there_is_nothing_more_to_wait_for() -> None:
    consumer: Any = AskedConsumer()
    metadata = MemberMetadata(consumer)
    over = threading.Timer(0.1, metadata.wake)
    over.start()
    began_at = time.monotonic()
    metadata.serve(20.0)
    assert time.monotonic() - began_at < 10.0


def test_nobody_waits_for_who_serves_no_more() -> None:
    """One has asked before, one asks afterwards; neither is answered by the consumer."""
    consumer: Any = AskedConsumer()
    metadata = MemberMetadata(consumer)
    with ThreadPoolExecutor(2) as pool:
        before = pool.submit(metadata.consumer_group_metadata)
        metadata.close()
        after = pool.submit(metadata.consumer_group_metadata)
        errors = [future.exception(20.0) for future in (before, after)]
    assert [type(error) for error in errors] == [AbortableError, AbortableError]
    assert consumer.threads == []


@pytest.mark.parametrize("wakes", [0, 1])
def test_nobody_who_asks_is_no_error(wakes: int) -> None:
    consumer: Any = AskedConsumer()
    metadata = MemberMetadata(consumer)
    for _ in range(wakes):
        metadata.wake()
    metadata.serve(0.01)
    assert consumer.threads == []
