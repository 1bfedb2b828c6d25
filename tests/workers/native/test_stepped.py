"""Outputs of steps by C are those of the same steps by Python, on a real broker: order, headers, times and topics."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import Message

from app.core.pipelines.pipeline import Filter, Project, Route, Step, StepOperator
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.odd_records import OddRecord, now_ms, write_raw
from tests.support.verifier import read_all
from tests.workers.native.test_held import ROOM_S, begin, consumer_of, objects, polls, producer_of
from workers.loop.records.polled import MessageSource, PolledMessages, Records
from workers.native.held import HeldRecords
from workers.native.library import NativeLibrary, native_library
from workers.native.stepping import Stepped
from workers.native.taking import NativeSource
from workers.transforms import Output
from workers.transforms.carrying import kept, transformed, untimed
from workers.transforms.steps import StepsTransform

PLAIN, BY_PYTHON = b'{"id": 1, "delay": 20, "x": 1}', b'{"id": 1e3, "delay": 20, "x": 1}'
LATE, DROPPED, BAD = b'{"id": 2, "delay": 90}', b'{"id": 3, "delay": 1}', b'{"id": 4, "delay": "much"}'
VALUES = [None, b"", b"[1]", PLAIN, BY_PYTHON, LATE, b'{"id": 2.50, "delay": 90}', DROPPED, BAD]
HEADERS: list[tuple[tuple[bytes, bytes | None], ...]] = [(), ((b"a", b"1"), (b"a", None)), ((b"", b""),)]


def steps_to(late: str, lost: str) -> list[Step]:
    return [
        Filter(field="delay", operator=StepOperator.GE, value=15),
        Route(field="delay", operator=StepOperator.GE, value=60, topic=late),
        Route(field="lost", operator=StepOperator.EXISTS, topic=lost),
        Project(fields=("id", "delay")),
    ]


class Scene:
    """The same records of one topic by C and as messages, and a transform with two routes."""

    def __init__(self, kafka: KafkaCluster, make_topic: MakeTopic, written: Sequence[OddRecord]) -> None:
        library = native_library()
        assert isinstance(library, NativeLibrary), library
        self._servers = kafka.bootstrap_servers
        self._kafka = kafka
        source = make_topic()
        self.sink, self.late, self.lost = make_topic(), make_topic(), make_topic()
        write_raw(kafka.bootstrap_servers, source, written)
        self.transform = StepsTransform(steps_to(self.late, self.lost), sink_topic=self.sink)
        self._consumers = [consumer_of(kafka), consumer_of(kafka)]
        self._native = NativeSource(self._consumers[0], library)
        python = MessageSource(self._consumers[1], why="of this test")
        begin(self._consumers[0], self._native, source, 1)
        begin(self._consumers[1], python, source, 1)
        self.held = polls(self._native, len(written))
        found = [message for records in polls(python, len(written)) for message in objects(records)]
        self.parts = [PolledMessages(one for one in found if is_in(one, held)) for held in self.held]

    def stepped(self, held: Records) -> Stepped:
        assert isinstance(held, HeldRecords)
        found = held.stepped(self.transform)
        assert isinstance(found, Stepped)
        return found

    def write(self, make: Any, **settings: Any) -> None:
        """Write what `make` returns for each part, in one transaction."""
        producer = producer_of(self._kafka, **settings)
        producer.init_transactions(30)
        producer.begin_transaction()
        for held in self.held:
            make(held).write(producer, topic=self.sink, keep_partition=False, room_within_s=ROOM_S)
        producer.commit_transaction(30)

    def outputs(self) -> Mapping[str, list[tuple[Any, ...]]]:
        return {
            topic: [(one.value, one.key, one.headers, one.timestamp_ms) for one in read_all(self._servers, topic)]
            for topic in (self.sink, self.late, self.lost)
        }

    def close(self) -> None:
        self._native.close()
        for consumer in self._consumers:
            consumer.close()


def is_in(message: Message, held: Records) -> bool:
    first, last = held.span
    return first <= (message.offset() or 0) <= last


def expected_of(scene: Scene) -> tuple[Mapping[str, list[tuple[Any, ...]]], list[dict[int, type[Exception]]]]:
    """The outputs by topic, and the errors of each part, by Python alone."""
    outputs: list[Output] = []
    errors: list[dict[int, type[Exception]]] = []
    for part in scene.parts:
        processed, failed = transformed(scene.transform, part)
        bad = untimed(processed)
        outputs += kept(processed, bad)
        errors.append({index: type(error) for index, error in {**failed, **bad}.items()})
    by_topic = {
        topic: [
            (one.value, one.key, one.headers or [], one.timestamp_ms)
            for one in outputs
            if (one.topic or scene.sink) == topic
        ]
        for topic in (scene.sink, scene.late, scene.lost)
    }
    return by_topic, errors


def drawn(rng: random.Random, count: int) -> list[OddRecord]:
    """Each value with and without a time, and more at random."""
    now = now_ms()
    every = [OddRecord(b"k", value, (), at) for value in VALUES for at in (now, 0)]
    return every + [
        OddRecord(
            rng.choice([None, b"", b"key"]), rng.choice(VALUES), rng.choice(HEADERS), rng.choice([now, now, 0, 7])
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("queue", [100_000, 7])
def test_outputs_and_errors_are_pythons_in_their_order(
    kafka: KafkaCluster, make_topic: MakeTopic, rng: random.Random, queue: int
) -> None:
    """Through a large queue, and through one of seven records."""
    scene = Scene(kafka, make_topic, drawn(rng, 100))
    errors: list[dict[int, type[Exception]]] = []
    sizes: list[int] = []

    def make(held: Records) -> Stepped:
        stepped = scene.stepped(held)
        errors.append({index: type(error) for index, error in stepped.failures.items()})
        sizes.append(stepped.size_bytes)
        return stepped

    scene.write(make, **{"queue.buffering.max.messages": queue})
    by_topic, expected_errors = expected_of(scene)
    found = scene.outputs()
    scene.close()
    assert found == by_topic
    assert errors == expected_errors
    assert sum(sizes) == sum(len(value or b"") for some in by_topic.values() for value, *_ in some)
    assert all(by_topic.values()), "each topic has outputs"


def test_records_for_a_refused_topic_are_bad_with_all_their_outputs(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    """A tombstone goes to every topic, so that one refused topic is enough."""
    values = [PLAIN, LATE, None, BY_PYTHON, BAD]
    scene = Scene(kafka, make_topic, [OddRecord(b"k", value, (), now_ms()) for value in values])
    problem = ValueError("there is no such topic")
    refused: list[dict[int, Exception]] = []

    def make(held: Records) -> Stepped:
        stepped = scene.stepped(held)
        refused.append(stepped.refuse({scene.late: problem} if scene.late in stepped.topics else {}))
        return stepped

    scene.write(make)
    found = scene.outputs()
    scene.close()
    assert [error for some in refused for error in some.values()] == [problem, problem]
    assert [value for value, *_ in found[scene.sink]] == [b'{"id":1,"delay":20}', b'{"id":1000.0,"delay":20}']
    assert (found[scene.late], found[scene.lost]) == ([], [])
