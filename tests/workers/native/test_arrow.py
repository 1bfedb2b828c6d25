"""Functions over Arrow batches give the same for records that C holds as for messages, on a real broker."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import PythonFunction, PythonScope
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.odd_records import OddRecord, write_raw
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from workers.loop.errors import LoopError, RefusedError
from workers.loop.records.polled import MessageSource, Records, RecordSource
from workers.loop.records.writing import write_outputs
from workers.native import arrow as native_arrow
from workers.native.arrow import ArrowRows
from workers.native.library import NativeLibrary, native_library
from workers.native.taking import NativeSource
from workers.transforms.arrow_function import ArrowTransform
from workers.transforms.carrying import kept, transformed, untimed
from workers.transforms.user_code import sha256_of

PARTITIONS, EACH = 3, 60
ROOM_S = 10.0
AT = 1_600_000_000_000

SOURCE = """
import pyarrow as pa
import pyarrow.compute as pc
import polars as pl

SEED = {seed}


def unchanged(batch):
    return batch


def values_alone(batch):
    return batch.select(["value"])


def seen(batch):
    rows = batch.set_column(3, "timestamp", batch["timestamp"].cast("int64"))
    return pa.table({{"value": [repr(row) for row in rows.to_pylist()]}})
seen.needs_headers = True


def with_headers(batch):
    return batch
with_headers.needs_headers = True


def chosen(batch):
    "Some rows dropped, some twice, in another order, slices of larger arrays."
    table = pa.Table.from_batches([batch.select(["value", "partition", "offset", "topic"])])
    mask = pc.not_equal(pc.bit_wise_and(table["offset"], 3), 1)
    some = table.filter(mask)
    return pa.concat_tables([some, table.slice(5, 7), some.slice(3)]).slice(1)


def everything(batch):
    "Each optional column, with nulls."
    n = len(batch)
    picks = [(SEED * 31 + offset) % 5 for offset in batch["offset"].to_pylist()]
    headers = [None, [], [("a", b"1"), ("ü", None)], [("", b"")], [("b", b"x" * 9)]]
    kind = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    lists = pa.array([[]] + [headers[pick] for pick in picks], kind).slice(1)
    return pa.table({{
        "value": pa.array([None] + [[b"", None, b"x", b"yy", b"zzz"][pick] for pick in picks]).slice(1),
        "key": [[None, b"", b"k", b"l", b"m"][pick] for pick in picks],
        "timestamp": pa.array([[None, 7, 1_700_000_000_000, 0, 9][pick] for pick in picks], pa.int64()),
        "output_topic": [[None, "{routed}", None, "{routed}", "missing"][pick] for pick in picks],
        "headers": lists,
    }})


def fails_for_some(batch):
    if pc.any(pc.equal(pc.bit_wise_and(batch["offset"], 7), 2)).as_py():
        raise ValueError
    return everything(batch)


def larger(batch):
    topics = ["{routed}" if offset == 3 else None for offset in batch["offset"].to_pylist()]
    return pa.table({{"value": [b"" if topic is None else b"x" * 2000 for topic in topics], "output_topic": topics}})


def by_polars(batch):
    frame = pl.from_arrow(batch).filter(pl.col("value").is_not_null())
    frame = frame.with_columns(value=pl.col("value").bin.encode("hex"))
    return frame.select("value", "offset", "partition", "topic", key=pl.lit("k")).to_arrow()
