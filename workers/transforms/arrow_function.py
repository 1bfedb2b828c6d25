"""A function of an uploaded file over Arrow batches; a batch that fails is run again row by row.

The function runs on batches of Arrow for both kinds of records. Messages become batches here, and records that C holds
in workers/native/arrow.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import groupby
from typing import Any, NamedTuple, cast

from confluent_kafka import Message

from app.core.pipelines.pipeline import PythonFunction
from workers.transforms import Failure, Output, Processed, TransformError
from workers.transforms.arrow_result import ArrowResults
from workers.transforms.headers import Headers
from workers.transforms.python_function import UserFunction, UserFunctionError, timestamp_of

LARGEST_BATCH_BYTES = (1 << 31) - 1
"""Offsets of Arrow's binary columns have 32 bits."""
_ASKS_FOR_HEADERS = "needs_headers"


class Rows(NamedTuple):
    """The rows that the function returned, in parts as `ArrowResults.rows` makes them, in order.

    failures: the errors of the records without rows, by index.
    """

    parts: list[Any]
    failures: dict[int, UserFunctionError]


class ArrowTransform:
    """Calls the function on record batches and checks everything that comes back.

    needs_headers: the function's attribute of this name is True, and batches have a column of headers.
    """

    is_identity = False

    def __init__(self, transform: PythonFunction, *, source: str) -> None:
        """Raises TransformError when pyarrow is missing, and as UserFunction."""
        try:
            self.arrow: Any = importlib.import_module("pyarrow")
            self.compute: Any = importlib.import_module("pyarrow.compute")
        except ImportError as error:
            raise TransformError(
                f"`{transform.function}` takes Arrow batches, and pyarrow is missing; install it on the executors"
            ) from error
        self._function = UserFunction(transform, source=source)
        self.needs_headers = getattr(self._function.function, _ASKS_FOR_HEADERS, False) is True
        self.schema: Any = _schema(self.arrow, with_headers=self.needs_headers)
        self._results = ArrowResults(self.arrow, self.compute, self._function.wrong)

    def run(self, batch: Any) -> Rows:
        """Call the function with a batch of `schema`, and with each row alone if that fails."""
        try:
            return Rows(self._call(batch), {})
        except UserFunctionError as error:
            if batch.num_rows == 1:
                return Rows([], {0: error})
        found = Rows([], {})
        for index in range(batch.num_rows):
            try:
                found.parts.extend(self._results.moved(part, index) for part in self._call(batch.slice(index, 1)))
            except UserFunctionError as error:
                found.failures[index] = error
        return found._replace(parts=self._joined(found.parts))

    def process(self, messages: list[Message]) -> Processed:
        if len(messages) > 1 and sum(map(self._size_of, messages)) > LARGEST_BATCH_BYTES:
            middle = len(messages) // 2
            return _joined_outputs(self.process(messages[:middle]), self.process(messages[middle:]), middle)
        found = Processed([], [], [])
        if not messages:
            return found
        rows = self.run(self._batch_of(messages))
        inputs: list[int] = []
        for part in rows.parts:
            its = part["input"].to_pylist()
            inputs += its
            found.outputs.extend(_outputs(part, [messages[index] for index in its]))
        return found._replace(failures=[Failure(*one) for one in sorted(rows.failures.items())], inputs=inputs)

    def _call(self, batch: Any) -> list[Any]:
        rows = self._results.rows(self._function(batch), batch)
        return [rows] if rows.num_rows else []

    def _joined(self, parts: list[Any]) -> list[Any]:
        """The parts, those that follow each other with the same columns as one."""
        return [self.arrow.concat_batches(list(some)) for _, some in groupby(parts, lambda part: part.schema.names)]

    def _size_of(self, message: Message) -> int:
        size = len(message) + len(message.key() or b"")
        if self.needs_headers:
            size += sum(len(name) + len(value or b"") for name, value in _header_column(message))
        return size

    def _batch_of(self, messages: list[Message]) -> Any:
        columns: dict[str, Callable[[Message], Any]] = {
            "topic": Message.topic,
            "partition": Message.partition,
            "offset": Message.offset,
            "timestamp": timestamp_of,
            "key": Message.key,
            "value": Message.value,
            "headers": _header_column,
        }
        arrays = [
            # A function of the class would not fit other records (workers/native).
            self.arrow.array([columns[field.name](message) for message in messages], type=field.type)
            for field in self.schema
        ]
        return self.arrow.RecordBatch.from_arrays(arrays, schema=self.schema)


def _schema(arrow: Any, *, with_headers: bool) -> Any:
    header = arrow.struct([("name", arrow.binary()), ("value", arrow.binary())])
    fields = [
        ("topic", arrow.dictionary(arrow.int32(), arrow.string())),
        ("partition", arrow.int32()),
        ("offset", arrow.int64()),
        ("timestamp", arrow.timestamp("ms", "UTC")),
        ("key", arrow.binary()),
        ("value", arrow.binary()),
    ]
    return arrow.schema([*fields, ("headers", arrow.list_(header))] if with_headers else fields)


def _header_column(message: Message) -> list[tuple[bytes, bytes | None]]:
    return [(name.encode(), value) for name, value in _headers_of(message) or ()]


def _headers_of(message: Message) -> Headers:
    # They were read before (carrying.transformed), so that they can be.
    return cast("Headers", message.headers())


def _outputs(part: Any, sources: list[Message]) -> list[Output]:
    """The outputs of rows; sources: the message of each."""
    names = part.schema.names
    if "headers" in names:
        lists = part["headers"].to_pylist()
        headers = [[(one["name"], one["value"]) for one in some] if some else None for some in lists]
    else:
        headers = [_headers_of(message) for message in sources]
    keys = part["key"].to_pylist() if "key" in names else [message.key() for message in sources]
    topics = part["output_topic"].to_pylist() if "output_topic" in names else [None] * len(sources)
    columns = (part["value"].to_pylist(), keys, headers, part["timestamp"].to_pylist(), topics)
    return [Output(*fields) for fields in zip(*columns, strict=True)]


def _joined_outputs(first: Processed, second: Processed, middle: int) -> Processed:
    """The outputs of two halves. middle: the index of the second one's first message."""
    return Processed(
        first.outputs + second.outputs,
        first.failures + [Failure(middle + index, error) for index, error in second.failures],
        [*(first.inputs or ()), *(middle + index for index in second.inputs or ())],
    )
