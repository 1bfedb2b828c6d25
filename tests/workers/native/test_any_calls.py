"""Any order of calls with any numbers, on real records: no crash, and no memory of others (`make sanitized`)."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from app.core.pipelines.pipeline import Filter, Project, Rename, Route, SetField, StepOperator
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.json_cases import SINK, JsonCases
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from tests.workers.native.any_file_calls import FileCalls
from workers.native.library import Buffer, Columns, NativeLibrary, RecordFacts, RowFacts, Strings, native_library
from workers.native.stepping import NativeSteps, definition_of
from workers.transforms.steps import StepsTransform

RECORDS, CALLS = 300, 4_000
STEPS = [
    Filter(field="a", operator=StepOperator.NE, value=1),
    Route(field="b", operator=StepOperator.EXISTS, topic="one"),
    Rename(field="c", to="d.e"),
    SetField(field="d.f", value={"g": [1, 2.5, "é"]}),
    Route(field="delay", operator=StepOperator.GE, value=1.5, topic="two"),
    Project(fields=("a", "d", "delay")),
]


class Calls:
    """Calls of every function that takes numbers, with numbers in and out of range."""

    def __init__(
        self,
        library: NativeLibrary,
        consumer: Consumer,
        producer: Producer,
        roomy: Producer,
        topic: str,
        rng: random.Random,
    ):
        self._calls, self._rng, self._topic = library.calls, rng, topic
        self._producer, self._roomy = library.handle(producer), library.handle(roomy)
        self._source = self._calls.fl_source_new(library.handle(consumer))
        self._steps = NativeSteps(library, StepsTransform(STEPS, sink_topic=SINK))
        self.files = FileCalls(library, rng, self._span, self._steps.pointer)
        self._batches: list[Any] = []
        self._kept: list[Any] = []
        self.taken = self.given = 0

    def add(self) -> None:
        self.add_one(self._rng.choice([0, 0, 1, 7]))

    def add_one(self, partition: int) -> None:
        self._calls.fl_source_add(self._source, self._topic.encode(), partition)

    def remove(self) -> None:
        self._calls.fl_source_remove(self._source, self._number())

    def forward(self) -> None:
        self._calls.fl_source_forward(self._source)

    def take(self) -> None:
        batch = self._calls.fl_take(self._source, self._rng.choice([-1, 0, 1, 7, RECORDS]), self._rng.choice([0, 1]))
        assert batch
        self.taken += batch.contents.count
        self._batches.append(batch)

    def release(self) -> None:
        """All but the first, which has records for the other calls."""
        if len(self._batches) > 1:
            self._calls.fl_batch_free(self._batches.pop(self._rng.randrange(1, len(self._batches))))

    def has_records(self) -> bool:
        """Take until there is a batch with records, and make it the first."""
        # The client may have ended the forwarding when it began to read.
        self.forward()
        self.take()
        self._batches.sort(key=lambda batch: -batch.contents.count)
        return self._batches[0].contents.count > 0 and self.taken > RECORDS / 2

    def copy(self) -> None:
        batch, begin, end = self._span()
        facts = (RecordFacts * max(1, end - begin))()
        size = self._calls.fl_copy(batch, begin, end, facts, None, 0)
        room = self._rng.choice([-1, 0, 1, size // 2, size])
        self._calls.fl_copy(batch, begin, end, facts, ctypes.create_string_buffer(max(1, room)), room)

    def untimed(self) -> None:
        batch, begin, end = self._span()
        self._calls.fl_untimed(batch, begin, end, (ctypes.c_int64 * max(1, end - begin, batch.contents.count))())

    def give(self) -> None:
        batch, begin, end = self._span()
        code = ctypes.c_int32()
        self._calls.fl_give(self._producer, b"out", batch, begin, end, self._rng.choice([0, 1]), ctypes.byref(code))

    def run(self) -> None:
        batch, begin, end = self._span()
        spans = (ctypes.c_int64 * 4)(begin, end, *self._span()[1:])
        self._calls.fl_steps_run(self._steps.pointer, batch, spans, self._rng.choice([0, 1, 2]))
        self._sum_and_decide()
        names = (ctypes.c_char_p * 3)(b"out", b"one", b"two")
        code = ctypes.c_int32()
        for _ in range(self._rng.choice([0, 1, 2])):
            # Again after its end, too: nothing is left then.
            self._calls.fl_steps_give(self._steps.pointer, self._producer, names, batch, 0, ctypes.byref(code))

    def read_columns(self) -> None:
        """Into rooms that are as large as the records need, or a little smaller or larger."""
        batch, begin, end = self._span()
        spans = (ctypes.c_int64 * 6)(begin, end, self._number(), *self._span()[1:], 0)
        count, with_headers, sizes = self._rng.choice([0, 1, 2]), self._rng.choice([0, 1]), (ctypes.c_int64 * 5)()
        rows = self._calls.fl_arrow_sizes(batch, spans, count, with_headers, sizes)
        keys, values, names, contents, headers = sizes
        rows = max(0, rows + self._rng.choice([-1, 0, 0, 0, 1]))
        columns = Columns()
        for name, width in (("numbers", 8), ("offsets", 8), ("partitions", 4), ("topics", 4), ("timestamps", 8)):
            setattr(columns, name, self._room(rows * width))
        columns.times_there = self._room((rows + 7) // 8)
        columns.keys, columns.values = self._strings(rows, keys), self._strings(rows, values)
        if with_headers or self._rng.random() < 0.3:
            columns.lists = self._room(4 * (rows + 1))
            columns.names, columns.contents = self._strings(headers, names), self._strings(headers, contents)
        most = headers if self._rng.random() < 0.8 else self._number()
        self._calls.fl_arrow_read(batch, spans, count, ctypes.byref(columns), most)

    def give_rows(self) -> None:
        """Rows whose numbers are mostly right, so that many are given."""
        rng, batches = self._rng, [self._span()[0] for _ in range(9)]
        # Most batches are empty.
        batch = max(batches, key=lambda one: one.contents.count)
        count = rng.choice([0, 1, 9, 9])
        rows = RowFacts(rng.choice([count] * 20 + [count - 1, -1, 2**62]), 2)
        records = [rng.choice([at % max(1, batch.contents.count)] * 30 + [self._number()]) for at in range(count)]
        rows.records, rows.timestamps = self._numbers(records, 8), self._numbers([5] * count, 8)
        if rng.random() < 0.5:
            rows.topics = self._numbers([rng.choice([-1, 0, 1] * 10 + [-2, 2, 2**30]) for _ in range(count)], 4)
        rows.values = self._written(count)
        if rng.random() < 0.5:
            rows.keys = self._written(count)
        if rng.random() < 0.5:
            rows.lists, rows.names, rows.contents = self._written(count), self._written(9), self._written(9)
            rows.lists.data = Buffer(None, 9)
        topics, code = (ctypes.c_char_p * 3)(b"out", b"one", b"two"), ctypes.c_int32()
        begin = rng.choice([0] * 9 + [self._number()])
        self.given += self._calls.fl_arrow_give(
            self._rng.choice([self._producer, self._roomy]),
            topics,
            batch,
            ctypes.byref(rows),
            begin,
            ctypes.byref(code),
        )

    def _room(self, size: int) -> Buffer:
        """A buffer of its own memory, so that the sanitizer sees any byte beside it."""
        size = max(0, size - self._rng.choice([0] * 90 + [1, 9]))
        self._kept = [*self._kept[-60:], ctypes.create_string_buffer(size) if size else None]
        return Buffer(ctypes.addressof(self._kept[-1]) if size else None, size)

    def _numbers(self, numbers: list[int], width: int) -> Buffer:
        room = self._room(len(numbers) * width)
        content = b"".join((number % 2 ** (8 * width)).to_bytes(width, "little") for number in numbers)
        ctypes.memmove(room.bytes or 0, content, room.size)
        return room

    def _strings(self, count: int, size: int) -> Strings:
        return Strings(self._room((count + 7) // 8), self._room(4 * (count + 1)), self._room(size), 0)

    def _written(self, count: int) -> Strings:
        """Strings of one byte each, or with an offset that is out of range."""
        first = self._rng.choice([0] * 20 + [3, self._number()])
        offsets = [self._rng.choice([at] * 90 + [self._number()]) for at in range(count + 1)]
        validity = (
            self._numbers([self._rng.randrange(256) for _ in range(2)], 1) if self._rng.random() < 0.5 else Buffer()
        )
        return Strings(validity, self._numbers(offsets, 4), self._room(count), first)

    def try_value(self) -> None:
        value = JsonCases(self._rng).value()
        self._calls.fl_steps_try(self._steps.pointer, value, self._rng.choice([-1, len(value), len(value) // 2]))
        self._sum_and_decide()

    def define(self) -> None:
        text = bytearray(definition_of(STEPS, ("one", "two")))
        text[self._rng.randrange(len(text))] = self._rng.randrange(256)
        damaged = bytes(text[: self._rng.choice([len(text), self._rng.randrange(len(text))])])
        made = self._calls.fl_steps_new(damaged, len(damaged), 2)
        if made:
            self._calls.fl_steps_try(made, b'{"a":2,"c":[1],"d":{},"delay":7}', 33)
            self._calls.fl_steps_free(made)

    def close(self) -> None:
        self.files.close()
        for batch in self._batches:
            self._calls.fl_batch_free(batch)
        self._calls.fl_source_free(self._source)

    def _sum_and_decide(self) -> None:
        value = self._rng.randbytes(self._rng.choice([0, 1, 5_000]))
        self._calls.fl_steps_decide(
            self._steps.pointer, self._number(), self._rng.randint(-1, 7), self._rng.randint(-2, 3), value, len(value)
        )
        fates, outputs = (ctypes.c_int64 * 6)(), (ctypes.c_int64 * 3)()
        self._calls.fl_steps_sum(self._steps.pointer, fates, outputs)
        assert sum(fates) == self._steps.pointer.contents.count

    def _number(self) -> int:
        return self._rng.choice([-(2**62), -1, 0, 1, 2, 7, RECORDS, 2**31, 2**62])

    def _span(self) -> tuple[Any, int, int]:
        """A batch, and two bounds, at most one of them far out of range."""
        if not self._batches:
            self.take()
        batch = self._rng.choice(self._batches)
        count = batch.contents.count
        begin, end = self._rng.randint(-2, count + 2), self._rng.randint(-2, count + 2)
        spans = [(begin, end), (min(begin, end), max(begin, end)), (-1_000, end), (0, count)]
        begin, end = self._rng.choice(spans)
        return batch, begin, end


def test_no_order_of_calls_and_no_number_harms_the_process(
    kafka: KafkaCluster, make_topic: MakeTopic, rng: random.Random, seed: int
) -> None:
    """Controls: records were taken and filed, and rows given, so that the calls had something to work on."""
    library = native_library()
    assert isinstance(library, NativeLibrary), library
    print(f"calls drawn with --seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    topic = make_topic(partitions=2)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, **QUIET}
    writer, cases = Producer(settings), JsonCases(rng)
    for _ in range(RECORDS):
        headers: list[tuple[str, str | bytes | None]] | None = rng.choice([None, [], [("a", b"1"), ("", None)]])
        value, key = rng.choice([None, cases.value()]), rng.choice([None, b"k"])
        writer.produce(topic, value=value, key=key, partition=0, headers=headers)
    assert writer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": unique_name("calls"), "auto.offset.reset": "earliest"})
    producer = Producer({**settings, "queue.buffering.max.messages": 50, "message.timeout.ms": 2_000})
    roomy = Producer({**settings, "message.timeout.ms": 2_000})
    calls = Calls(library, consumer, producer, roomy, topic, rng)
    # The one with the records.
    calls.add_one(0)
    consumer.assign([TopicPartition(topic, 0, 0)])
    kinds: list[Callable[[], None]] = [
        *(calls.add, calls.remove, calls.forward, calls.take, calls.take, calls.release, calls.copy, calls.untimed),
        *(calls.give, calls.run, calls.run, calls.try_value, calls.define),
        *(calls.read_columns, calls.read_columns, calls.give_rows, calls.give_rows),
        *calls.files.kinds,
    ]
    wait_for(calls.has_records, 30, lambda: f"{calls.taken} records were taken")
    for number in range(CALLS):
        if number % 300 == 0:
            consumer.consume(10, 0)
            calls.forward()
        rng.choice(kinds)()
    calls.close()
    for one in (producer, roomy):
        one.purge()
        one.flush(10)
    consumer.close()
    assert min(calls.given, calls.files.filed) > 10
