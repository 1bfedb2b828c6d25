"""Steps over batches of messages: what comes out, what survives, and whose fault an error is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.pipeline import Condition, Filter, Project, Route, SetField, StepOperator, Steps
from tests.support.messages import a_message, json_messages
from workers.transforms import Output, TransformError
from workers.transforms.build import build
from workers.transforms.steps import StepsTransform

LATE = Filter(field="delay", operator=StepOperator.GE, value=15)


def values(outputs: list[Output]) -> list[Any]:
    return [None if output.value is None else json.loads(output.value) for output in outputs]


def test_a_batch_is_filtered_and_projected_in_order() -> None:
    transform = StepsTransform([LATE, Project(fields=("id",))])
    messages = json_messages({"id": 1, "delay": 20}, {"id": 2, "delay": 1}, {"id": 3, "delay": 15})
    processed = transform.process(messages)
    assert values(processed.outputs) == [{"id": 1}, {"id": 3}]
    assert processed.failures == []
    assert not transform.is_identity


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ((TIMESTAMP_CREATE_TIME, 123), 123),
        ((TIMESTAMP_LOG_APPEND_TIME, 456), 456),
        ((TIMESTAMP_NOT_AVAILABLE, 0), None),
    ],
)
def test_key_headers_and_timestamp_pass_unchanged(timestamp: tuple[int, int], expected: int | None) -> None:
    headers: list[tuple[str, bytes | None]] = [("trace", b"\x00\xff"), ("trace", None), ("", b"")]
    message = a_message(b'{"a": 1}', key=b"\xff\x00", headers=headers, timestamp=timestamp)
    (output,) = StepsTransform([SetField(field="b", value=2)]).process([message]).outputs
    assert output == Output(b'{"a":1,"b":2}', b"\xff\x00", headers, expected, None)


def test_a_message_without_key_and_headers_keeps_having_none() -> None:
    (output,) = StepsTransform([SetField(field="b", value=2)]).process([a_message(b"{}", key=None)]).outputs
    assert output.key is None
    assert output.headers is None


def test_a_route_names_the_topic_of_its_record_only() -> None:
    transform = StepsTransform([Route(field="delay", operator=StepOperator.GE, value=60, topic="very-late")])
    outputs = transform.process(json_messages({"delay": 61}, {"delay": 3})).outputs
    assert [output.topic for output in outputs] == ["very-late", None]


def test_a_tombstone_passes_as_it_is_so_that_a_deletion_reaches_the_sink() -> None:
    headers: list[tuple[str, bytes | None]] = [("h", b"1")]
    (output,) = StepsTransform([LATE]).process([a_message(None, key=b"gone", headers=headers)]).outputs
    assert output == Output(None, b"gone", headers, 1_700_000_000_000, None)


def test_a_tombstone_goes_to_the_sink_and_to_every_routed_topic_once_since_any_may_have_its_key() -> None:
    late, lost = (Route(field=name, operator=StepOperator.EXISTS, topic=name) for name in ("late", "lost"))
    transform = StepsTransform([late, lost, late, LATE])
    processed = transform.process([a_message(None, key=b"gone"), *json_messages({"delay": 20, "lost": 1})])
    assert [(output.value is None, output.topic) for output in processed.outputs] == [
        (True, None),
        (True, "late"),
        (True, "lost"),
        (False, "lost"),
    ]
    assert processed.inputs == [0, 0, 0, 1]


def test_a_tombstone_goes_to_the_sink_once_though_a_route_names_the_sink() -> None:
    to_sink, lost = (Route(field=name, operator=StepOperator.EXISTS, topic=name) for name in ("sink", "lost"))
    transform = build(Steps(steps=(to_sink, lost)), source=None, sink_topic="sink")
    processed = transform.process([a_message(None, key=b"gone"), *json_messages({"sink": 1})])
    assert [output.topic for output in processed.outputs] == [None, "lost", "sink"]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (b"", "not JSON that steps can read"),
        (b"{", "not JSON that steps can read"),
        (b'{"a": 1} x', "not JSON that steps can read"),
        (b'{"a": NaN}', "not JSON that steps can read"),
        (b'{"a": "\xff"}', "not JSON that steps can read"),
        (b'{"a": "\\ud800"}', "not JSON that steps can read"),
        (b'{"a":' + b"[" * 100_000, "not JSON that steps can read"),
        (b"[1]", "the value is a list, and steps need a JSON object"),
        (b"5", "the value is a number, and steps need a JSON object"),
        (b"null", "the value is null, and steps need a JSON object"),
        (b'{"delay": "late"}', "step 1: `delay` is text, and `ge` compares it with a number"),
    ],
)
def test_a_bad_record_is_a_failure_at_its_index_and_the_others_go_on(value: bytes, part: str) -> None:
    good = json.dumps({"delay": 20}).encode()
    processed = StepsTransform([LATE, SetField(field="b", value=1)]).process(
        [a_message(good), a_message(value, offset=1), a_message(good, offset=2)]
    )
    (failure,) = processed.failures
    assert failure[0] == 1
    assert part in str(failure.error)
    assert len(processed.outputs) == 2


def test_failures_come_by_rising_index() -> None:
    messages = [a_message(value, offset=n) for n, value in enumerate([b"x", b"{}", b"[]", b'{"delay": 16}', b"y"])]
    processed = StepsTransform([LATE]).process(messages)
    assert [failure[0] for failure in processed.failures] == [0, 2, 4]


def test_a_condition_that_has_no_answer_is_the_records_failure() -> None:
    processed = StepsTransform([Condition(expression="record.delay > 5")]).process(json_messages({"delay": 6}, {}))
    assert values(processed.outputs) == [{"delay": 6}]
    assert "step 1: the condition cannot be evaluated" in str(processed.failures[0].error)


def test_steps_that_do_not_compile_stop_the_task_with_their_fields() -> None:
    with pytest.raises(TransformError) as caught:
        StepsTransform([Condition(expression="recrd.a"), Filter(field="", operator=StepOperator.EXISTS)])
    assert "transform.steps.0.expression: Step 1: line 1" in str(caught.value)
    assert "transform.steps.1.field: Step 2: a field needs a name" in str(caught.value)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 80), 1 << 80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), json_values, max_size=4))
def test_fields_that_the_steps_do_not_touch_keep_value_and_type(record: dict[str, Any]) -> None:
    value = json.dumps(record, ensure_ascii=False).encode()
    (output,) = StepsTransform([SetField(field="added", value=1)]).process([a_message(value)]).outputs
    assert output.value is not None
    # repr distinguishes 1 from 1.0 and from True.
    assert repr(json.loads(output.value)) == repr({**json.loads(value), "added": 1})


@given(st.lists(st.binary(max_size=12) | st.none(), max_size=5))
def test_no_bytes_make_a_batch_fail_as_a_whole(batch: list[bytes | None]) -> None:
    processed = StepsTransform([SetField(field="a", value=1)]).process([a_message(value) for value in batch])
    assert len(processed.outputs) + len(processed.failures) == len(batch)
