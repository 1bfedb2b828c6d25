"""The check of what a function over Arrow batches returned, and the input that each of its rows comes from."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Protocol

from app.core.transforms.comparison import kind_of
from workers.transforms.python_function import UserFunctionError, is_topic_name
from workers.transforms.user_code import text_of

_COLUMNS = ("value", "key", "timestamp", "headers", "output_topic", "offset", "partition", "topic")
_WORD = 1 << 32


class _Wrong(Protocol):
    def __call__(self, what: str, *, contents: str = "") -> UserFunctionError: ...


class ArrowResults:
    """Turns results into rows of fixed types. wrong: makes the error of a result."""

    def __init__(self, arrow: Any, compute: Any, wrong: _Wrong) -> None:
        self._arrow = arrow
        self._compute = compute
        self._wrong = wrong
        self._headers = arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.binary())]))
        self._sources: set[str] = set()
        self._numbers: Any = arrow.array([], arrow.int32())

    def rows(self, returned: object, batch: Any) -> Any:
        """Return the rows of a result for this batch, as a record batch. Raises UserFunctionError.

        It has `input` (int32, the index of the row's input), `value` (binary) and `timestamp` (int64, milliseconds;
        null: the time of writing). If the result has them, it has `key` (binary), `headers` (lists of name, a string,
        and value, binary) and `output_topic` (string; null: the sink).
        """
        if isinstance(returned, self._arrow.RecordBatch):
            returned = self._arrow.Table.from_batches([returned])
        if not isinstance(returned, self._arrow.Table):
            kind = "None" if returned is None else kind_of(returned)
            raise self._wrong(f"returned {kind}; it must return a RecordBatch or a Table of pyarrow")
        self._sources.update(batch["topic"].dictionary.to_pylist())
        try:
            return self._rows(returned, batch)
        except (self._arrow.ArrowException, OverflowError) as error:
            raise self._wrong("returned columns that cannot be converted", contents=text_of(error)) from error

    def moved(self, rows: Any, index: int) -> Any:
        """The same rows, all of them of the input `index`."""
        return rows.set_column(0, "input", self._same(index, len(rows)))

    def _rows(self, table: Any, batch: Any) -> Any:
        names = table.schema.names
        self._check_names(names)
        inputs = self._inputs(table, batch)
        columns = {"input": inputs, "value": self._text(table, "value"), "timestamp": self._times(table, batch, inputs)}
        if "key" in names:
            columns["key"] = self._text(table, "key")
        if "headers" in names:
            columns["headers"] = self._header_lists(table)
        if "output_topic" in names:
            columns["output_topic"] = self._topics(table)
        return self._arrow.RecordBatch.from_pydict(columns)

    def _check_names(self, names: list[str]) -> None:
        if len(set(names)) < len(names):
            raise self._wrong("returned two columns with the same name", contents=repr(names))
        others = set(names) - {*_COLUMNS}
        if others:
            raise self._wrong(
                f"returned a column that no record has; its columns may be {', '.join(_COLUMNS)}",
                contents=repr(sorted(others)),
            )
        if "value" not in names:
            raise self._wrong("returned no column `value`")

    def _cast(self, table: Any, name: str, kind: Any, wanted: str, *, fits: Callable[[Any], bool]) -> Any:
        """A column as one array of this type."""
        column = table[name]
        its = column.type
        if self._arrow.types.is_dictionary(its):
            its = its.value_type
        if not (fits(its) or self._arrow.types.is_null(its)):
            # A nested type has names of fields, which may be the record's.
            raise self._wrong(f"returned `{name}` with another type; it must be {wanted}", contents=str(its))
        try:
            # In two steps: texts are not taken out of dictionaries as bytes.
            found = (column if its == column.type else column.cast(its)).cast(kind).combine_chunks()
        except self._arrow.ArrowException as error:
            raise self._wrong(f"returned a `{name}` that is not {wanted}", contents=text_of(error)) from error
        return found

    def _is_text(self, kind: Any) -> bool:
        types = self._arrow.types
        checks = ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary")
        checks += ("is_string", "is_large_string", "is_string_view")
        # Views are missing in older releases.
        return any(getattr(types, check, _no)(kind) for check in checks)

    def _text(self, table: Any, name: str) -> Any:
        return self._cast(table, name, self._arrow.binary(), "binary or string", fits=self._is_text)

    def _integers(self, table: Any, name: str, kind: Any) -> Any:
        found = self._cast(table, name, kind, str(kind), fits=self._arrow.types.is_integer)
        if found.null_count:
            raise self._wrong(f"returned a row without `{name}`")
        return found

    def _inputs(self, table: Any, batch: Any) -> Any:
        """The index of each row's input."""
        compute, names = self._compute, table.schema.names
        if "offset" not in names:
            if len(table) != len(batch):
                raise self._wrong(
                    f"returned {len(table)} rows for {len(batch)} records; "
                    "return one for each in order, or the columns `offset` and `partition`"
                )
            return self._count(len(batch))
        if "partition" not in names:
            raise self._wrong("returned `offset` without `partition`")
        topics = batch["topic"].dictionary
        if "topic" in names:
            found = self._cast(table, "topic", self._arrow.string(), "string", fits=self._is_text)
            numbers = compute.index_in(found, value_set=topics)
        elif len(topics) > 1:
            raise self._wrong("returned `offset` without `topic`; this batch has several topics")
        else:
            numbers = self._same(0, len(table))
        offsets = self._integers(table, "offset", self._arrow.int64())
        partitions = self._integers(table, "partition", self._arrow.int32())
        inputs = self._search((numbers, partitions, offsets), batch)
        if inputs.null_count:
            raise self._wrong("returned a row whose `offset` is not among those of the batch")
        return inputs

    def _search(self, wanted: tuple[Any, Any, Any], batch: Any) -> Any:
        """The index of the record with each topic's number, partition and offset; null: there is none."""
        compute = self._compute
        first, last = compute.min_max(batch["offset"]).as_py().values()
        places = self._places(batch["topic"].indices, batch["partition"])
        known = compute.unique(places)
        numbers, partitions, offsets = wanted
        is_near = compute.and_(compute.greater_equal(offsets, first), compute.less_equal(offsets, last))
        near = compute.if_else(is_near, offsets, None)

        def key(offsets: Any, places: Any) -> Any:
            """One number for an offset and the number of its partition."""
            distance = compute.multiply_checked(compute.subtract_checked(offsets, first), len(known))
            return compute.add_checked(distance, compute.index_in(places, value_set=known).cast(self._arrow.int64()))

        return compute.index_in(
            key(near, self._places(numbers, partitions)), value_set=key(batch["offset"], places), skip_nulls=True
        )

    def _places(self, topics: Any, partitions: Any) -> Any:
        """One number for a topic's and a partition's; null without a topic."""
        wide = self._arrow.int64()
        return self._compute.add(self._compute.multiply(topics.cast(wide), _WORD), partitions.cast(wide))

    def _count(self, count: int) -> Any:
        """The numbers from 0 on, as many as this."""
        if len(self._numbers) < count:
            buffer = self._arrow.py_buffer(array("i", range(count)))
            self._numbers = self._arrow.Array.from_buffers(self._arrow.int32(), count, [None, buffer])
        return self._numbers.slice(0, count)

    def _same(self, number: int, count: int) -> Any:
        return self._arrow.repeat(self._arrow.scalar(number, self._arrow.int32()), count)

    def _times(self, table: Any, batch: Any, inputs: Any) -> Any:
        types, arrow = self._arrow.types, self._arrow
        if "timestamp" in table.schema.names:
            found = self._cast(
                table,
                "timestamp",
                arrow.timestamp("ms", "UTC"),
                "timestamp[ms, UTC], or milliseconds since 1970",
                fits=lambda kind: types.is_timestamp(kind) or types.is_integer(kind),
            )
        else:
            found = batch["timestamp"].take(inputs)
        found = found.cast(arrow.int64())
        if self._compute.any(self._compute.less(found, 0)).as_py():
            raise self._wrong("returned a row whose `timestamp` is before 1970")
        return found

    def _topics(self, table: Any) -> Any:
        found = self._cast(table, "output_topic", self._arrow.string(), "string", fits=self._is_text)
        for topic in self._compute.unique(found).to_pylist():
            if topic is not None and not is_topic_name(topic):
                raise self._wrong("returned an `output_topic` that is not a topic's name", contents=repr(topic))
            if topic in self._sources:
                raise self._wrong(f"returned a row for {topic!r}, which this pipeline reads: that would never end")
        return found

    def _header_lists(self, table: Any) -> Any:
        wanted = "a list of structs of `name` (string) and `value` (binary)"
        found = self._cast(table, "headers", self._headers, wanted, fits=self._are_headers)
        # Without those of rows that are null.
        headers = found.flatten()
        names = headers.field("name")
        if headers.null_count or names.null_count:
            raise self._wrong("returned a header without a name")
        if self._compute.any(self._compute.match_substring(names, "\0")).as_py():
            raise self._wrong("returned a header name with a zero byte, which the client cannot write")
        return found

    def _are_headers(self, kind: Any) -> bool:
        types = self._arrow.types
        if not (types.is_list(kind) or types.is_large_list(kind)):
            return False
        item = kind.value_type
        return types.is_struct(item) and {field.name for field in item} == {"name", "value"}


def _no(_kind: Any) -> bool:
    return False
