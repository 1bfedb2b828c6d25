"""A call of the client that never returns does not block its caller for longer than its bound."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from workers.loop.errors import ProducerLostError
from workers.loop.producing import transactional_producer
from workers.loop.producing.overdue import ends_within
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.slices import CallPatience

LONG_S = 30.0


class StuckClient:
    """As librdkafka while it waits for a coordinator that is gone."""

    def __init__(self) -> None:
        self.thawed = threading.Event()
        self.came_back = threading.Event()

    def send_offsets_to_transaction(self, *_arguments: object) -> None:
        self.thawed.wait(LONG_S)
        self.came_back.set()


class Member:
    def consumer_group_metadata(self) -> object:
        return object()


def test_the_error_of_the_call_is_raised() -> None:
    def fail() -> None:
        raise ArithmeticError("in the other thread")

    with pytest.raises(ArithmeticError, match="in the other thread"):
        ends_within(fail, CallPatience(LONG_S))


def test_a_call_that_returns_is_not_waited_for_any_longer() -> None:
    called: list[str] = []
    assert ends_within(lambda: called.append("yes"), CallPatience(LONG_S))
    assert called == ["yes"]


def test_a_producer_whose_client_does_not_come_back_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_producer, "_OVERDUE_S", 0.1)
    producer = TransactionalProducer({"bootstrap.servers": "127.0.0.1:9", "transactional.id": "stuck"})
    client = StuckClient()
    monkeypatch.setattr(producer, "_producer", client)
    with pytest.raises(ProducerLostError, match=r"did not return from sending the input offsets for 0\.3 s"):
        producer.send_offsets([], cast(Consumer, cast(Any, Member())), patience=CallPatience(0.2))
    assert not client.came_back.is_set()
    # It continues by itself, and its error is not received.
    client.thawed.set()
    assert client.came_back.wait(LONG_S)


class RebalancingClient(StuckClient):
    """Takes its time to say that the group rebalances, and is stuck when it is asked again."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self._takes_s = takes_s

    def send_offsets_to_transaction(self, *arguments: object) -> None:
        takes_s, self._takes_s = self._takes_s, 0.0
        if not takes_s:
            return super().send_offsets_to_transaction(*arguments)
        threading.Event().wait(takes_s)
        raise KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS, txn_requires_abort=True))


def test_second_try_in_a_rebalance_gets_what_is_left_of_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be made in a revoke callback, which must return in time."""
    monkeypatch.setattr(transactional_producer, "_OVERDUE_S", 0.1)
    producer = TransactionalProducer({"bootstrap.servers": "127.0.0.1:9", "transactional.id": "stuck"})
    client = RebalancingClient(takes_s=0.7)
    monkeypatch.setattr(producer, "_producer", client)
    with pytest.raises(ProducerLostError, match=r"for 0\.[1-4] s"):
        producer.send_offsets([], cast(Consumer, cast(Any, Member())), patience=CallPatience(1.0))
    client.thawed.set()
    assert client.came_back.wait(LONG_S)
