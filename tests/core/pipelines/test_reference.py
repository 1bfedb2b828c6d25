"""docs/pipelines.md agrees with the code: its fields, defaults and words, and its examples work."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from app.core.allow_lists.options import AllowedOptions
from app.core.pipelines import file_checks, timing_checks
from app.core.pipelines.pipeline import (
    AvroCodec,
    DataframeQuery,
    ErrorHandling,
    FailurePolicy,
    FileSink,
    OutputMode,
    PipelineDefinition,
    PythonFunction,
    PythonScope,
    SchemaConflict,
    SparkSettings,
    StateStore,
    Step,
    StepOperator,
    Steps,
    Stream,
)
from app.core.pipelines.pipeline_checks import check
from app.core.pipelines.pipeline_file import read
from app.core.transforms import python_transforms
from tests.support.messages import a_message, json_messages
from workers.loop.records.failures import HEADER_PREFIX, dead_letter
from workers.transforms.arrow_function import ArrowTransform
from workers.transforms.build import build
from workers.transforms.python_function import PythonTransform
from workers.transforms.user_code import sha256_of

TEXT = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `([a-z0-9_.]+)` \| *(.*?) *\|", TEXT, re.MULTILINE))
YAML, PYTHON = (re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL) for language in ("yaml", "python"))


def fields_of(kind: type[msgspec.Struct], prefix: str = "") -> list[tuple[str, Any]]:
    """Each field with its default as JSON shows it; None: it has none."""
    found: list[tuple[str, Any]] = []
    for field in msgspec.structs.fields(kind):
        default = None if field.required else field.default
        if default is msgspec.NODEFAULT:
            default = field.default_factory()
        found.append((prefix + field.name, msgspec.to_builtins(default)))
    return found


NESTED = {"transform", "errors", "spark"}
_IN_ONE_ROW = {"function", "file_name", "sha256"}
"""Rows of `python` have them, too."""
FIELDS = [
    *[(name, default) for name, default in fields_of(PipelineDefinition) if name not in NESTED],
    *fields_of(ErrorHandling, "errors."),
    *fields_of(FileSink, "files."),
    *fields_of(SparkSettings, "spark."),
    *fields_of(PythonFunction),
    *[(name, default) for name, default in fields_of(DataframeQuery) if name not in _IN_ONE_ROW],
    *fields_of(Stream, "streams."),
]


@pytest.mark.parametrize(("name", "default"), FIELDS, ids=[name for name, _ in FIELDS])
def test_every_field_is_in_a_table_with_its_default(name: str, default: Any) -> None:
    shown = "" if default is None else json.dumps(default) if isinstance(default, bool | dict | tuple) else str(default)
    assert ROWS[name].strip("`") == shown


@pytest.mark.parametrize(
    "word", [*StepOperator, *FailurePolicy, *PythonScope, *AvroCodec, *SchemaConflict, *OutputMode, *StateStore]
)
def test_every_word_is_explained(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_every_step_has_a_row() -> None:
    for kind in cast(Any, Step).__args__:
        assert kind.__struct_config__.tag in ROWS, kind


def test_every_column_has_a_row() -> None:
    (columns,) = (field.type for field in msgspec.structs.fields(FileSink) if field.name == "partition_by")
    for kind in columns.__args__[0].__args__:
        assert kind.__struct_config__.tag in ROWS, kind


def test_the_bounds_of_files_are_as_written() -> None:
    assert f"up to {file_checks.MAX_COLUMNS} columns" in TEXT
    assert f"1 to {file_checks.MAX_FILE_MB} |" in TEXT
    default_s = timing_checks.DEFAULT_MAX_POLL_INTERVAL_MS // 1000
    assert f"{default_s} s unless it is overridden" in TEXT
    assert f"at most {default_s // file_checks.REVOKE_SHARE} s together" in TEXT


def test_there_are_examples() -> None:
    assert len(YAML) == 4
    assert len(PYTHON) == 3


@pytest.mark.parametrize("example", YAML)
def test_an_example_is_a_pipeline_without_problems(example: str) -> None:
    pipeline = read(example)
    assert check(pipeline.definition, name=pipeline.name, facts=None, others=[], allowed=AllowedOptions()) == []


def test_the_example_of_steps_does_what_its_topics_say() -> None:
    definition = read(YAML[1]).definition
    assert isinstance(definition.transform, Steps)
    flights = [
        {"origin": "JFK", "arr_delay": 75},
        {"origin": "LGA", "arr_delay": 20},
        {"origin": "EWR", "arr_delay": -3},
        {"origin": "EWR", "arr_delay": None},
        {"origin": "SFO", "arr_delay": 99},
    ]
    processed = build(definition.transform, source=None, sink_topic=definition.sink_topic).process(
        json_messages(*flights)
    )
    assert processed.failures == []
    assert [output.topic for output in processed.outputs] == ["flights-very-late", "flights-late", None]
    assert processed.outputs[0].value == b'{"origin":"JFK","delay":{"arrival":75,"unit":"minutes"}}'


def test_the_example_in_python_keeps_late_flights() -> None:
    source = PYTHON[0]
    transform = PythonFunction(function="delayed", file_name="delayed.py", sha256=sha256_of(source))
    processed = PythonTransform(transform, source=source).process(
        json_messages({"id": 1, "arr_delay": 20}, {"id": 2, "arr_delay": None}, {"id": 3, "arr_delay": 2})
    )
    assert [output.value for output in processed.outputs] == [b'{"id":1,"delay":20}']


LONG = b" " * 1001


@pytest.mark.parametrize(
    ("source", "function", "expected"),
    [
        (PYTHON[1], "delayed", [(b'{"id":1,"delay":20.0}', None)]),
        (
            PYTHON[2],
            "routed",
            [(b'{"id":1,"arr_delay":20}', None), (b'{"id":2}', None), (LONG, "flights-large")],
        ),
    ],
)
def test_the_examples_over_arrow_batches(source: str, function: str, expected: list[tuple[bytes, str | None]]) -> None:
    """The last record is no JSON, which fails the first example's batch, and alone is bad."""
    definition = PythonFunction(function=function, scope=PythonScope.ARROW, file_name="f.py", sha256=sha256_of(source))
    values = (b'{"id":1,"arr_delay":20}', b'{"id":2}', LONG)
    messages = [a_message(value, offset=offset) for offset, value in enumerate(values)]
    processed = ArrowTransform(definition, source=source).process(messages)
    assert [(output.value, output.topic) for output in processed.outputs] == expected
    assert [failure.index for failure in processed.failures] == ([2] if function == "delayed" else [])


def test_the_headers_of_a_dead_letter_and_the_limits_are_as_written() -> None:
    letter = dead_letter(json_messages({})[0], ValueError("x"), topic="dead")
    added = [name for name, _ in letter.headers or [] if name.startswith(HEADER_PREFIX)]
    assert added
    assert all(f"`{name}`" in TEXT for name in added)
    assert f"({python_transforms.TIME_LIMIT_S:g} s)" in TEXT
    assert f"({python_transforms.MEMORY_LIMIT_MB // 1024} GiB)" in TEXT
