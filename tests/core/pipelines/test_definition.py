"""Decoding definitions: all problems at once, each at its field, none of them a crash."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.definition import decode_definition
from app.core.pipelines.pipeline import ByDate, ByField, ByHour, FileSink, Identity, PipelineDefinition
from app.kit.errors import Problem
from tests.support.definitions import a_definition, definitions

SMALLEST: dict[str, Any] = {"cluster": "demo", "source_topics": ["flights"], "group_id": "g", "sink_topic": "s"}


def problems(data: object, *, strict: bool = True) -> dict[str, str]:
    result = decode_definition(data, strict=strict)
    assert isinstance(result, list), result
    assert not any(problem.is_warning for problem in result)
    return {problem.field: problem.message for problem in result}


def test_the_smallest_definition_has_the_defaults() -> None:
    assert decode_definition(SMALLEST) == a_definition(group_id="g", sink_topic="s")
    assert decode_definition({**SMALLEST, "transform": {"kind": "identity"}}) == a_definition(
        group_id="g", sink_topic="s", transform=Identity()
    )


@given(definitions)
def test_output_of_msgspec_is_read_as_the_same_definition(definition: PipelineDefinition) -> None:
    assert decode_definition(msgspec.to_builtins(definition)) == definition
    assert decode_definition(msgspec.json.decode(msgspec.json.encode(definition))) == definition


def test_every_field_with_a_problem_is_reported_at_once() -> None:
    found = problems(
        {
            "cluster": 1,
            "source_topics": ["a", 2],
            "sink_topc": "x",
            "group_protocol": "eager",
            "instances": "3",
            "errors": 7,
            "transform": {
                "kind": "steps",
                "steps": [
                    {"op": "filter", "field": "a", "operator": "is"},
                    {"op": "grep"},
                    {"field": 1},
                    {"op": "set", "field": "x"},
                    {"op": "project", "fields": "a"},
                ],
            },
            "spark": {"master": None, "conf": {"a": []}, "memory": 1},
            "consumer_overrides": ["fetch.min.bytes"],
        }
    )
    assert found == {
        "sink_topc": "`sink_topc` is not a field of a pipeline; did you mean `sink_topic`?",
        "cluster": "`cluster` must be text, not a number",
        "source_topics.1": "`source_topics.1` must be text, not a number",
        "sink_topic": "`sink_topic` is missing",
        "group_protocol": "`group_protocol` must be `classic` or `consumer`, not `eager`",
        "instances": "`instances` must be a whole number, not the text `3`",
        "errors": "`errors` must be an object, not a number",
        "transform.steps.0.operator": (
            "`transform.steps.0.operator` must be `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `in`, `exists` or `missing`, "
            "not `is`"
        ),
        "transform.steps.1.op": (
            "`transform.steps.1.op` must be `filter`, `condition`, `project`, `rename`, `set` or `route`, not `grep`"
        ),
        "transform.steps.2.op": (
            "`transform.steps.2.op` is missing: `filter`, `condition`, `project`, `rename`, `set` or `route`"
        ),
        "transform.steps.3.value": "`transform.steps.3.value` is missing",
        "transform.steps.4.fields": "`transform.steps.4.fields` must be a list, not text",
        "spark.memory": "`spark.memory` is not a field of a pipeline",
        "spark.master": "`spark.master` must be text, not null",
        "spark.conf.a": "`spark.conf.a` must be text or a number, not a list",
        "consumer_overrides": "`consumer_overrides` must be an object, not a list",
    }


@pytest.mark.parametrize("data", [None, 5, "text", [], [SMALLEST]])
def test_definition_that_is_not_an_object_is_refused(data: object) -> None:
    found = problems(data)
    assert list(found) == [""]
    assert found[""].startswith("The definition must be an object, not ")


def test_names_that_are_not_text_are_refused() -> None:
    assert "a name that is not text" in problems({**SMALLEST, 5: 1})[""]


def test_numbers_and_truth_values_among_options_become_text() -> None:
    decoded = decode_definition(
        {**SMALLEST, "consumer_overrides": {"fetch.min.bytes": 5, "check.crcs": True, "client.rack": "a"}}
    )
    assert isinstance(decoded, PipelineDefinition)
    assert decoded.consumer_overrides == {"fetch.min.bytes": "5", "check.crcs": "true", "client.rack": "a"}


FILES: dict[str, Any] = {"root": "file:///data"}


def test_a_definition_from_before_there_were_files_is_one_of_records() -> None:
    data = cast("dict[str, Any]", msgspec.to_builtins(a_definition(instances=3)))
    del data["files"]
    assert decode_definition(data) == a_definition(instances=3)
    # As the database and a specification have it.
    assert msgspec.convert(data, PipelineDefinition) == a_definition(instances=3)
    assert a_definition(instances=3).files is None


def test_a_sink_of_files_has_defaults_and_columns_of_three_kinds() -> None:
    columns = [{"of": "field", "name": "user", "field": "user.id"}, {"of": "date", "name": "d"}]
    decoded = decode_definition(
        {**SMALLEST, "files": {**FILES, "partition_by": [*columns, {"of": "hour", "name": "h"}]}}
    )
    files = FileSink(
        root="file:///data",
        partition_by=(ByField(name="user", field="user.id"), ByDate(name="d"), ByHour(name="h")),
    )
    assert decoded == a_definition(group_id="g", sink_topic="s", files=files)
    assert decode_definition({**SMALLEST, "files": None}) == a_definition(group_id="g", sink_topic="s")


def test_a_schema_stays_as_it_was_written() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": ["null", "long"], "default": None}],
        "n": 1,
    }
    decoded = decode_definition({**SMALLEST, "files": {**FILES, "schema": schema}})
    assert isinstance(decoded, PipelineDefinition)
    assert decoded.files is not None
    assert decoded.files.schema == schema


def test_every_problem_of_a_file_sink_is_reported_at_its_field() -> None:
    found = problems(
        {
            **SMALLEST,
            "files": {
                "partition_by": [{"of": "field", "name": "user"}, {"of": "day", "name": "d"}, {"name": "x"}, 5],
                "codec": "snappy",
                "rotate_ms": "soon",
                "schema": [],
                "verifies": 1,
                "rot": 1,
            },
        }
    )
    assert found == {
        "files.rot": "`files.rot` is not a field of a pipeline; did you mean `root`?",
        "files.root": "`files.root` is missing",
        "files.partition_by.0.field": "`files.partition_by.0.field` is missing",
        "files.partition_by.1.of": "`files.partition_by.1.of` must be `field`, `date` or `hour`, not `day`",
        "files.partition_by.2.of": "`files.partition_by.2.of` is missing: `field`, `date` or `hour`",
        "files.partition_by.3": "`files.partition_by.3` must be an object, not a number",
        "files.codec": "`files.codec` must be `zstandard`, `deflate` or `null`, not `snappy`",
        "files.rotate_ms": "`files.rotate_ms` must be a whole number, not the text `soon`",
        "files.schema": "`files.schema` must be an object, not a list",
        "files.verifies": "`files.verifies` must be `true` or `false`, not `1`",
    }


def test_a_schema_that_cannot_be_stored_is_refused() -> None:
    schema = {"doc": "a\x00b"}
    found = problems({**SMALLEST, "files": {**FILES, "schema": schema}})
    assert "a character that cannot be stored" in found["files.schema"]


def test_a_form_sends_its_numbers_as_text() -> None:
    decoded = decode_definition({**SMALLEST, "instances": " 3 ", "commit_interval_ms": "250"}, strict=False)
    assert decoded == a_definition(group_id="g", sink_topic="s", instances=3, commit_interval_ms=250)
    assert problems({**SMALLEST, "instances": ""}, strict=False) == {
        "instances": "`instances` must be a whole number, not the text ``"
    }
    assert "not the text `many`" in problems({**SMALLEST, "instances": "many"}, strict=False)["instances"]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (1.5, "must be a whole number, not `1.5`"),
        (True, "must be a whole number, not true or false"),
        (None, "must be a whole number, not null"),
        ([1], "must be a whole number, not a list"),
        (1 << 70, "must be a whole number"),
    ],
)
def test_a_number_that_is_not_whole_is_refused(value: object, part: str) -> None:
    assert part in problems({**SMALLEST, "instances": value})["instances"]


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert decode_definition({**SMALLEST, "instances": 2.0}) == a_definition(group_id="g", sink_topic="s", instances=2)


def _set(value: object) -> dict[str, Any]:
    return {**SMALLEST, "transform": {"kind": "steps", "steps": [{"op": "set", "field": "a", "value": value}]}}


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (float("nan"), "has the number nan, which JSON cannot write"),
        ({"a": [float("inf")]}, "has the number inf, which JSON cannot write"),
        ([1 << 63], "does not fit into 64 bits"),
        ("\x00", "a character that cannot be stored"),
        ("\ud800", "a character that cannot be stored"),
        ({"\ud800": 1}, "a character that cannot be stored"),
        ({1: 1}, "a name that is not text"),
        ({"when": object()}, "has a object, which JSON cannot write"),
        ("x" * 100_001, "has 100001 characters"),
    ],
)
def test_a_value_that_cannot_be_kept_as_json_is_refused(value: object, part: str) -> None:
    assert part in problems(_set(value))["transform.steps.0.value"]


def test_a_value_nested_for_ever_is_refused() -> None:
    value: object = 1
    for _ in range(1_000):
        value = [value]
    assert "nested more than 32 levels deep" in problems(_set(value))["transform.steps.0.value"]


@pytest.mark.parametrize("field", ["cluster", "group_id", "sink_topic", "transactional_id_prefix"])
@pytest.mark.parametrize("text", ["a\x00b", "\udfff"])
def test_text_that_no_database_stores_is_refused(field: str, text: str) -> None:
    assert "a character that cannot be stored" in problems({**SMALLEST, field: text})[field]
    assert "a character that cannot be stored" in problems({**SMALLEST, "spark": {"conf": {"k": text}}})["spark.conf.k"]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.just("steps")
    | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("transform", "kind", "steps", "op", "field", "value", "spark", "conf", "errors", "x"),
                    *("root", "partition_by", "of", "name", "schema"),
                ]
            )
            | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(anything, st.sampled_from(PipelineDefinition.__struct_fields__))
def test_no_data_makes_decoding_crash(data: object, field: str) -> None:
    for given_data in (data, {**SMALLEST, field: data}):
        result = decode_definition(given_data)
        if isinstance(result, list):
            assert result
            assert all(isinstance(problem, Problem) and problem.message for problem in result)
        else:
            msgspec.json.encode(result)
