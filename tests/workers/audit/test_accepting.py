"""Outputs that a file sink would refuse are not expected in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from app.core.pipelines.pipeline import (
    ByDate,
    ByField,
    ErrorHandling,
    FailurePolicy,
    FileSink,
    Filter,
    PythonFunction,
    PythonScope,
    SchemaConflict,
    StepOperator,
    Steps,
)
from tests.support.audited_files import a_file_specification
from workers.audit.accepting import FileAcceptance
from workers.audit.expecting import Expectations, Fate
from workers.transforms import Output
from workers.transforms.user_code import sha256_of

BY_USER = FileSink(root="file:///data", partition_by=(ByField(name="user", field="user"),))
BY_DAY = FileSink(root="file:///data", partition_by=(ByDate(name="day"),))
GIVEN = FileSink(
    root="file:///data",
    schema={"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]},
)
LETTERS = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="letters")


def message(value: bytes | None, *, has_time: bool = True) -> Message:
    kind = TIMESTAMP_CREATE_TIME if has_time else TIMESTAMP_NOT_AVAILABLE
    return Message(topic="in", partition=0, offset=7, value=value, timestamp=(kind, 1_700_000_000_000))


def output(value: bytes | None, *, topic: str | None = None) -> Output:
    return Output(value, None, None, None, topic)


@pytest.mark.parametrize(
    ("files", "value", "takes"),
    [
        (BY_USER, b'{"id": "a", "user": "u"}', True),
        (BY_USER, b'{"id": "a"}', True),
        (BY_USER, b'{"id": "a", "user": {"name": "u"}}', False),
        (BY_USER, b"[1]", False),
        (BY_USER, b"no JSON", False),
        (BY_USER, None, False),
        (GIVEN, b'{"id": "a"}', True),
        (GIVEN, b'{"id": 1}', False),
        (BY_DAY, b'{"id": "a"}', True),
    ],
)
def test_a_record_is_taken_as_the_sink_takes_it(files: FileSink, value: bytes | None, takes: bool) -> None:
    assert FileAcceptance(files).takes([output(value)], message(b"{}")) is takes


def test_a_record_without_a_time_is_in_no_day_and_one_for_another_topic_in_no_file() -> None:
    assert not FileAcceptance(BY_DAY).takes([output(b"{}")], message(b"{}", has_time=False))
    assert not FileAcceptance(BY_USER).takes([output(b"{}", topic="aside")], message(b"{}"))


def test_of_several_outputs_all_are_taken_or_none() -> None:
    assert not FileAcceptance(BY_USER).takes([output(b"{}"), output(b"[]")], message(b"{}"))


@pytest.mark.parametrize("policy", SchemaConflict)
def test_types_that_conflict_with_earlier_records_are_left_to_the_findings(policy: SchemaConflict) -> None:
    """Which came first in its file only the sink knows; what it refused lies among the dead letters."""
    accepts = FileAcceptance(msgspec.structs.replace(BY_USER, conflict=policy))
    for value in (b'{"id": 1}', b'{"id": "a"}', b'{"id": {"b": 1}}') * 40:
        assert accepts.takes([output(value)], message(b"{}"))


def expected(value: bytes, **changes: Any) -> tuple[Fate, list[tuple[int, bytes | None]]]:
    found = Expectations(a_file_specification(Path("/data"), **changes)).of(message(value))
    assert found.untimed == 0
    return found.fate, found.ids


def test_outputs_that_files_refuse_are_treated_by_the_policy() -> None:
    refused = b'{"id": "a", "user": []}'
    assert expected(b'{"id": "a"}') == (Fate.WRITTEN, [(0, b"a")])
    assert expected(refused) == (Fate.STOPPING, [])
    assert expected(refused, errors=ErrorHandling(policy=FailurePolicy.SKIP)) == (Fate.SKIPPED, [])
    letters = expected(refused, errors=LETTERS, sink_topics=("out", "letters"))
    assert letters == (Fate.DEAD_LETTERED, [(1, b"a")])


def test_records_that_steps_drop_are_in_no_file() -> None:
    late = Steps(steps=(Filter(field="delay", operator=StepOperator.GT, value=10),))
    assert expected(b'{"id": "a", "delay": 11}', transform=late) == (Fate.WRITTEN, [(0, b"a")])
    assert expected(b'{"id": "a", "delay": 9}', transform=late) == (Fate.DROPPED, [])


def test_a_function_over_arrow_batches_is_applied_to_one_record() -> None:
    source = (
        "import pyarrow.compute as pc\n\n\ndef f(batch):\n"
        "    return batch.filter(pc.not_equal(batch['value'], b'{}')).select(['value', 'offset', 'partition'])\n"
    )
    transform = PythonFunction(function="f", scope=PythonScope.ARROW, file_name="f.py", sha256=sha256_of(source))
    changes: dict[str, Any] = {"transform": transform, "transform_source": source}
    assert expected(b'{"id":"1"}', **changes)[0] is Fate.WRITTEN
    assert expected(b"{}", **changes)[0] is Fate.DROPPED
