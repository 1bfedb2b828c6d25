"""When a thread of the client takes a whole core: why `exactly_once` has the linger that it has (client_config.py)."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator

import pytest
from confluent_kafka import Producer

from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

_DEADLINE_S = 20.0
_MANY = 20
"""With so many records one request delays the next: the client allows five unanswered ones of a partition."""
_SPINS = 10_000
_LOOKS = 10


class Told:
    """The statistics of the threads that talk to brokers. The producer holds it, so it holds no producer."""

    def __init__(self) -> None:
        self.times = 0
        self.wakeups = 0
        self.produce_requests = 0

    def __call__(self, statistics: str) -> None:
        brokers = [one for one in json.loads(statistics)["brokers"].values() if one["toppars"]]
        self.times += 1
        self.wakeups = sum(one["wakeups"] for one in brokers)
        self.produce_requests = sum(one["req"]["Produce"] for one in brokers)


class Watched:
    """A producer in a transaction that has written a record."""

    def __init__(self, bootstrap_servers: str, topic: str, *, linger_ms: int) -> None:
        self.told = Told()
        self._topic = topic
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": unique_name("id"),
                "linger.ms": linger_ms,
                "statistics.interval.ms": 50,
                "stats_cb": self.told,
            }
        )
        initialise(self.producer)
        self.producer.begin_transaction()
        self.write(1)
        assert self.producer.flush(_DEADLINE_S) == 0
        self.wait_for_request(1)

    def write(self, records: int) -> None:
        for _ in range(records):
            self.producer.produce(self._topic, b"x", partition=0)

    def wait_for_request(self, number: int) -> None:
        self._wait_for(lambda: self.told.produce_requests >= number, f"request {number} on its way")

    def wakeups(self) -> int:
        """Sample the threads several times."""
        before, end = self.told.wakeups, self.told.times + _LOOKS
        self._wait_for(lambda: self.told.times >= end, "statistics")
        return self.told.wakeups - before

    def wait_for_spinning(self) -> None:
        before = self.told.wakeups
        self._wait_for(lambda: self.told.wakeups - before > _SPINS, "a thread that spins")

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            self.producer.poll(0.05)
            return condition()

        wait_for(is_so, _DEADLINE_S, lambda: f"{what}; {self.told.wakeups} wakeups by now")


@pytest.fixture
def frozen(kafka: KafkaCluster, make_topic: MakeTopic) -> Generator[Callable[[int], Watched]]:
    """Makes a producer that has written to a broker which does not answer any more; it does when the test is over."""
    made: list[Watched] = []

    def make(linger_ms: int) -> Watched:
        made.append(Watched(kafka.bootstrap_servers, make_topic(), linger_ms=linger_ms))
        kafka.broker(1).pause()
        return made[-1]

    yield make
    kafka.broker(1).resume()
    while made:
        # Taken out of what pytest holds until the test is over: no client is to be left.
        producer = made.pop().producer
        assert producer.flush(_DEADLINE_S) == 0
        producer.abort_transaction(_DEADLINE_S)


def test_a_request_unanswered_and_records_over_their_linger_make_the_client_spin(
    frozen: Callable[[int], Watched],
) -> None:
    client = frozen(5)
    client.write(_MANY)
    client.wait_for_request(2)
    assert client.wakeups() < _SPINS / 10, "an unanswered request alone makes no thread spin"
    client.write(_MANY)
    client.wait_for_spinning()


def test_records_that_linger_until_the_flush_leave_together_and_no_thread_spins(
    frozen: Callable[[int], Watched],
) -> None:
    client = frozen(30_000)
    client.write(_MANY)
    client.write(_MANY)
    assert client.producer.flush(0.1) == 2 * _MANY
    client.wait_for_request(2)
    assert client.wakeups() < _SPINS / 10
    assert client.told.produce_requests == 2
