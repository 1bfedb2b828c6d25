"""Records that C holds as batches of Arrow, by one copy, and the rows of a function's results as outputs.

C writes the columns into buffers of pyarrow, and reads the rows from the buffers of the results. Neither a record nor a
row becomes a Python object.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer

from workers.loop.errors import LoopError
from workers.loop.records.writing import enqueue
from workers.native.batch import Batch, Run, offered
from workers.native.library import Buffer, Columns, NativeLibrary, RowFacts, Strings
from workers.transforms.arrow_function import LARGEST_BATCH_BYTES, ArrowTransform
from workers.transforms.carrying import UNWRITABLE_TIMESTAMP_MS, TimestampError

_SINK = -1
_TOPIC = "output_topic"
_OFFSET_BYTES = 4


class ArrowRows:
    """The rows that a function returned for records of a batch, and the errors of records without them, by index."""

    @classmethod
    def of(
        cls, library: NativeLibrary, batch: Batch, runs: Sequence[Run], transform: ArrowTransform
    ) -> ArrowRows | None:
        """Run the function over these records; None: they are too large for one batch of Arrow."""
        columns = _columns(library, batch, runs, transform)
        return None if columns is None else cls(library, batch, transform, *columns)

    def __init__(
        self, library: NativeLibrary, batch: Batch, transform: ArrowTransform, columns: Any, numbers: Any
    ) -> None:
        """columns: the records as the function gets them. numbers: the number of each in the batch."""
        self._library = library
        self._batch = batch
        self._arrow = transform.arrow
        self._compute = transform.compute
        self._numbers = numbers
        rows = transform.run(columns)
        self._parts = rows.parts
        self.failures: dict[int, Exception] = {**rows.failures}
        untimed: list[int] = []
        for part in self._parts:
            is_untimed = self._compute.equal(part["timestamp"], UNWRITABLE_TIMESTAMP_MS)
            untimed += part["input"].filter(is_untimed).to_pylist()
        self.failures.update(self._drop(dict.fromkeys(untimed, TimestampError())))

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def topics(self) -> set[str]:
        """The topics beside the sink that have rows."""
        return {
            topic
            for part in self._parts
            if _TOPIC in part.schema.names
            for topic in self._compute.unique(part[_TOPIC]).to_pylist()
            if topic is not None
        }

    def refuse(self, problems: Mapping[str, Exception]) -> dict[int, Exception]:
        """Drop the records with a row for one of these topics; return their errors, by index."""
        refused: dict[int, Exception] = {}
        for part in self._parts if problems else ():
            if _TOPIC in part.schema.names:
                pairs = zip(part["input"].to_pylist(), part[_TOPIC].to_pylist(), strict=True)
                refused.update((index, problems[topic]) for index, topic in pairs if topic in problems)
        return self._drop(refused)

    @property
    def size_bytes(self) -> int:
        lengths = (self._compute.sum(self._compute.binary_length(part["value"])).as_py() for part in self._parts)
        return sum(length or 0 for length in lengths)

    def write(self, producer: Producer, *, topic: str, keep_partition: bool, room_within_s: float) -> None:  # noqa: ARG002 - keys decide
        topics = sorted(self.topics)
        names = (ctypes.c_char_p * (1 + len(topics)))(topic.encode(), *(name.encode() for name in topics))
        handle, code = self._library.handle(producer), ctypes.c_int32()
        given = [self._given(part, topics) for part in self._parts]

        def offer(done: int) -> tuple[int, LoopError | None]:
            """Enqueue from the row `done` on; return how many are enqueued now, and the reason why not all."""
            first = 0
            for rows in given:
                if done < first + rows.count:
                    done += self._library.calls.fl_arrow_give(
                        handle, names, self._batch.live, rows.facts, done - first, ctypes.byref(code)
                    )
                first += rows.count
                if done < first:
                    return offered(done, code.value)
            return done, None

        enqueue(
            producer, len(self), offer, topics=lambda row: self._topic_of(row) or topic, room_within_s=room_within_s
        )

    def _given(self, part: Any, topics: Sequence[str]) -> _Given:
        names = part.schema.names
        numbers: Any = None
        if _TOPIC in names:
            known = self._arrow.array(topics, self._arrow.string())
            numbers = self._compute.index_in(part[_TOPIC], value_set=known).fill_null(_SINK)
        headers = part["headers"] if "headers" in names else None
        return _Given(
            len(part),
            len(topics),
            {
                "records": self._numbers.take(part["input"]),
                # librdkafka takes 0 for the time of writing.
                "timestamps": part["timestamp"].fill_null(UNWRITABLE_TIMESTAMP_MS),
                "topics": numbers,
            },
            {
                "values": part["value"],
                "keys": part["key"] if "key" in names else None,
                "lists": headers,
                "names": None if headers is None else headers.values.field("name"),
                "contents": None if headers is None else headers.values.field("value"),
            },
        )

    def _drop(self, bad: dict[int, Exception]) -> dict[int, Exception]:
        """Drop all rows of these inputs; return them."""
        if bad:
            gone = self._arrow.array(list(bad), self._arrow.int32())
            compute = self._compute
            self._parts = [
                part.filter(compute.invert(compute.is_in(part["input"], value_set=gone))) for part in self._parts
            ]
        return bad

    def _topic_of(self, row: int) -> str | None:
        for part in self._parts:
            if row < len(part):
                return part[_TOPIC][row].as_py() if _TOPIC in part.schema.names else None
            row -= len(part)
        return None


class _Given:
    """Rows as C reads them. It keeps their buffers. An absent column is None."""

    def __init__(self, count: int, topic_count: int, numbers: dict[str, Any], strings: dict[str, Any]) -> None:
        self.count = count
        self.facts = RowFacts(count, topic_count)
        self._columns = [numbers, strings]
        for name, array in numbers.items():
            if array is not None:
                setattr(self.facts, name, _buffer(array.buffers()[1], array.offset * array.type.byte_width))
        for name, array in strings.items():
            if array is not None:
                setattr(self.facts, name, _strings(array))


def _buffer(buffer: Any, skipped: int = 0) -> Buffer:
    """A buffer of Arrow without its first bytes."""
    return Buffer() if buffer is None else Buffer(buffer.address + skipped, buffer.size - skipped)


def _strings(array: Any) -> Strings:
    """A column of strings or lists; the data of lists are so many items."""
    validity, offsets, *others = array.buffers()
    is_list = array.type.num_fields > 0
    data = Buffer(None, len(array.values)) if is_list else _buffer(others[0])
    return Strings(_buffer(validity), _buffer(offsets, array.offset * _OFFSET_BYTES), data, array.offset)


class _Room:
    """Memory of pyarrow for columns that C writes. Each method returns a function that makes the array afterwards."""

    def __init__(self, arrow: Any) -> None:
        self._arrow = arrow
        self.columns = Columns()

    def numbers(self, name: str, kind: Any, count: int, *, validity: str | None = None) -> Callable[[], Any]:
        """So many numbers. validity: the name of the bits that are not set for nulls."""
        bits = None if validity is None else self._buffer(validity, (count + 7) // 8)
        data = self._buffer(name, count * kind.byte_width)
        return lambda: self._arrow.Array.from_buffers(kind, count, [bits, data])

    def strings(self, name: str, count: int, size: int) -> Callable[[], Any]:
        """So many strings, of so many bytes."""
        rooms = ((count + 7) // 8, _OFFSET_BYTES * (count + 1), size)
        buffers = [self._arrow.allocate_buffer(room) for room in rooms]
        setattr(self.columns, name, Strings(*map(_buffer, buffers), 0))
        return lambda: self._arrow.Array.from_buffers(self._arrow.binary(), count, buffers)

    def headers(self, kind: Any, count: int, sizes: tuple[int, int, int]) -> Callable[[], Any]:
        """So many lists. sizes: how many headers, and the bytes of their names and contents."""
        array, headers = self._arrow.Array.from_buffers, sizes[0]
        lists = self._buffer("lists", _OFFSET_BYTES * (count + 1))
        pair = [self.strings("names", headers, sizes[1]), self.strings("contents", headers, sizes[2])]

        def made() -> Any:
            items = array(kind.value_type, headers, [None], children=[make() for make in pair])
            return array(kind, count, [None, lists], children=[items])

        return made

    def _buffer(self, name: str, size: int) -> Any:
        buffer = self._arrow.allocate_buffer(size)
        setattr(self.columns, name, _buffer(buffer))
        return buffer


def _columns(
    library: NativeLibrary, batch: Batch, runs: Sequence[Run], transform: ArrowTransform
) -> tuple[Any, Any] | None:
    """Records as the function gets them, and the number of each in the batch; None: they are too large."""
    arrow, topics = transform.arrow, list(dict.fromkeys(run.partition.topic for run in runs))
    places = [(run.begin, run.end, topics.index(run.partition.topic)) for run in runs]
    spans = (ctypes.c_int64 * (3 * len(runs)))(*(number for place in places for number in place))
    sizes = (ctypes.c_int64 * 5)()
    count = library.calls.fl_arrow_sizes(batch.live, spans, len(runs), transform.needs_headers, sizes)
    if sum(sizes) > LARGEST_BATCH_BYTES:
        return None
    key_bytes, value_bytes, name_bytes, content_bytes, headers = sizes
    room, kinds = _Room(arrow), {field.name: field.type for field in transform.schema}
    numbers = room.numbers("numbers", arrow.int64(), count)
    topic_numbers = room.numbers("topics", arrow.int32(), count)
    columns = [
        room.numbers("partitions", kinds["partition"], count),
        room.numbers("offsets", kinds["offset"], count),
        room.numbers("timestamps", kinds["timestamp"], count, validity="times_there"),
        room.strings("keys", count, key_bytes),
        room.strings("values", count, value_bytes),
    ]
    if transform.needs_headers:
        columns.append(room.headers(kinds["headers"], count, (headers, name_bytes, content_bytes)))
    if library.calls.fl_arrow_read(batch.live, spans, len(runs), room.columns, headers) != count:
        raise ValueError("records of a batch do not have the sizes that were counted; this is a bug in arrow.c")
    topic = arrow.DictionaryArray.from_arrays(topic_numbers(), arrow.array(topics, arrow.string()))
    arrays = [topic, *(make() for make in columns)]
    return arrow.RecordBatch.from_arrays(arrays, schema=transform.schema), numbers()
