"""Canonical JSON, hashes, and differences in words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.definition import decode_definition
from app.core.pipelines.file_text import describe_columns
from app.core.pipelines.pipeline import (
    AvroCodec,
    ByDate,
    ByField,
    ByHour,
    Condition,
    ErrorHandling,
    FailurePolicy,
    FileSink,
    Filter,
    Identity,
    PipelineDefinition,
    ProcessingGuarantee,
    Project,
    PythonFunction,
    Rename,
    Route,
    SetField,
    SparkSettings,
    StepOperator,
    Steps,
)
from app.core.pipelines.revision import Change, canonical_json, definition_sha256, diff
from app.core.transforms.step_text import describe_step
from tests.support.definitions import a_definition, definitions


def only(before: PipelineDefinition, after: PipelineDefinition) -> Change:
    changes = diff(before, after)
    assert len(changes) == 1, changes
    return changes[0]


def change(**changes: Any) -> Change:
    return only(a_definition(), a_definition(**changes))


@given(definitions)
def test_canonical_json_is_the_definition_and_the_same_after_a_round_trip(definition: PipelineDefinition) -> None:
    text = canonical_json(definition)
    again = decode_definition(json.loads(text))
    assert isinstance(again, PipelineDefinition)
    assert again == definition
    assert canonical_json(again) == text


@given(definitions, definitions)
def test_the_hash_the_canonical_json_and_the_diff_agree(one: PipelineDefinition, other: PipelineDefinition) -> None:
    is_same = canonical_json(one) == canonical_json(other)
    assert (definition_sha256(one) == definition_sha256(other)) is is_same
    assert (diff(one, other) == []) is is_same
    assert diff(one, one) == []


@given(definitions, definitions)
def test_a_diff_and_its_reverse_name_the_same_fields_and_can_be_sent(
    one: PipelineDefinition, other: PipelineDefinition
) -> None:
    there, back = diff(one, other), diff(other, one)
    tops = {item.field.split(".")[0] for item in there}
    assert tops == {item.field.split(".")[0] for item in back}
    assert tops <= set(PipelineDefinition.__struct_fields__)
    assert all(item.sentence and msgspec.json.encode(item) for item in there)


def test_canonical_json_does_not_depend_on_the_order_in_which_things_were_written() -> None:
    one = a_definition(consumer_overrides={"a": "1", "b": "2"})
    other = a_definition(consumer_overrides={"b": "2", "a": "1"})
    assert canonical_json(one) == canonical_json(other)
    assert b" " not in canonical_json(one)
    assert json.loads(canonical_json(one))["commit_interval_ms"] == 100


def test_the_hash_is_sha_256_in_hex() -> None:
    assert len(definition_sha256(a_definition())) == 64
    assert definition_sha256(a_definition()) != definition_sha256(a_definition(commit_interval_ms=101))


def _set(value: object) -> PipelineDefinition:
    return a_definition(transform=Steps(steps=(SetField(field="a", value=value),)))


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False), ([1], [True])])
def test_values_that_python_holds_for_equal_are_a_difference(one: object, other: object) -> None:
    assert len(diff(_set(one), _set(other))) == 1
    assert definition_sha256(_set(one)) != definition_sha256(_set(other))


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"commit_interval_ms": 250}, "commit_interval_ms", "The commit interval changes from 100 ms to 250 ms."),
        ({"sink_topic": "x"}, "sink_topic", "The sink topic changes from delayed to x."),
        ({"instances": 3}, "instances", "The number of instances changes from 1 to 3."),
        ({"source_topics": ("flights", "a", "b")}, "source_topics", "The source adds a and b."),
        ({"source_topics": ("a",)}, "source_topics", "The source adds a and removes flights."),
        (
            {"errors": ErrorHandling(window_records=10)},
            "errors.window_records",
            "The window for bad records changes from 100000 records to 10 records.",
        ),
        (
            {"errors": ErrorHandling(dead_letter_topic="dead")},
            "errors.dead_letter_topic",
            "The dead letter topic is now dead.",
        ),
        (
            {"spark": SparkSettings(executor_memory_mb=1024)},
            "spark.executor_memory_mb",
            "The executor memory changes from 512 MB to 1024 MB.",
        ),
        (
            {"spark": SparkSettings(conf={"spark.log.level": "WARN"})},
            "spark.conf.spark.log.level",
            "The Spark conf key spark.log.level is set to WARN.",
        ),
        (
            {"producer_overrides": {"linger.ms": "5"}},
            "producer_overrides.linger.ms",
            "The producer option linger.ms is set to 5.",
        ),
        (
            {"transform": Steps(steps=())},
            "transform",
            "The transform changes from identity to steps.",
        ),
    ],
)
def test_each_change_is_a_sentence_at_its_field(changes: dict[str, Any], field: str, sentence: str) -> None:
    found = change(**changes)
    assert (found.field, found.sentence) == (field, sentence)


def test_a_change_has_the_values_before_and_after() -> None:
    found = change(errors=ErrorHandling(policy=FailurePolicy.SKIP))
    assert (found.before, found.after) == ("fail", "skip")


def test_removed_setting_is_reported_as_removed() -> None:
    before = a_definition(errors=ErrorHandling(dead_letter_topic="dead"), consumer_overrides={"fetch.min.bytes": "5"})
    sentences = [item.sentence for item in diff(before, a_definition())]
    assert sentences == [
        "The dead letter topic dead is removed.",
        "The consumer option fetch.min.bytes, which was 5, is not set any more.",
    ]


def test_topics_in_another_order_are_reported_as_such() -> None:
    found = only(a_definition(source_topics=("a", "b")), a_definition(source_topics=("b", "a")))
    assert found.sentence == "The order of the source topics changes."
    assert found.consequence is None


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"group_id": "other"}, "may be processed again"),
        ({"transactional_id_prefix": "fl2"}, "ends by its timeout"),
        ({"processing_guarantee": ProcessingGuarantee.AT_LEAST_ONCE}, "can duplicate records"),
        ({"source_topics": ("flights", "new")}, "begins at the start position"),
        ({"transform": Steps(steps=())}, "Records that are processed already stay as they are"),
    ],
)
def test_a_change_with_a_consequence_for_the_records_says_it(changes: dict[str, Any], part: str) -> None:
    consequence = change(**changes).consequence
    assert consequence is not None
    assert part in consequence


FILES = FileSink(root="s3://b/flights", partition_by=(ByField(name="user", field="user.id"), ByDate(name="date")))


def test_from_records_to_files_is_one_change_that_warns_the_readers_of_the_sink_topic() -> None:
    found = only(a_definition(), a_definition(files=FILES))
    assert found.field == "files"
    assert (found.before, found.after) == (None, msgspec.to_builtins(FILES))
    assert found.sentence == (
        "Outputs go into files under s3://b/flights, partitioned by user (user.id) and date, and references to them to "
        "the sink topic."
    )
    assert "its readers must distinguish them" in (found.consequence or "")
    back = only(a_definition(files=FILES), a_definition())
    assert back.sentence == "Outputs are records of the sink topic, and no files any more."
    assert back.consequence == found.consequence


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"root": "file:///d"}, "files.root", "The root of the files changes from s3://b/flights to file:///d."),
        ({"rotate_ms": 5_000}, "files.rotate_ms", "The time until files are rotated changes from 30000 ms to 5000 ms."),
        ({"max_file_mb": 1}, "files.max_file_mb", "The largest file changes from 128 MB to 1 MB."),
        ({"event_time": "at"}, "files.event_time", "The field of the event time is now at."),
        ({"codec": AvroCodec.NULL}, "files.codec", "The codec of the files changes from zstandard to null."),
        ({"schema": {"a": 1}}, "files.schema", "The schema is given, and no longer inferred from the records."),
        ({"verifies": True}, "files.verifies", "The files of each commit are read again and compared."),
        (
            {"partition_by": (ByDate(name="d"),)},
            "files.partition_by",
            "Files are partitioned by d (date), not by user (user.id) and date any more.",
        ),
        (
            {"partition_by": ()},
            "files.partition_by",
            "Files are partitioned by nothing, not by user (user.id) and date any more.",
        ),
    ],
)
def test_each_change_of_a_file_sink_is_a_sentence(changes: dict[str, Any], field: str, sentence: str) -> None:
    found = only(a_definition(files=FILES), a_definition(files=msgspec.structs.replace(FILES, **changes)))
    assert (found.field, found.sentence) == (field, sentence)


def test_another_or_removed_schema_is_reported() -> None:
    one, other = (a_definition(files=msgspec.structs.replace(FILES, schema={"a": n})) for n in (1, 2))
    assert only(one, other).sentence == "Another schema is given."
    assert (
        only(one, a_definition(files=FILES)).sentence == "The schema is inferred from the records, and no longer given."
    )


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ((), "nothing"),
        ((ByField(name="user", field="user"),), "user"),
        ((ByField(name="user", field="user"), ByHour(name="hour")), "user and hour"),
        (
            (ByField(name="u", field="user.id"), ByDate(name="day"), ByHour(name="hour")),
            "u (user.id), day (date) and hour",
        ),
    ],
)
def test_columns_in_words(columns: tuple[Any, ...], text: str) -> None:
    assert describe_columns(columns) == text


LATE = Filter(field="delay", operator=StepOperator.GE, value=15)
KEEP = Project(fields=("id", "delay"))


def test_a_step_put_in_front_does_not_make_the_others_look_changed() -> None:
    new = Condition(expression="has(record.delay)")
    found = only(
        a_definition(transform=Steps(steps=(LATE, KEEP))), a_definition(transform=Steps(steps=(new, LATE, KEEP)))
    )
    assert found.field == "transform.steps.0"
    assert found.before is None
    assert found.after == {"op": "condition", "expression": "has(record.delay)"}
    assert found.sentence == "Step 1 is new: keep if has(record.delay)."


def test_a_step_that_is_gone_and_one_that_changed() -> None:
    later = msgspec.structs.replace(LATE, value=30)
    found = diff(
        a_definition(transform=Steps(steps=(Rename(field="a", to="b"), LATE, KEEP))),
        a_definition(transform=Steps(steps=(later, KEEP))),
    )
    assert [item.sentence for item in found] == [
        "Step 1 was: rename a to b. It is now: keep if delay ≥ 30.",
        "The former step 2 is removed: keep if delay ≥ 15.",
    ]


def test_another_file_for_a_python_transform_is_identified_by_its_content() -> None:
    one = PythonFunction(function="f", file_name="a.py", sha256="1" * 64)
    other = msgspec.structs.replace(one, sha256="2" * 64)
    found = only(a_definition(transform=one), a_definition(transform=other))
    assert found.field == "transform.sha256"
    assert found.sentence.startswith("The content of the file changes from 1111")


def test_identity_to_identity_is_no_change() -> None:
    assert diff(a_definition(transform=Identity()), a_definition()) == []


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (LATE, "keep if delay ≥ 15"),
        (Filter(field="a", operator=StepOperator.IN, value=["x", 1]), 'keep if a in ["x",1]'),
        (Filter(field="a", operator=StepOperator.EXISTS), "keep if a exists"),
        (Filter(field="a", operator=StepOperator.MISSING), "keep if a is missing"),
        (Condition(expression="record.a\n  > 1"), "keep if record.a > 1"),
        (KEEP, "keep only id, delay"),
        (Rename(field="a", to="b"), "rename a to b"),
        (SetField(field="a", value={"b": None}), 'set a to {"b":null}'),
        (Route(field="a", operator=StepOperator.EQ, value="x", topic="t"), 'send to t if a = "x"'),
    ],
)
def test_a_step_in_words(step: Any, text: str) -> None:
    assert describe_step(step) == text


@given(st.sampled_from(StepOperator))
def test_every_operator_has_its_words(operator: StepOperator) -> None:
    assert describe_step(Filter(field="a", operator=operator, value=None)).startswith("keep if a ")
