"""Pipeline files: read, written, read again; and their problems, with the line."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines import pipeline_file
from app.core.pipelines.definition import with_group
from app.core.pipelines.pipeline import (
    ByDate,
    ByField,
    FileSink,
    Filter,
    PipelineDefinition,
    Project,
    PythonFunction,
    StepOperator,
    Steps,
)
from app.core.pipelines.pipeline_checks import RESERVED_NAMES
from app.core.pipelines.pipeline_file import PipelineFile, PipelineFileError, read, write
from tests.support.definitions import a_definition, definitions

FLIGHTS = """\
# Arrivals that were at least a quarter of an hour late.
name: delayed-flights
cluster: demo
source_topics: [flights]
group_id: delayed-flights
sink_topic: delayed
instances: 2
transform:
  kind: steps
  steps:
    - {op: filter, field: arr_delay, operator: ge, value: 15}
    - op: project
      fields: [id, carrier]
consumer_overrides:
  fetch.min.bytes: 5
"""


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True).filter(lambda name: name not in RESERVED_NAMES)


def problems(text: str) -> dict[str, str]:
    with pytest.raises(PipelineFileError) as caught:
        read(text)
    assert caught.value.problems
    assert caught.value.message.startswith(caught.value.problems[0].message)
    return {problem.field: problem.message for problem in caught.value.problems}


def test_a_file_is_read() -> None:
    assert read(FLIGHTS) == PipelineFile(
        name="delayed-flights",
        definition=a_definition(
            instances=2,
            transform=Steps(
                steps=(
                    Filter(field="arr_delay", operator=StepOperator.GE, value=15),
                    Project(fields=("id", "carrier")),
                )
            ),
            consumer_overrides={"fetch.min.bytes": "5"},
        ),
    )


@given(names, definitions)
def test_written_file_is_read_as_the_same_pipeline(name: str, definition: PipelineDefinition) -> None:
    assert read(write(name, definition)) == PipelineFile(name=name, definition=with_group(definition, name=name))


@given(definitions)
def test_other_readers_of_yaml_take_a_written_file_for_the_same(definition: PipelineDefinition) -> None:
    assert yaml.safe_load(write("p", definition)) == json.loads(
        json.dumps({"name": "p", **msgspec.to_builtins(definition)})
    )


@given(definitions)
def test_json_is_read_flat_and_as_the_api_answers(definition: PipelineDefinition) -> None:
    fields = msgspec.to_builtins(definition)
    for data in ({"name": "p", **fields}, {"name": "p", "definition": fields}):
        assert read(json.dumps(data, indent=1)) == PipelineFile(name="p", definition=with_group(definition, name="p"))


def test_yaml_with_the_definition_apart_is_read_too() -> None:
    name, rest = FLIGHTS.split("\n", 2)[1:]
    nested = f"{name}\ndefinition:\n" + "".join(f"  {line}\n" for line in rest.splitlines())
    assert read(nested) == read(FLIGHTS)
    assert problems(nested.replace("instances: 2", "instances: two"))["instances"].startswith("line 7: ")


WITH_FILES = (
    FLIGHTS
    + """\
files:
  root: s3://flights/files
  partition_by:
    - {of: field, name: carrier, field: carrier}
    - {of: date, name: date}
  rotate_ms: 5000
