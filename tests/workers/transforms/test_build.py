"""From a definition to a transform that runs."""

from __future__ import annotations

import pytest

from app.core.pipelines.pipeline import Filter, Identity, PythonFunction, SetField, StepOperator, Steps
from tests.support.messages import a_message
from workers.transforms import TransformError
from workers.transforms.build import build
from workers.transforms.user_code import sha256_of


def test_identity_is_marked_so_that_the_loop_need_not_call_it() -> None:
    transform = build(Identity(), source=None, sink_topic="sink")
    assert transform.is_identity
    assert [output.value for output in transform.process([a_message(b"x")]).outputs] == [b"x"]


def test_steps_are_built() -> None:
    transform = build(Steps(steps=(SetField(field="a", value=1),)), source=None, sink_topic="sink")
    assert not transform.is_identity
    assert [output.value for output in transform.process([a_message(b"{}")]).outputs] == [b'{"a":1}']


def test_a_python_function_is_built_from_its_source() -> None:
    source = "def f(record): return record.replace(value=b'y')\n"
    definition = PythonFunction(function="f", file_name="m.py", sha256=sha256_of(source))
    transform = build(definition, source=source, sink_topic="sink")
    assert not transform.is_identity
    assert [output.value for output in transform.process([a_message(b"x")]).outputs] == [b"y"]


def test_a_python_function_without_its_source_names_the_next_step() -> None:
    with pytest.raises(TransformError, match=r"the text of m\.py did not come with the run; start the run again"):
        build(PythonFunction(function="f", file_name="m.py", sha256="0" * 64), source=None, sink_topic="sink")


def test_steps_that_do_not_compile_are_refused() -> None:
    with pytest.raises(TransformError, match="a field needs a name"):
        build(Steps(steps=(Filter(field="", operator=StepOperator.EXISTS),)), source=None, sink_topic="sink")
