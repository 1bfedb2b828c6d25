"""Python functions over Arrow batches: their input, the results that they may return, and errors."""

from __future__ import annotations

import importlib
import textwrap
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from app.core.pipelines.pipeline import PythonFunction, PythonScope
from tests.support.messages import a_message
from workers.transforms import Output, Processed, RecordError, TransformError
from workers.transforms import arrow_function as arrow_function_module
from workers.transforms.arrow_function import ArrowTransform
from workers.transforms.build import build
from workers.transforms.user_code import sha256_of

HEADER = "import pyarrow as pa\nimport pyarrow.compute as pc\nimport polars as pl\n"
AT = 1_700_000_000_000
THREE = [a_message(value, offset=offset) for offset, value in enumerate([b"a", b"b", b"c"])]
HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]


def transform(code: str) -> ArrowTransform:
    source = HEADER + textwrap.dedent(code)
    definition = PythonFunction(function="f", scope=PythonScope.ARROW, file_name="mine.py", sha256=sha256_of(source))
    made = build(definition, source=source, sink_topic="sink")
    assert isinstance(made, ArrowTransform)
    return made


def run(code: str, messages: list[Message] = THREE) -> Processed:
    return transform(code).process(messages)


def body(statement: str) -> str:
    return f"def f(batch):\n    {statement}\n"


def returned(expression: str, messages: list[Message] = THREE) -> Processed:
    """The outcome of a function that returns this, with `n` rows in its batch."""
    return run(f"def f(batch):\n    n = len(batch)\n    return {expression}\n", messages)


def outputs(processed: Processed) -> list[tuple[int, bytes | None]]:
    assert processed.failures == []
    return list(zip(processed.inputs or (), (output.value for output in processed.outputs), strict=True))


def errors(processed: Processed) -> list[str]:
    return [str(failure.error) for failure in processed.failures]


def at(topic: str, partition: int, offset: int, value: bytes = b"") -> Message:
    return Message(topic=topic, partition=partition, offset=offset, key=None, value=value, timestamp=(1, AT))


def test_columns_of_a_batch() -> None:
    code = """
        def f(batch):
            assert {field.name: str(field.type) for field in batch.schema} == {
                "topic": "dictionary<values=string, indices=int32, ordered=0>",
                "partition": "int32",
                "offset": "int64",
                "timestamp": "timestamp[ms, tz=UTC]",
                "key": "binary",
                "value": "binary",
            }
            rows = batch.set_column(3, "timestamp", batch["timestamp"].cast("int64")).to_pylist()
            return pa.table({"value": [repr(tuple(row.values())) for row in rows]})
    """
    messages = [
        a_message(b"v", offset=7, key=None),
        a_message(None, offset=9, key=b"", timestamp=(TIMESTAMP_NOT_AVAILABLE, 0)),
    ]
    assert outputs(run(code, messages)) == [
        (0, f"('flights', 3, 7, {AT}, None, b'v')".encode()),
        (1, b"('flights', 3, 9, None, b'', None)"),
    ]


def test_a_function_that_asks_for_headers_gets_them() -> None:
    code = """
        def f(batch):
            assert str(batch.schema.field("headers").type) == "list<item: struct<name: binary, value: binary>>"
            return pa.table({"value": [repr(row) for row in batch["headers"].to_pylist()]})
        f.needs_headers = True
    """
    found = run(code, [a_message(b"v", headers=HEADERS), a_message(b"w")])
    assert outputs(found) == [(0, b"[{'name': b'h', 'value': b'1'}, {'name': b'h', 'value': None}]"), (1, b"[]")]
    assert [output.headers for output in found.outputs] == [HEADERS, None]


def test_rows_keep_key_headers_and_timestamp_of_their_input() -> None:
    messages = [a_message(b"v", key=b"k", headers=HEADERS), a_message(b"w", offset=1, key=None, timestamp=(0, 0))]
    found = returned("batch.select(['value', 'offset', 'partition'])", messages)
    assert found.outputs == [Output(b"v", b"k", HEADERS, AT, None), Output(b"w", None, None, None, None)]


def test_a_row_may_set_them() -> None:
    found = returned(
        """pa.table({
        "value": ["x", None, ""], "key": [b"1", None, b""], "output_topic": ["late", None, "late"],
        "timestamp": pa.array([5, None, 0], pa.int64()),
        "headers": [[{"name": "a", "value": b"1"}, {"name": "a", "value": None}], None, []]})"""
    )
    assert found.outputs == [
        Output(b"x", b"1", [("a", b"1"), ("a", None)], 5, "late"),
        Output(None, None, None, None, None),
        Output(b"", b"", None, 0, "late"),
    ]