"""
)


def test_a_file_says_where_files_go() -> None:
    files = FileSink(
        root="s3://flights/files",
        partition_by=(ByField(name="carrier", field="carrier"), ByDate(name="date")),
        rotate_ms=5_000,
    )
    found = read(WITH_FILES)
    assert found.definition == msgspec.structs.replace(read(FLIGHTS).definition, files=files)
    assert read(write(found.name, found.definition)) == found


def test_a_mistake_in_a_column_has_its_line() -> None:
    found = problems(WITH_FILES.replace("of: date", "of: day").replace("rotate_ms: 5000", "rotate_ms: soon"))
    assert found["files.partition_by.1.of"].startswith("line 20: `files.partition_by.1.of` must be `field`, `date`")
    assert found["files.rotate_ms"].startswith("line 21: ")


def test_a_byte_order_mark_does_no_harm() -> None:
    assert read("\ufeff" + FLIGHTS) == read(FLIGHTS)


def test_every_problem_is_reported_with_its_line() -> None:
    text = (
        FLIGHTS.replace("instances: 2", "instances: two")
        .replace("operator: ge", "operator: atleast")
        .replace("sink_topic", "sink_topik")
        .replace("fetch.min.bytes: 5", "fetch.min.bytes: [5]")
    )
    found = problems(text)
    assert found["sink_topik"] == "line 6: `sink_topik` is not a field of a pipeline; did you mean `sink_topic`?"
    assert found["sink_topic"] == "`sink_topic` is missing"
    assert found["instances"].startswith("line 7: `instances` must be a whole number")
    assert found["transform.steps.0.operator"].startswith("line 11: ")
    assert found["consumer_overrides.fetch.min.bytes"].startswith("line 15: ")


def test_missing_field_of_a_step_has_the_line_of_the_step() -> None:
    found = problems(FLIGHTS.replace("      fields: [id, carrier]\n", ""))
    assert found["transform.steps.1.fields"] == "line 12: `transform.steps.1.fields` is missing"


@pytest.mark.parametrize(
    ("line", "part"),
    [("", "`name` is missing"), ("name: 5", "`name` must be text"), ("name: a b", "1 to 80 letters")],
)
def test_a_file_needs_a_name_that_is_one(line: str, part: str) -> None:
    assert part in problems(FLIGHTS.replace("name: delayed-flights", line))["name"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["names and values"]),
        ("- a\n- b\n", ["names and values"]),
        ("just text", ["names and values"]),
        ("name: x\nname: y\n", ["line 2, column 1", "`name` occurs twice"]),
        ("name: x\nspark: {master: local, master: local}\n", ["line 2, column 24", "`master` occurs twice"]),
        ("name: [x\n", ["line 2", "expected ',' or ']'"]),
        ("name: x\n\tcluster: y\n", ["line 2"]),
        ("a: &anchor 1\nb: *anchor\n", ["line 2, column 4", "aliases are not read"]),
        ("name: !!python/object/apply:os.system [ls]\n", ["line 1, column 7", "tag", "is not read"]),
        ("name: !!set {a}\n", ["line 1", "is not read"]),
        ("name: !!int five\n", ["line 1", "`five` with the tag", "is not read"]),
        ("name: x\n---\nname: y\n", ["another document"]),
        ("? [a]\n: 1\n", ["line 1", "a name must be text"]),
        ("name: a\x00b\n", ["this is not YAML"]),
        ("[" * 5_000, ["nested too deeply"]),
        ("{", ["line 1, column 2", "this is not JSON"]),
        ('{"name": "x",\n "cluster": }', ["line 2, column 13", "this is not JSON"]),
        ('{"name": "x", "name": "y"}', ["`name` occurs twice in one object"]),
        ('{"name": NaN}', ["NaN is not a JSON value"]),
        ('{"a":' * 50_000, ["this is not JSON"]),
        ("x" * 1_000_001, ["more than 1000000 characters"]),
    ],
)
def test_invalid_pipeline_file_has_reason_and_place(text: str, parts: list[str]) -> None:
    message = problems(text)[""]
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("007", "007"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("'15'", "15"),
        ("15", 15),
        ("-1.5", -1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("[1, a]", [1, "a"]),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        ("!!str 5", "5"),
    ],
)
def test_yaml_means_what_json_can_say(written: str, value: Any) -> None:
    text = FLIGHTS.replace("operator: ge, value: 15}", "operator: eq, value: 15}").replace(
        "    - {op: filter, field: arr_delay, operator: eq, value: 15}",
        f"    - op: set\n      field: a\n      value: {written}",
    )
    transform = read(text).definition.transform
    assert isinstance(transform, Steps)
    assert json.dumps(msgspec.to_builtins(transform.steps[0])["value"]) == json.dumps(value)


def test_a_python_file_may_be_named_without_its_hash_when_it_is_at_hand() -> None:
    text = write("p", a_definition(transform=PythonFunction(function="f", file_name="a.py", sha256="0" * 64)))
    without = "".join(line for line in text.splitlines(keepends=True) if "sha256" not in line)
    assert "transform.sha256" in problems(without)

    pipeline = read(without, sha256_of=lambda file_name: f"hash of {file_name}")

    assert isinstance(pipeline.definition.transform, PythonFunction)
    assert pipeline.definition.transform.sha256 == "hash of a.py"
    # A hash that is written down stays: the file beside may be a later one.
    assert read(text, sha256_of=lambda _: "x") == read(text)


@pytest.mark.parametrize("file_name", ["../.ssh/id_ed25519", "/etc/passwd", "a/b.py", "..", "notes.txt"])
def test_no_pipeline_file_chooses_a_file_outside_its_folder(file_name: str) -> None:
    text = write("p", a_definition(transform=PythonFunction(function="f", file_name=file_name, sha256="0" * 64)))
    without = "".join(line for line in text.splitlines(keepends=True) if "sha256" not in line)
    asked: list[str] = []

    def sha256_of(name: str) -> str:
        asked.append(name)
        return "0" * 64

    for version in (text, without):
        with pytest.raises(PipelineFileError) as caught:
            read(version, sha256_of=sha256_of)
        assert "without a folder" in caught.value.problems[0].message
        assert caught.value.problems[0].field == "transform.file_name"
    assert asked == []


@given(st.text(max_size=40) | st.text(st.sampled_from("ab:-{}[],'\"\n #&*!|>%@`?0"), max_size=40))
def test_no_text_makes_reading_crash(text: str) -> None:
    with pytest.raises(PipelineFileError):
        read(text)


def test_a_large_object_is_read_in_one_go_through_its_names() -> None:
    """Counted in comparisons, not in seconds: a name that stands twice is found without comparing each with each."""

    class Name(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    pairs: list[tuple[str, object]] = [(Name(f"n{number}"), number) for number in range(5_000)]
    pairs.append((Name("n7"), 7))
    with pytest.raises(ValueError, match="`n7` occurs twice"):
        pipeline_file._unique(pairs)  # pyright: ignore[reportPrivateUsage]
    assert Name.compared < 10 * len(pairs)
