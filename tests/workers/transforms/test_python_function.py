"""Python transforms: what user code is given, what it may return, and what happens when it does not keep to it."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from confluent_kafka import Message

from app.core.pipelines.pipeline import PythonFunction, PythonScope
from tests.support.messages import a_message, json_messages
from workers.transforms import Failure, Output, Processed, RecordError, TransformError
from workers.transforms.python_function import PythonTransform
from workers.transforms.user_code import sha256_of

HEADER = "from workers.transforms.record import Record\n"


def transform(code: str, *, scope: PythonScope = PythonScope.RECORD, function: str = "f") -> PythonTransform:
    source = HEADER + textwrap.dedent(code)
    definition = PythonFunction(function=function, scope=scope, file_name="mine.py", sha256=sha256_of(source))
    return PythonTransform(definition, source=source)


def run(code: str, messages: list[Message], *, scope: PythonScope = PythonScope.RECORD) -> Processed:
    return transform(code, scope=scope).process(messages)


def outputs(processed: Processed) -> list[bytes | None]:
    assert processed.failures == []
    return [output.value for output in processed.outputs]


def contents(failure: Failure) -> str:
    """The part of the failure that may quote the record."""
    assert isinstance(failure.error, RecordError)
    return failure.error.contents


THREE = [a_message(value, offset=offset) for offset, value in enumerate([b"a", b"b", b"c"])]


def test_a_record_goes_through_with_all_that_belongs_to_it() -> None:
    headers: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]
    message = a_message(b"v", key=b"k", headers=headers)
    processed = run("def f(record): return record", [message])
    assert processed.outputs == [Output(b"v", b"k", headers, 1_700_000_000_000, None)]


def test_user_code_sees_the_record_and_where_it_came_from() -> None:
    code = """
        def f(record):
            seen = (record.value, record.key, record.headers, record.timestamp_ms, record.topic, record.origin)
            return record.replace(value=repr(seen).encode())
    """
    (value,) = outputs(run(code, [a_message(b"v", key=None, offset=7)]))
    assert value is not None
    assert value.decode() == ("(b'v', None, (), 1700000000000, None, Origin(topic='flights', partition=3, offset=7))")


def test_none_drops_and_a_list_fans_out_in_order() -> None:
    code = """
        def f(record):
            if record.value == b"a":
                return None
            if record.value == b"b":
                return []
            return [record, record.replace(value=b"second", topic="side-topic")]
    """
    processed = run(code, THREE)
    assert outputs(processed) == [b"c", b"second"]
    assert [output.topic for output in processed.outputs] == [None, "side-topic"]


def test_json_goes_in_and_out() -> None:
    code = """
        def f(record):
            flight = record.json()
            return record.with_json({"late": flight["delay"] >= 15}) if flight else record
    """
    assert outputs(run(code, [*json_messages({"delay": 20}), a_message(None)])) == [b'{"late":true}', None]


def test_json_keeps_integers_of_any_size_and_says_when_a_value_is_none() -> None:
    big = 2**70
    code = """
        def f(record):
            try:
                return record.with_json(record.json())
            except ValueError:
                return record.replace(value=b"not JSON")
    """
    messages = [*json_messages({"id": big}), a_message(b"{"), a_message(b"\xff")]
    assert outputs(run(code, messages)) == [b'{"id":%d}' % big, b"not JSON", b"not JSON"]


def test_a_record_cannot_be_changed_in_place() -> None:
    processed = run("def f(record):\n    record.value = b'x'\n    return record", THREE[:1])
    assert "AttributeError" in str(processed.failures[0].error)


def test_a_record_that_raises_is_a_failure_with_the_files_line_and_the_others_go_on() -> None:
    code = """
        def f(record):
            if record.value == b"b":
                raise ValueError("no b, please")
            return record
    """
    processed = run(code, THREE)
    assert [output.value for output in processed.outputs] == [b"a", b"c"]
    (failure,) = processed.failures
    assert failure[0] == 1
    assert (str(failure.error), contents(failure)) == ("mine.py, line 5: ValueError", "no b, please")


@pytest.mark.parametrize("statement", ["raise SystemExit(3)", "f(record)", "raise MemoryError", "assert False"])
def test_no_exception_of_a_record_gets_away(statement: str) -> None:
    processed = run(f"def f(record):\n    {statement}", THREE)
    assert [failure[0] for failure in processed.failures] == [0, 1, 2]


@pytest.mark.parametrize(
    ("returned", "part"),
    [
        ("5", "returned a number; it must return None, a Record or a list of Records"),
        ("b'bytes'", "returned bytes; it must return"),
        ("True", "returned true or false"),
        ("[1]", "returned a list with a number in it; every output must be a Record"),
        ("[None]", "returned a list with None in it"),
        ("Record('text')", "a Record whose value is text; it must be bytes or None"),
        ("Record(b'', key='text')", "a Record whose key is text; it must be bytes or None"),
        ("Record(b'', timestamp_ms=1.5)", "neither milliseconds nor None: 1.5"),
        ("Record(b'', timestamp_ms=-1)", "neither milliseconds nor None: -1"),
        ("Record(b'', timestamp_ms=True)", "neither milliseconds nor None: True"),
        ("Record(b'', topic='a b')", "is not a topic's name: 'a b'"),
        ("Record(b'', topic='..')", "is not a topic's name: '..'"),
        ("Record(b'', topic=5)", "is not a topic's name: 5"),
        ("Record(b'', headers={'a': b'b'})", "whose headers are an object"),
        ("Record(b'', headers=[('a', 'b')])", "not (name, bytes): ('a', 'b')"),
        ("Record(b'', headers=[(b'a', b'b')])", "not (name, bytes): (b'a', b'b')"),
        ("Record(b'', headers=['a'])", "not (name, bytes): 'a'"),
        ("Record(b'', headers=None)", "whose headers are None"),
        ("Record(b'', headers=[('\\ud800', b'b')])", "a header name that the client cannot write: '\\ud800'"),
        ("Record(b'', headers=[('a\\0b', b'b')])", "a header name that the client cannot write: 'a\\x00b'"),
    ],
)
def test_another_value_than_an_output_is_a_failure_that_names_it(returned: str, part: str) -> None:
    processed = run(f"def f(record): return {returned}", THREE[:1])
    assert processed.outputs == []
    assert str(processed.failures[0].error).startswith("`f` in mine.py ")
    assert part in f"{processed.failures[0].error}: {contents(processed.failures[0])}"


def test_a_record_for_a_topic_that_the_pipeline_reads_is_refused() -> None:
    processed = run("def f(record): return record.replace(topic=record.origin.topic)", THREE)
    assert [failure[0] for failure in processed.failures] == [0, 1, 2]
    assert "'flights', which this pipeline reads: that would never end" in str(processed.failures[0].error)


def test_nothing_of_a_record_with_one_bad_output_is_kept() -> None:
    processed = run("def f(record): return [record, 5]", THREE[:1])
    assert processed.outputs == []
    assert len(processed.failures) == 1


BATCH = PythonScope.BATCH


def test_a_batch_is_one_call_and_its_outputs_stay_in_order() -> None:
    code = """
        def f(records):
            total = str(len(records)).encode()
            return [[], [records[1], records[1]], [records[2].replace(value=total)]]
    """
    assert outputs(run(code, THREE, scope=BATCH)) == [b"b", b"b", b"3"]


def test_a_batch_that_raises_is_run_again_record_by_record() -> None:
    code = """
        def f(records):
            if any(record.value == b"b" for record in records):
                raise ValueError("b is among them")
            return [[record] for record in records]
    """
    processed = run(code, THREE, scope=BATCH)
    assert [output.value for output in processed.outputs] == [b"a", b"c"]
    (failure,) = processed.failures
    assert failure[0] == 1
    assert (str(failure.error), contents(failure)) == ("mine.py, line 5: ValueError", "b is among them")


def test_a_batch_function_that_fails_only_on_many_loses_nothing() -> None:
    code = """
        def f(records):
            if len(records) > 1:
                raise ValueError("one at a time")
            return [records]
    """
    assert outputs(run(code, THREE, scope=BATCH)) == [b"a", b"b", b"c"]


def test_a_batch_of_one_that_raises_is_not_run_twice() -> None:
    code = """
        calls = []
        def f(records):
            calls.append(1)
            raise ValueError(f"call {len(calls)}")
    """
    processed = run(code, THREE[:1], scope=BATCH)
    assert contents(processed.failures[0]) == "call 1"


def test_a_batch_function_that_takes_its_list_apart_harms_only_itself() -> None:
    code = """
        def f(records):
            if len(records) == 3:
                records.clear()
                raise ValueError
            return [[records.pop()]]
    """
    assert outputs(run(code, THREE, scope=BATCH)) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("returned", "part"),
    [
        ("None", "returned None; a batch function returns one list of Records for each input"),
        ("records[0]", "returned Record; a batch function returns one list"),
        ("[]", "returned 0 lists for 1 records; it must be one for each, in order"),
        ("[[], []]", "returned 2 lists for 1 records"),
        ("[None]", "returned None; it must return one list of Records for each input"),
        ("[records[0]]", "it must return one list of Records for each input"),
        ("[[5]]", "every output must be a Record"),
    ],
)
def test_a_batch_function_that_returns_something_else_is_refused(returned: str, part: str) -> None:
    processed = run(f"def f(records): return {returned}", THREE, scope=BATCH)
    assert processed.outputs == []
    assert [failure[0] for failure in processed.failures] == [0, 1, 2]
    assert part in str(processed.failures[0].error)


def test_an_empty_batch_is_fine() -> None:
    for processed in (
        run("def f(records): return [[record] for record in records]", [], scope=BATCH),
        run("def f(record): return record", []),
    ):
        assert (processed.outputs, processed.failures) == ([], [])


def test_a_text_that_is_not_the_revisions_file_is_refused_with_both_hashes() -> None:
    source = "def f(record): return record\n"
    definition = PythonFunction(function="f", file_name="mine.py", sha256=sha256_of(source))
    with pytest.raises(TransformError) as caught:
        PythonTransform(definition, source=source + "# changed\n")
    message = str(caught.value)
    assert "mine.py is not the file of this revision" in message
    assert sha256_of(source) in message
    assert sha256_of(source + "# changed\n") in message


def test_a_file_is_not_run_before_its_hash_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    definition = PythonFunction(function="f", file_name="mine.py", sha256="0" * 64)
    with pytest.raises(TransformError):
        PythonTransform(definition, source="print('I was run')\n")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("def f(record) return record", "mine.py, line 2: expected ':'"),
        ("1 / 0", "mine.py does not import: line 2: ZeroDivisionError"),
        ("import no_such_module_here", "mine.py does not import: line 2: ModuleNotFoundError"),
        ("raise SystemExit('bye')", "mine.py does not import: line 2: SystemExit"),
        ("def g(record): ...\ndef h(record): ...", "mine.py has no function `f`; it has `g`, `h`"),
        ("x = 1", "mine.py has no function `f`; it defines no function at all"),
        ("f = 5", "`f` in mine.py is not a function"),
        ("async def f(record): ...", "is an async function"),
        ("async def f(record): yield record", "is an async generator"),
        ("def f(record): yield record", "is a generator (it uses `yield`)"),
        ("class f: ...", "is a class"),
        ("def f(): ...", "must be callable with one argument"),
        ("def f(a, b): ...", "must be callable with one argument"),
    ],
)
def test_a_file_that_cannot_be_a_transform_says_why(code: str, part: str) -> None:
    with pytest.raises(TransformError) as caught:
        transform(code)
    assert part in str(caught.value)


@pytest.mark.parametrize("code", ["f = lambda record: record", "def f(record, extra=None): return record"])
def test_anything_callable_with_a_record_is_a_function(code: str) -> None:
    assert outputs(run(code, THREE)) == [b"a", b"b", b"c"]


def test_a_file_may_use_dataclasses_and_typing_as_any_module() -> None:
    code = """
        from __future__ import annotations
        import dataclasses
        @dataclasses.dataclass(slots=True)
        class Flight:
            value: bytes
        def f(record: Record) -> Record | None:
            return record.replace(value=Flight(record.value).value)
    """
    source = textwrap.dedent(code).strip().replace("import dataclasses", f"import dataclasses\n{HEADER}")
    definition = PythonFunction(function="f", file_name="mine.py", sha256=sha256_of(source))
    assert outputs(PythonTransform(definition, source=source).process(THREE)) == [b"a", b"b", b"c"]


def test_two_files_with_one_name_do_not_meet() -> None:
    one: Any = transform("x = b'1'\ndef f(record): return record.replace(value=x)")
    other: Any = transform("x = b'2'\ndef f(record): return record.replace(value=x)")
    assert outputs(one.process(THREE[:1])) == [b"1"]
    assert outputs(other.process(THREE[:1])) == [b"2"]