def test_rows_name_their_inputs_by_place() -> None:
    """Several rows of one input, none of others, in any order; offsets of partitions and topics overlap."""
    messages = [at("a", 0, 5), at("a", 1, 5), at("b", 1, 5), at("b", 1, 6)]
    found = returned(
        """pa.table({
        "value": list("vwxy"), "offset": [6, 5, 5, 5], "partition": [1, 0, 1, 1], "topic": ["b", "a", "a", "a"]})""",
        messages,
    )
    assert outputs(found) == [(3, b"v"), (0, b"w"), (1, b"x"), (1, b"y")]


@pytest.mark.parametrize(
    "columns",
    [
        "'offset': pa.array([0, 2], pa.uint8()), 'partition': pa.array([3, 3], pa.int64())",
        "'offset': [0, 2], 'partition': [3, 3], 'topic': pa.array(['flights'] * 2, pa.large_string())",
        "'offset': [0, 2], 'partition': [3, 3], 'topic': pa.array(['flights'] * 2).dictionary_encode()",
    ],
)
def test_places_of_any_integer_and_text_type(columns: str) -> None:
    assert outputs(returned(f"pa.table({{'value': ['x', 'y'], {columns}}})")) == [(0, b"x"), (2, b"y")]


@pytest.mark.parametrize(
    "kind",
    ["binary", "large_binary", "string", "large_string", "binary_view", "string_view", "binary(1)", "dictionary"],
)
def test_values_of_any_text_type(kind: str) -> None:
    array = "pa.array(['x'] * n, pa.large_string()).dictionary_encode()"
    if kind != "dictionary":
        array = f"pa.array([b'x'] * n).cast(pa.{kind if '(' in kind else kind + '()'})"
    assert outputs(returned(f"pa.table({{'value': {array}}})")) == [(0, b"x"), (1, b"x"), (2, b"x")]


def test_slices_and_chunks_are_read_in_their_order() -> None:
    expression = "pa.concat_tables([pa.table({'value': ['-', 'x', 'y']}).slice(1), pa.table({'value': ['z']})])"
    assert outputs(returned(f"{expression}.slice(0, n)")) == [(0, b"x"), (1, b"y"), (2, b"z")]


def test_no_rows_drop_the_records() -> None:
    assert outputs(returned("batch.slice(0, 0)")) == []


WRONG = [
    ("None", "returned None; it must return a RecordBatch or a Table of pyarrow"),
    ("[1]", "returned a list; it must return"),
    ("pa.table({'key': ['x'] * n})", "returned no column `value`"),
    ("pa.table({'value': [1] * n})", "returned `value` with another type; it must be binary or string"),
    ("pa.table({'value': ['x'] * (n + 1)})", "rows for 1 records; return one for each in order, or the columns"),
    (
        "pa.table({'value': ['x'] * n, 'id': [1] * n})",
        "returned a column that no record has; its columns may be value,",
    ),
    ("pa.Table.from_arrays([batch['value']] * 2, ['value'] * 2)", "returned two columns with the same name"),
    ("pa.table({'value': ['x'], 'offset': [0]})", "returned `offset` without `partition`"),
    ("pa.table({'value': ['x'], 'offset': [7], 'partition': [3]})", "whose `offset` is not among those of the batch"),
    ("pa.table({'value': ['x'], 'offset': [2**63 - 1], 'partition': [3]})", "whose `offset` is not among"),
    ("pa.table({'value': ['x'], 'offset': [-2**63], 'partition': [3]})", "whose `offset` is not among"),
    ("pa.table({'value': batch['value'], 'offset': batch['offset'], 'partition': [4] * n})", "is not among"),
    (
        "pa.table({'value': batch['value'], 'offset': batch['offset'], 'partition': [3] * n, 'topic': ['x'] * n})",
        "is not among",
    ),
    ("pa.table({'value': ['x'], 'offset': pa.array([None], pa.int64()), 'partition': [3]})", "a row without `offset`"),
    ("pa.table({'value': ['x'], 'offset': [0.5], 'partition': [3]})", "`offset` with another type; it must be int64"),
    ("pa.table({'value': ['x'], 'offset': [0], 'partition': [2**40]})", "returned a `partition` that is not int32"),
    ("pa.table({'value': ['x'] * n, 'timestamp': ['x'] * n})", "returned `timestamp` with another type"),
    ("pa.table({'value': ['x'] * n, 'timestamp': [-1] * n})", "a row whose `timestamp` is before 1970"),
    (
        "pa.table({'value': ['x'] * n, 'timestamp': pa.array([1] * n, pa.timestamp('us'))})",
        "returned a `timestamp` that is not timestamp[ms, UTC], or milliseconds",
    ),
    ("pa.table({'value': ['x'] * n, 'output_topic': ['/'] * n})", "an `output_topic` that is not a topic's name"),
    ("pa.table({'value': ['x'] * n, 'output_topic': ['flights'] * n})", "which this pipeline reads"),
    ("pa.table({'value': ['x'] * n, 'headers': [[b'a']] * n})", "returned `headers` with another type"),
    ("pa.table({'value': ['x'] * n, 'headers': [[{'name': None, 'value': b''}]] * n})", "a header without a name"),
    ("pa.table({'value': ['x'] * n, 'headers': [[{'name': 'a\\0', 'value': b''}]] * n})", "a header name with a zero"),
    (
        "pa.table({'value': ['x'] * n, 'headers': [[{'name': b'\\xff', 'value': b''}]] * n})",
        "returned a `headers` that is not",
    ),
]


