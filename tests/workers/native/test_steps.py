"""Steps in C give what the same steps in Python give, to the byte, or leave the record to Python."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from app.core.pipelines.pipeline import (
    Condition,
    Filter,
    Project,
    Rename,
    Route,
    SetField,
    Step,
    StepOperator,
)
from tests.support.json_cases import SINK, JsonCases
from tests.support.messages import a_message
from workers.native.library import NativeLibrary, native_library
from workers.native.stepping import Fate, NativeSteps
from workers.transforms import TransformError
from workers.transforms.steps import StepsTransform

GE_15 = Filter(field="delay", operator=StepOperator.GE, value=15)


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    found = native_library()
    assert isinstance(found, NativeLibrary), found
    return found


def outcome(library: NativeLibrary, steps: list[Step], value: bytes) -> tuple[Fate, str | None, bytes]:
    return NativeSteps(library, StepsTransform(steps, sink_topic=SINK)).outcome(value)


def kept(value: bytes) -> tuple[Fate, str | None, bytes]:
    return Fate.OUTPUT, None, value


@pytest.mark.parametrize(
    ("steps", "value", "expected"),
    [
        ([GE_15], b'{"delay": 15.0}', kept(b'{"delay":15.0}')),
        ([GE_15], b'{"delay": 14}', (Fate.DROPPED, None, b"")),
        ([GE_15], b'{"delay": null}', (Fate.DROPPED, None, b"")),
        ([GE_15], b"{}", (Fate.DROPPED, None, b"")),
        ([Project(fields=("b", "a.c"))], b'{"a":{"c":[1],"d":2},"b":"x"}', kept(b'{"b":"x","a":{"c":[1]}}')),
        ([Rename(field="a", to="b")], b'{"a":1,"c":2,"b":3}', kept(b'{"c":2,"b":1}')),
        ([Rename(field="a", to="b.c")], b'{"a":1,"d":2}', kept(b'{"d":2,"b":{"c":1}}')),
        (
            [SetField(field="a.b", value={"c": 1}), SetField(field="a.b.d", value=2)],
            b"{}",
            kept(b'{"a":{"b":{"c":1,"d":2}}}'),
        ),
        (
            [
                Route(field="a", operator=StepOperator.EXISTS, topic=SINK),
                Route(field="a", operator=StepOperator.EQ, value=1, topic="late"),
            ],
            b'{"a":1}',
            kept(b'{"a":1}'),
        ),
        (
            [Route(field="a", operator=StepOperator.IN, value=[2, "é"], topic="late")],
            b'{"a":"\\u00e9"}',
            (Fate.OUTPUT, "late", '{"a":"é"}'.encode()),
        ),
        (
            [Filter(field="a", operator=StepOperator.LT, value="b")],
            b'{"a":"a\\n\\u0001"}',
            kept(b'{"a":"a\\n\\u0001"}'),
        ),
    ],
)
def test_what_steps_do(
    library: NativeLibrary, steps: list[Step], value: bytes, expected: tuple[Fate, str | None, bytes]
) -> None:
    assert outcome(library, steps, value) == expected


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[1]",
        b"{",
        b'{"a": 1, "a": 2}',
        b'{"a": 1e5}',
        b'{"a": 1.50}',
        b'{"a": -0}',
        b'{"a": 0.00001}',
        b'{"a": 1234567890123456789}',
        b'{"a": 123456789012345.67}',
        b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"a": "' + b"x" * (1 << 20) + b'"}',
        b'{"delay": "late"}',
        b'{"delay": [15]}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
    ],
)
def test_what_c_is_not_sure_of_is_left_to_python(library: NativeLibrary, value: bytes) -> None:
    steps: list[Step] = [Route(field="delay", operator=StepOperator.GE, value=15, topic="late")]
    assert outcome(library, steps, value)[0] is Fate.PYTHON
    assert outcome(library, steps, b'{"a": 1.5, "delay": 15}')[0] is Fate.OUTPUT


def test_conditions_are_pythons_and_filters_before_them_are_cs(library: NativeLibrary) -> None:
    steps: list[Step] = [GE_15, Condition(expression="has(record.a)")]
    assert outcome(library, steps, b'{"delay":20}')[0] is Fate.PYTHON
    assert outcome(library, steps, b'{"delay":1}')[0] is Fate.DROPPED


@pytest.mark.parametrize("cases", [20_000])
def test_any_steps_on_any_value_give_what_python_gives(library: NativeLibrary, seed: int, cases: int) -> None:
    """Control: each fate is there, so that not everything was left to Python."""
    print(f"cases drawn with --seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    assert compare(library, JsonCases(random.Random(seed)), cases) >= {Fate.OUTPUT, Fate.DROPPED, Fate.PYTHON}


def compare(library: NativeLibrary, drawn: JsonCases, count: int) -> set[Fate]:
    """Compare so many cases, 30 values for each list of steps; return the fates with at least a hundredth of them."""
    fates: Counter[Fate] = Counter()
    while fates.total() < count:
        try:
            transform = StepsTransform(drawn.steps(), sink_topic=SINK)
        except TransformError:
            continue
        native = NativeSteps(library, transform)
        for _ in range(30):
            value = drawn.value()
            fate, topic, output = native.outcome(value)
            fates[fate] += 1
            if fate is Fate.PYTHON:
                continue
            processed = transform.process([a_message(value)])
            found = [(one.value, None if one.topic == SINK else one.topic) for one in processed.outputs]
            expected = [(output, topic)] if fate is Fate.OUTPUT else []
            assert (found, processed.failures) == (expected, []), (transform.steps, value)
    return {fate for fate, some in fates.items() if some >= count / 100}
