"""The consumer is asked on the thread that polls it, for any other thread."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.waiting import wait_for
from workers.loop.errors import AbortableError
from workers.loop.group.member_metadata import MemberMetadata


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
    """The answers of `times` other threads while this one serves; an error as itself."""

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


def test_other_threads_are_answered_on_the_polling_one_with_a_new_read_each() -> None:
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


def test_the_serving_thread_is_woken_when_there_is_nothing_more_to_wait_for() -> None:
    consumer: Any = AskedConsumer()
    metadata = MemberMetadata(consumer)
    over = threading.Timer(0.1, metadata.wake)
    over.start()
    began_at = time.monotonic()
    metadata.serve(20.0)
    assert time.monotonic() - began_at < 10.0


class Waited(MemberMetadata):
    """True if a thread waits."""

    @property
    def is_asked(self) -> bool:
        return not self._asked.empty()


def error_heard(metadata: MemberMetadata) -> Future[object]:
    """The answer to another thread, which the test does not wait for."""
    heard: Future[object] = Future()

    def ask() -> None:
        try:
            heard.set_result(metadata.consumer_group_metadata())
        except AbortableError as error:
            heard.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return heard


def test_a_waiting_thread_is_released_when_the_loop_ends() -> None:
    consumer: Any = AskedConsumer()
    metadata = Waited(consumer)
    heard = error_heard(metadata)
    wait_for(lambda: metadata.is_asked, 10.0, "a thread that waits")
    metadata.close()
    assert isinstance(heard.exception(10.0), AbortableError)
    assert consumer.threads == []


def test_a_request_after_the_end_of_the_loop_does_not_wait() -> None:
    consumer: Any = AskedConsumer()
    metadata = MemberMetadata(consumer)
    metadata.close()
    assert isinstance(error_heard(metadata).exception(10.0), AbortableError)
    assert consumer.threads == []


@pytest.mark.parametrize("wakes", [0, 1])
def test_serving_without_a_request_is_no_error(wakes: int) -> None:
    consumer: Any = AskedConsumer()
    metadata = MemberMetadata(consumer)
    for _ in range(wakes):
        metadata.wake()
    metadata.serve(0.01)
    assert consumer.threads == []
