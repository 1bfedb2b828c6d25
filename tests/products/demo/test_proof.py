"""The demo's check detects errors: a stand-in pipeline loses, repeats and alters records."""

import json
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.edges.embedded.kafka import KafkaCluster
from app.products.demo import proof
from app.products.demo.feed import Feed, laps
from app.products.demo.flights import Flight, read_flights
from app.products.demo.offsets import answered
from app.products.demo.outputs import PROJECTED, LateFlights
from app.products.demo.proof import SinkProof
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise
from tests.support.waiting import wait_for

FLIGHTS = 2_000


class Bench:
    """A source topic with flights in it, a sink, and a group that a stand-in pipeline commits for."""

    def __init__(self, kafka: KafkaCluster, make_topic: MakeTopic) -> None:
        self.bootstrap = kafka.bootstrap_servers
        self.source, self.sink = make_topic(partitions=4, prefix="flights"), make_topic(partitions=2, prefix="late")
        self.group = self.sink
        self.flights = read_flights(limit=FLIGHTS)
        self.feed = Feed(bootstrap_servers=self.bootstrap, topic=self.source, partitions=4)
        self.proof = SinkProof(
            bootstrap_servers=self.bootstrap,
            group=self.group,
            feed=self.feed,
            sink_topic=self.sink,
            outputs=LateFlights(),
            settle_s=2,
        )

    def process(
        self, *, outputs: Callable[[list[bytes]], list[bytes]] = list, up_to: float = 1.0, is_abort: bool = False
    ) -> None:
        """Process the first `up_to` inputs in one transaction; `outputs` alters the result."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.group})
        initialise(producer)
        producer.begin_transaction()
        ends = {p: int(len(self.feed.flights_in(p)) * up_to) for p in range(4)}
        late = [flight for p, end in ends.items() for _, flight in self.feed.flights_in(p)[:end] if flight.is_late]
        for value in outputs([projected(flight) for flight in late]):
            producer.produce(self.sink, value)
        offsets = [TopicPartition(self.source, p, end) for p, end in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if is_abort:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            # The coordinator answers before its markers are written: the group's offsets follow a moment later.
            wait_for(lambda: self.proof.committed() == list(ends.values()), 30, f"the offsets {ends} of {self.group}")
        consumer.close()


def projected(flight: Flight) -> bytes:
    record: dict[str, Any] = json.loads(flight.value())
    return json.dumps({name: record[name] for name in PROJECTED}).encode()


@pytest.fixture
def bench(kafka: KafkaCluster, make_topic: MakeTopic) -> Generator[Bench]:
    bench = Bench(kafka, make_topic)
    bench.feed.send_all((1, flight) for flight in bench.flights)
    yield bench
    bench.proof.close()


def test_fed_flights_are_at_the_recorded_offsets(bench: Bench) -> None:
    consumer = Consumer({"bootstrap.servers": bench.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(bench.source, p, 0) for p in range(4)])
    found: dict[tuple[int, int], str] = {}
    deadline = time.monotonic() + 30
    while len(found) < FLIGHTS and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            found[partition, offset] = json.loads(message.value() or b"")["flight_id"]
    fed = {(p, n): f.flight_id for p in range(4) for n, (_, f) in enumerate(bench.feed.flights_in(p))}
    assert found == fed
    # No markers: committed offsets of the source count flights.
    ends = [consumer.get_watermark_offsets(TopicPartition(bench.source, p), 10)[1] for p in range(4)]
    consumer.close()
    assert sum(ends) == bench.feed.sent == FLIGHTS


def test_exactly_once_is_seen_as_such(bench: Bench) -> None:
    bench.process()
    verdict = bench.proof.look()
    late = sum(flight.is_late for flight in bench.flights)
    assert late > 0
    assert (verdict.records_in, verdict.expected, verdict.found) == (FLIGHTS, late, late)
    assert verdict.is_exactly_once, verdict.sentence()


def test_before_anything_is_committed_nothing_is_expected_and_nothing_is_lost(bench: Bench) -> None:
    verdict = bench.proof.look()
    assert (verdict.records_in, verdict.expected, verdict.found) == (0, 0, 0)
    assert verdict.is_exactly_once


def test_a_missing_flight_is_lost(bench: Bench) -> None:
    bench.process(outputs=lambda values: values[1:])
    verdict = bench.proof.look()
    assert (verdict.lost, verdict.duplicated, verdict.is_exactly_once) == (1, 0, False)


def test_a_second_copy_is_duplicated(bench: Bench) -> None:
    bench.process(outputs=lambda values: [*values, values[0], values[0]])
    verdict = bench.proof.look()
    assert (verdict.lost, verdict.duplicated, verdict.is_exactly_once) == (0, 2, False)


def test_an_aborted_transaction_counts_for_nothing(bench: Bench) -> None:
    bench.process(is_abort=True)
    assert bench.proof.look().found == 0
    bench.process()
    verdict = bench.proof.look()
    assert verdict.is_exactly_once, verdict.sentence()
    assert verdict.found == verdict.expected > 0


def test_a_changed_field_and_a_flight_that_was_not_late_are_wrong(bench: Bench) -> None:
    punctual = next(flight for flight in bench.flights if flight.arrival_delay_min == 0)

    def spoil(values: list[bytes]) -> list[bytes]:
        first = {**json.loads(values[0]), "destination": "XXX"}
        return [json.dumps(first).encode(), *values[1:], projected(punctual), b"\xff"]

    bench.process(outputs=spoil)
    verdict = bench.proof.look()
    assert verdict.lost == 1
    assert len(verdict.wrong) == 3, verdict.wrong
    assert not verdict.is_exactly_once


def test_each_check_adds_new_records(bench: Bench) -> None:
    bench.process(up_to=0.5)
    half = bench.proof.look()
    assert 0 < half.records_in < FLIGHTS
    assert half.fed == FLIGHTS
    assert f"{half.records_in:,} flights read of {FLIGHTS:,} fed" in half.sentence()
    assert half.is_exactly_once, half.sentence()
    already = half.found
    bench.process(outputs=lambda values: values)
    whole = bench.proof.look()
    assert whole.records_in == FLIGHTS
    # The stand-in writes the first half again: exactly those are duplicated.
    assert whole.duplicated == already > 0


def test_a_broker_that_is_frozen_meanwhile_ends_no_proof(
    bench: Bench, kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.process()
    asked: list[str] = []

    def counting(what: str, ask: Callable[[], Any]) -> Any:
        def counted() -> Any:
            asked.append(what)
            return ask()

        return answered(what, counted)

    # Each request times out long before the broker is back.
    monkeypatch.setattr(proof, "ANSWER_S", 0.5)
    monkeypatch.setattr(proof, "answered", counting)
    with ThreadPoolExecutor(max_workers=1) as pool:
        broker = kafka.broker(1)
        broker.pause()
        try:
            looking = pool.submit(bench.proof.look)
            wait_for(lambda: len(asked) >= 3, 30, "two questions without an answer")
        finally:
            broker.resume()
        verdict = looking.result(60)
    assert verdict.records_in == FLIGHTS
    assert verdict.is_exactly_once, verdict.sentence()


def test_a_steady_feed_keeps_its_rate_and_ends_with_its_input(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    feed = Feed(bootstrap_servers=kafka.bootstrap_servers, topic=make_topic(partitions=4), partitions=4)
    flights = read_flights(limit=1_000)
    started = time.monotonic()
    feed.send_steadily(iter([(1, flight) for flight in flights]), rate_per_s=1_000, stop=threading.Event())
    took_s = time.monotonic() - started
    assert feed.sent == 1_000
    # It cannot be faster than its rate; how much slower depends on the machine.
    assert took_s >= 0.99


def test_laps_start_at_the_given_flight_and_then_repeat_the_year() -> None:
    flights = read_flights(limit=3)
    endless = laps(flights, start=2)
    ids = [flight.id_in(lap) for lap, flight in (next(endless) for _ in range(5))]
    assert ids == [flights[2].flight_id, *(f"{f.flight_id}~2" for f in flights), f"{flights[0].flight_id}~3"]
