"""Producers whose transactions a test leaves as it wants them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from app.core.clusters.brokers import Connection
from tests.support.kafka_clients import initialise
from tests.support.quiet import QUIET

_TIMEOUT_S = 30.0


def producer(connection: Connection, transactional_id: str | None = None, **settings: str) -> Producer:
    """One that writes at once; with an id its transactions are initialised. `settings` have dots in their names."""
    given: dict[str, Any] = {**connection, **QUIET, "linger.ms": 0, **settings}
    made = Producer(given | ({"transactional.id": transactional_id} if transactional_id else {}))
    if transactional_id:
        initialise(made)
    return made


def send(into: Producer, topic: str, *values: str, key: str = "key") -> None:
    """One batch in partition 0 for each value."""
    for value in values:
        into.produce(topic, value, key=key, partition=0)
        assert into.flush(_TIMEOUT_S) == 0


def take_over(connection: Connection, topic: str, transactional_id: str) -> tuple[Producer, Producer]:
    """Leave a batch of the first producer aborted, its marker, and a batch of the second one open: offsets 0, 1, 2."""
    first = producer(connection, transactional_id)
    first.begin_transaction()
    send(first, topic, "first")
    second = producer(connection, transactional_id)
    second.begin_transaction()
    send(second, topic, "second")
    return first, second
