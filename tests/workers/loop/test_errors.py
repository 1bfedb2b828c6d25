"""An exception that the client raises while another one is handled is never freed; `error_of` avoids that."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, Producer

from tests.support.living_clients import living_clients
from workers.loop.errors import LoopError, error_of
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.transforms import Output


class FirstError(Exception):
    """Is being handled, or is not, when a client raises."""


def fail(clients: Callable[[], object]) -> weakref.ref[FirstError]:
    first = FirstError()
    kept = weakref.ref(first)
    try:
        raise first
    except FirstError:
        clients()
    return kept


def refused() -> None:
    """A call that a client refuses by itself: this one has no transactional id."""
    with pytest.raises(KafkaException):
        Producer({"log_level": 0}).begin_transaction()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="only Python 3.11 keeps it")
def test_an_exception_that_is_handled_when_a_client_raises_is_kept_for_ever() -> None:
    """The fact that `error_of` is for. If this fails, confluent-kafka lets go of it, and `error_of` may go."""
    kept = fail(refused)
    gc.collect()
    assert kept() is not None


def test_an_exception_that_error_of_has_caught_goes_with_its_last_reference() -> None:
    def body() -> weakref.ref[FirstError]:
        first = FirstError()

        def action() -> None:
            raise first

        error = error_of(action, FirstError)
        assert error is first
        refused()
        return weakref.ref(first)

    kept = body()
    gc.collect()
    assert kept() is None


def test_error_of_catches_only_the_given_kind() -> None:
    assert error_of(lambda: None, FirstError) is None
    with pytest.raises(ZeroDivisionError):
        error_of(lambda: 1 // 0, FirstError)


def test_a_producer_goes_though_its_calls_have_failed_one_after_the_other() -> None:
    """Never initialised, it refuses a record, and then the call that is to say why."""
    before = living_clients()
    producer = TransactionalProducer({"transactional.id": "t", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert living_clients() == before + 1
    with pytest.raises(LoopError, match="_STATE"):
        producer.write_outputs([Output(b"value", None, None, None, None)], topic="sink")
    producer.discard()
    assert living_clients() == before