@pytest.mark.parametrize(("expression", "part"), WRONG, ids=[part[-30:] for _, part in WRONG])
def test_a_wrong_result_is_an_error_of_each_record_with_a_clear_sentence(expression: str, part: str) -> None:
    """Each row alone is then wrong, too; where it is right alone, it is no bad record."""
    (error,) = errors(returned(expression, THREE[:1]))
    assert error.startswith("`f` in mine.py returned")
    assert part in error


FAILS_AT_B = """
    def f(batch):
        if pc.any(pc.equal(batch["value"], b"b")).as_py():
            {statement}
        return batch.select(["value"])
"""


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("raise ValueError('secret')", "mine.py, line 7: ValueError"),
        ("raise SystemExit(3)", "line 7: SystemExit"),
        ("pl.Series(['x']).map_elements(lambda x: 1 / 0, return_dtype=pl.Int64)", "line 7: ZeroDivisionError"),
        ("return batch.slice(0, 1).rename_columns(list('abcdef'))", "returned a column that no record has"),
    ],
)
def test_a_batch_that_fails_is_tried_row_by_row(statement: str, part: str) -> None:
    found = run(FAILS_AT_B.format(statement=statement))
    assert [(index, output.value) for index, output in zip(found.inputs or (), found.outputs, strict=True)] == [
        (0, b"a"),
        (2, b"c"),
    ]
    (failure,) = found.failures
    assert failure.index == 1
    assert part in str(failure.error)
    assert "secret" not in str(failure.error)
    assert isinstance(failure.error, RecordError)
    assert ("secret" in failure.error.contents) == ("secret" in statement)


def test_a_panic_of_a_library_in_rust_is_an_error_of_the_record() -> None:
    """It is no Exception, and would end the task."""
    panic = "import polars.exceptions\n            raise polars.exceptions.PanicException('x')"
    found = run(FAILS_AT_B.format(statement=panic))
    assert [failure.index for failure in found.failures] == [1]
    assert "PanicException" in errors(found)[0]
    with pytest.raises(KeyboardInterrupt):
        run(FAILS_AT_B.format(statement="raise KeyboardInterrupt"))


def test_rows_that_set_different_columns_alone_stay_in_order() -> None:
    code = """
        def f(batch):
            if len(batch) > 1:
                raise ValueError
            value = batch["value"][0].as_py()
            if value == b"b":
                return pa.table({"value": [value], "key": ["new"]})
            return pa.concat_tables([pa.Table.from_batches([batch.select(["value", "offset", "partition"])])] * 2)
    """
    found = run(code)
    assert [(output.value, output.key) for output in found.outputs] == [
        *[(b"a", b"key")] * 2,
        (b"b", b"new"),
        *[(b"c", b"key")] * 2,
    ]
    assert found.inputs == [0, 0, 1, 2, 2]


def test_batch_too_large_for_arrow_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_function_module, "LARGEST_BATCH_BYTES", 7)
    code = """
        def f(batch):
            if batch["value"][0].as_py() == b"c":
                raise ValueError
            return pa.table({"value": [str(len(batch))] * len(batch)})
    """
    found = run(code)
    assert (found.inputs, [output.value for output in found.outputs]) == ([0, 1], [b"1", b"1"])
    assert [failure.index for failure in found.failures] == [2]


def test_pyarrow_is_needed_for_such_a_function_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, package: str | None = None) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(TransformError, match="pyarrow is missing; install it on the executors"):
        run(body("return batch"))
    source = "def f(record): return record"
    definition = PythonFunction(function="f", file_name="mine.py", sha256=sha256_of(source))
    assert build(definition, source=source, sink_topic="sink").process(THREE).failures == []


def test_a_function_may_return_its_batch() -> None:
    found = returned("batch", [a_message(b"v", key=b"k", headers=HEADERS)])
    assert found.outputs == [Output(b"v", b"k", HEADERS, AT, None)]