"""
FUNCTIONS = [
    *("unchanged", "values_alone", "seen", "with_headers", "chosen", "everything", "fails_for_some", "by_polars"),
]


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    found = native_library()
    assert isinstance(found, NativeLibrary), found
    return found


class World:
    """The same records by both sources, and a topic that functions route to."""

    def __init__(self, kafka: KafkaCluster, library: NativeLibrary, make_topic: MakeTopic, seed: int) -> None:
        self.kafka, self.library, self.seed = kafka, library, seed
        self.topics = [make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)]
        self.sinks = [make_topic(), make_topic()]
        self.routed = make_topic()
        rng = random.Random(seed)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
        for number in range(PARTITIONS * EACH):
            producer.produce(
                self.topics[number % 2],
                value=rng.choice([None, b"", rng.randbytes(rng.randrange(200))]),
                key=rng.choice([None, b"", rng.randbytes(5)]),
                partition=number % PARTITIONS,
                headers=rng.choice([None, [], [("a", b"1"), ("a", None), ("", b"")], [("ü", rng.randbytes(9))]]),
                timestamp=AT + number,
            )
        assert producer.flush(20) == 0
        # Without a timestamp, and with one that cannot be written.
        odd = [OddRecord(b"k", b"odd", ((b"h", b"1"),), at) for at in (-1, 0, 1)]
        write_raw(kafka.bootstrap_servers, self.topics[0], odd)
        self._consumers = [self._consumer(), self._consumer()]
        self.native = NativeSource(self._consumers[0], library)
        python = MessageSource(self._consumers[1], why="of this test")
        for source, consumer in zip((self.native, python), self._consumers, strict=True):
            names = [Partition(topic, number) for topic in self.topics for number in range(PARTITIONS)]
            source.assigned(names)
            consumer.assign([TopicPartition(*name, 0) for name in names])
        count = PARTITIONS * EACH + len(odd)
        self.held = polls(self.native, count)
        by_place = {place_of(one): one for records in polls(python, count) for one in records.messages()[0]}
        self.messages = [[by_place[place_of(one)] for one in records.messages()[0]] for records in self.held]

    def _consumer(self) -> Consumer:
        settings = {"group.id": unique_name("arrow"), "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer({"bootstrap.servers": self.kafka.bootstrap_servers, **settings, **QUIET})

    def transform(self, function: str) -> ArrowTransform:
        source = SOURCE.format(seed=self.seed, routed=self.routed)
        definition = PythonFunction(
            function=function, scope=PythonScope.ARROW, file_name="mine.py", sha256=sha256_of(source)
        )
        return ArrowTransform(definition, source=source)

    def producer(self, **settings: Any) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "transactional.id": unique_name("arrow"),
                **QUIET,
                **settings,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        return producer

    def read(self, topic: str) -> list[tuple[object, ...]]:
        """All records of a topic; a time of writing is "now"."""
        consumer = self._consumer()
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        last = TopicPartition(topic, 0)
        while consumer.position([last])[0].offset < end:
            found += consumer.consume(1_000, 0.2)
        consumer.close()
        return [
            (one.key(), one.value(), one.headers() or None, "now" if one.timestamp()[1] > AT * 1.1 else one.timestamp())
            for one in found
        ]

    def close(self) -> None:
        self.native.close()
        for consumer in self._consumers:
            consumer.close()


def place_of(message: Any) -> tuple[str, int, int]:
    return message.topic(), message.partition(), message.offset()


def polls(source: RecordSource, count: int) -> list[Records]:
    """Poll until so many records came."""
    found: list[Records] = []

    def are_there() -> bool:
        records, errors = source.poll(count, 1.0)
        assert not errors
        found.append(records)
        return sum(map(len, found)) >= count

    wait_for(are_there, 30, lambda: f"{count} records; {sum(map(len, found))}")
    return [records for records in found if records]


@pytest.fixture
def world(kafka: KafkaCluster, library: NativeLibrary, make_topic: MakeTopic, seed: int) -> Generator[World]:
    print(f"records drawn with --seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    made = World(kafka, library, make_topic, seed)
    yield made
    made.close()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_function_gives_the_same_for_both(world: World, function: str) -> None:
    """Through a queue of seven records. Controls: batches with several topics, rows, and errors where they are due."""
    transform = world.transform(function)
    problems: dict[str, Exception] = {"missing": ValueError("no such topic")}
    by_c, by_python = (world.producer(**{"queue.buffering.max.messages": 7}) for _ in range(2))
    failures: list[tuple[int, str]] = []
    for held, messages in zip(world.held, world.messages, strict=True):
        rows = held.stepped(transform)
        assert isinstance(rows, ArrowRows)
        found = {**rows.failures, **rows.refuse(problems)}

        processed, failed = transformed(transform, messages)
        pairs = list(zip(processed.inputs or (), processed.outputs, strict=True))
        missing = {index: problems["missing"] for index, one in pairs if one.topic == "missing"}
        outputs = kept(processed, {**missing, **untimed(processed)})
        expected = {**failed, **untimed(processed), **missing}
        assert {index: str(error) for index, error in found.items()} == {
            index: str(error) for index, error in expected.items()
        }
        assert len(rows) == len(outputs)
        assert rows.size_bytes == sum(len(one.value or b"") for one in outputs)
        assert rows.topics == {one.topic for one in outputs} - {None}
        failures += [(index, str(error)) for index, error in found.items()]

        write_outputs(by_python, outputs, topic=world.sinks[1], room_within_s=ROOM_S)
        rows.write(by_c, topic=world.sinks[0], keep_partition=False, room_within_s=ROOM_S)
    by_c.commit_transaction(30)
    by_python.commit_transaction(30)
    assert world.read(world.sinks[0]) == world.read(world.sinks[1])
    assert any(len({partition.topic for partition in held.first_offsets()}) > 1 for held in world.held)
    assert len(world.read(world.sinks[0])) >= EACH / 2
    assert len(failures) >= (EACH / 8 if function in ("everything", "fails_for_some") else 1)


def test_parts_of_a_batch_are_their_rows_alone(world: World, rng: random.Random) -> None:
    """Records between them belong to others, and keep their headers."""
    transform = world.transform("seen")
    for held, messages in zip(world.held, world.messages, strict=True):
        gone = {index for index in range(len(held)) if rng.random() < 0.5} - {0}
        rows = held.without_those(gone).stepped(transform)
        assert rows is not None
        expected = transform.process([one for index, one in enumerate(messages) if index not in gone])
        bad = set(untimed(expected))
        assert len(rows) == len(expected.outputs) - len(bad)
        assert set(rows.failures) == bad


def test_refusals_are_those_of_messages(world: World) -> None:
    """A record that is too large, and a producer without a transaction; the topic of the row is named."""
    held = max(world.held, key=len)
    rows = held.stepped(world.transform("everything"))
    assert rows is not None
    rows.refuse({"missing": ValueError("no such topic")})
    idle = Producer(
        {"bootstrap.servers": world.kafka.bootstrap_servers, "transactional.id": unique_name("arrow"), **QUIET}
    )
    with pytest.raises(LoopError):
        rows.write(idle, topic="nowhere", keep_partition=False, room_within_s=ROOM_S)
    larger = held.stepped(world.transform("larger"))
    assert larger is not None
    small = world.producer(**{"message.max.bytes": 1_000})
    with pytest.raises(RefusedError, match=f"an output for {world.routed} is larger than message.max.bytes"):
        larger.write(small, topic=world.sinks[0], keep_partition=False, room_within_s=ROOM_S)
    small.purge()


def test_batch_too_large_for_arrow_is_left_to_messages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_arrow, "LARGEST_BATCH_BYTES", 10)
    held = max(world.held, key=len)
    assert held.stepped(world.transform("unchanged")) is None
