"""The texts for viewers about a bad record quote nothing of it; its dead letter and the executor's log may."""

from __future__ import annotations

import json
import logging
import textwrap
from typing import Any

import pytest
from confluent_kafka import Message

from app.core.pipelines.pipeline import (
    Condition,
    ErrorHandling,
    FailurePolicy,
    Filter,
    PythonFunction,
    PythonScope,
    Step,
    StepOperator,
)
from app.core.wire.heartbeat import EventKind
from tests.support.messages import a_message
from workers.loop.errors import PipelineStopError
from workers.loop.records.failures import BadRecords
from workers.loop.telling.tally import Work
from workers.sinks.avro_encoder import AvroEncoder
from workers.transforms import Failure, Transform
from workers.transforms.python_function import PythonTransform
from workers.transforms.steps import StepsTransform
from workers.transforms.user_code import sha256_of

CANARY = "4111-1111@example.com("
RECORD: dict[str, Any] = {"a": CANARY, "n": 7, "l": [CANARY], "o": {CANARY: CANARY}}

CONDITIONS = [
    "int(record.a) > 3",
    "record.o[record.n] == 1",
    "record.o[record.l[0] + 'x'] == 1",
    "record.a.matches(record.a)",
    "timestamp(record.a) > timestamp('2020-01-01T00:00:00Z')",
    "duration(record.a) > duration('1s')",
    "double(record.a) > 1.0",
    "bool(record.a)",
    "record.l[7] == 1",
    "record.a.b",
    "record.a / 0 == 1",
    "record.n / 0 == 1",
    "record.a",
    "record.l",
]
FUNCTIONS = [
    "raise ValueError(record.value)",
    "int(record.json()['a'])",
    "return record.json()['o'][record.json()['a'] + 'x']",
    "return record.replace(topic=record.json()['a'])",
    "return record.replace(headers=[(record.json()['a'],)])",
    "return record.replace(timestamp_ms=record.json()['a'])",
    "return record.json()",
    "raise type(record.json()['a'], (Exception,), {})",
    "raise SystemExit(record.json()['a'])",
]


def condition(expression: str) -> Transform:
    return StepsTransform([Condition(expression=expression)])


def python(statement: str, scope: PythonScope) -> Transform:
    signature = "def f(record):" if scope is PythonScope.RECORD else "def f(records):\n    (record,) = records"
    source = f"{signature}\n{textwrap.indent(statement, '    ')}\n"
    definition = PythonFunction(function="f", scope=scope, file_name="mine.py", sha256=sha256_of(source))
    return PythonTransform(definition, source=source)


def failure_of(transform: Transform, value: Any = RECORD) -> Failure:
    encoded = value if isinstance(value, bytes) else json.dumps(value).encode()
    processed = transform.process([a_message(encoded)])
    assert processed.outputs == []
    (failure,) = processed.failures
    return failure


@pytest.mark.parametrize("expression", CONDITIONS)
def test_a_condition_that_has_no_answer_quotes_no_value(expression: str) -> None:
    said = str(failure_of(condition(expression)).error)
    assert CANARY not in said
    assert CANARY[:4] not in said


@pytest.mark.parametrize("operator", [StepOperator.GT, StepOperator.LE])
def test_a_comparison_that_does_not_fit_quotes_no_value(operator: StepOperator) -> None:
    step: Step = Filter(field="a", operator=operator, value=3)
    assert CANARY not in str(failure_of(StepsTransform([step])).error)


@pytest.mark.parametrize(
    "value", [CANARY, [CANARY], f'{{"a": "{CANARY}'.encode(), f'"{CANARY}\xff"'.encode("latin-1"), CANARY.encode()]
)
def test_a_value_that_steps_cannot_read_is_not_quoted(value: Any) -> None:
    assert CANARY not in str(failure_of(condition("record.a == 1"), value).error)


@pytest.mark.parametrize("scope", list(PythonScope))
@pytest.mark.parametrize("statement", FUNCTIONS)
def test_a_function_that_raises_is_named_by_type_and_line(statement: str, scope: PythonScope) -> None:
    failure = failure_of(python(statement, scope))
    assert CANARY not in str(failure.error)
    assert "mine.py" in str(failure.error)


@pytest.mark.parametrize(
    "type_",
    [
        "int",
        "boolean",
        {"type": "array", "items": "long"},
        {"type": "enum", "name": "e", "symbols": ["X"]},
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]},
        ["null", "long"],
    ],
)
def test_a_value_that_does_not_fit_a_schema_is_not_quoted(type_: Any) -> None:
    encoder = AvroEncoder({"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]})
    with pytest.raises(ValueError, match=r".") as raised:
        encoder.encode(json.dumps({"a": CANARY}).encode())
    assert CANARY not in str(raised.value)


def bad_records(policy: FailurePolicy, said: list[str]) -> BadRecords:
    handling = ErrorHandling(policy=policy, dead_letter_topic="dead" if policy is FailurePolicy.DEAD_LETTER else None)

    def announce(kind: EventKind, message: str, **_details: Any) -> None:
        assert kind is EventKind.BAD_RECORD
        said.append(message)

    return BadRecords(handling, announce=announce)


def a_bad_record() -> tuple[Message, Exception]:
    message = a_message(json.dumps(RECORD).encode(), offset=41)
    (failure,) = python("int(record.json()['a'])", PythonScope.RECORD).process([message]).failures
    return message, failure.error


def test_stop_and_event_name_the_offset_and_quote_nothing(caplog: pytest.LogCaptureFixture) -> None:
    message, error = a_bad_record()
    said: list[str] = []
    with pytest.raises(PipelineStopError) as stopped:
        bad_records(FailurePolicy.FAIL, said).treat(message, error, Work())
    skipping = bad_records(FailurePolicy.SKIP, said)
    skipping.treat(message, error, Work())
    skipping.committed()
    for sentence in (str(stopped.value), *said):
        assert "flights-3 offset 41" in sentence
        assert "mine.py, line 2: ValueError" in sentence
        assert CANARY not in sentence
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert all(CANARY in record.getMessage() for record in logged), "who may read the executor's log sees the reason"
    assert len(logged) == 2


def test_a_dead_letter_has_the_whole_reason_beside_the_record() -> None:
    message, error = a_bad_record()
    letter = bad_records(FailurePolicy.DEAD_LETTER, []).treat(message, error, Work())
    assert letter is not None
    reason = dict(letter.headers or ())["fenceline.error"] or b""
    assert reason.startswith(b"UserFunctionError: mine.py, line 2: ValueError: invalid literal for int()")
    assert CANARY.encode() in reason
