"""Refusals of a file sink, each at its form field with the fix; and warnings."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.cluster import ClusterFacts, TopicFacts
from app.core.pipelines.file_checks import MAX_COLUMNS, MAX_FILE_MB, MAX_MS, MIN_MS, REVOKE_SHARE
from app.core.pipelines.pipeline import (
    ByDate,
    ByField,
    ByHour,
    Condition,
    ErrorHandling,
    FailurePolicy,
    FileSink,
    GroupProtocol,
    OffsetFencing,
    PipelineDefinition,
    ProcessingGuarantee,
    Project,
    Rename,
    Route,
    SchemaConflict,
    SetField,
    SparkSettings,
    Step,
    StepOperator,
    Steps,
)
from app.core.pipelines.pipeline_checks import check
from app.kit.errors import Problem
from tests.support.definitions import a_definition

ROOT = "s3://flights/files"


def a_file_pipeline(*, files: dict[str, Any] | None = None, **changes: Any) -> PipelineDefinition:
    """A definition with files in which nothing is wrong, with changes."""
    given: dict[str, Any] = {"root": ROOT, **(files or {})}
    return a_definition(files=FileSink(**given), **changes)


def problems(definition: PipelineDefinition, facts: ClusterFacts | None = None) -> list[Problem]:
    return check(definition, name="p", facts=facts, others=[], allowed=AllowedOptions())


def refusal(**changes: Any) -> Problem:
    """The one problem that these changes make; it is no warning."""
    found = problems(a_file_pipeline(**changes))
    assert len(found) == 1, found
    assert not found[0].is_warning
    return found[0]


def warning(**changes: Any) -> Problem:
    found = problems(a_file_pipeline(**changes))
    assert len(found) == 1, found
    assert found[0].is_warning
    return found[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE},
        {"group_protocol": GroupProtocol.CONSUMER},
        {"errors": ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="dead")},
        {"files": {"root": "file:///data/files"}},
        {"files": {"id_field": "id", "verifies": True}},
        {"files": {"partition_by": (ByField(name="user", field="user.id"), ByDate(name="date"), ByHour(name="hour"))}},
        {"files": {"partition_by": (ByHour(name="h"),), "event_time": "at.ms"}},
    ],
)
def test_nothing_is_wrong_with_a_sound_file_pipeline(changes: dict[str, Any]) -> None:
    assert problems(a_file_pipeline(**changes)) == []


def test_files_need_transactions() -> None:
    problem = refusal(processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    assert problem.field == "processing_guarantee"
    assert "Use exactly_once_v2" in problem.message


def test_offsets_without_a_generation_are_refused_for_their_zombie() -> None:
    fencing = {"offset_fencing": OffsetFencing.GROUP_ONLY, "processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE}
    assert problems(a_definition(**fencing)) == []
    problem = refusal(**fencing)
    assert problem.field == "offset_fencing"
    assert "frozen" in problem.message
    assert "Files need generation" in problem.message


def test_a_route_is_refused_at_its_step() -> None:
    route = Route(field="a", operator=StepOperator.EXISTS, topic="other")
    steps = Steps(steps=(Condition(expression="record.a > 1"), route))
    assert problems(a_definition(transform=steps)) == []
    problem = refusal(transform=steps)
    assert problem.field == "transform.steps.1.op"
    assert "wait in memory" in problem.message


def test_a_root_that_cannot_be_written_to_is_refused() -> None:
    problem = refusal(files={"root": "gs://bucket"})
    assert problem.field == "files.root"
    assert "gcsfs" in problem.message


def test_an_administrator_says_which_roots_may_be_written_under() -> None:
    allowed = AllowedOptions(file_roots=frozenset({"s3://flights/*", "file:///data/*"}))

    def refused(root: str) -> list[str]:
        found = check(a_file_pipeline(files={"root": root}), name="p", facts=None, others=[], allowed=allowed)
        return [problem.message for problem in found]

    assert refused("s3://flights/files") == refused("file:///data/a/b") == []
    for root in ("s3://flights-of-others/files", "file:///etc", "s3://flights"):
        [message] = refused(root)
        assert message.startswith(f"`{root}` is not below an allowed root (file:///data/*, s3://fl")
        assert "FENCELINE_ALLOWED_FILE_ROOTS" in message


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"instances": 2}, "2 instances may run on the hosts of several servers"),
        ({"spark": SparkSettings(master="spark://w1.example.org:7077")}, "wherever `spark://w1.example.org:7077` has"),
    ],
)
def test_a_folder_that_each_host_would_have_for_itself_is_a_warning(changes: dict[str, Any], part: str) -> None:
    allowed = AllowedOptions(spark_masters=frozenset({"spark://*"}))
    definition = a_file_pipeline(files={"root": "file:///data"}, **changes)
    [problem] = check(definition, name="p", facts=None, others=[], allowed=allowed)
    assert (problem.field, problem.is_warning) == ("files.root", True)
    assert part in problem.message
    assert check(a_file_pipeline(**changes), name="p", facts=None, others=[], allowed=allowed) == []


def test_tasks_of_one_instance_on_this_machine_share_its_folders() -> None:
    for master in ("local", "local[4]", "spark://127.0.0.1:7077"):
        spark = SparkSettings(master=master)
        assert problems(a_file_pipeline(files={"root": "file:///data"}, tasks_per_instance=3, spark=spark)) == []


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "a=b", "ü", "1st", "a-b", "a.b", "..", "a%2F", "x" * 41, "a\n", "user?", "a&b"]
)
def test_a_column_that_cannot_stand_in_a_path_and_a_table_is_refused(name: str) -> None:
    columns = (ByDate(name="date"), ByField(name=name, field="f"))
    problem = refusal(files={"partition_by": columns})
    assert problem.field == "files.partition_by.1.name"


@pytest.mark.parametrize("name", ["user", "User", "_a", "x" * 40, "A1"])
def test_a_plain_name_is_a_column(name: str) -> None:
    assert problems(a_file_pipeline(files={"partition_by": (ByField(name=name, field="f"),)})) == []


@pytest.mark.parametrize("again", ["user", "USER"])
def test_a_column_that_is_there_twice_is_refused_where_it_comes_again(again: str) -> None:
    columns = (ByField(name="user", field="a"), ByDate(name="date"), ByField(name=again, field="b"))
    problem = refusal(files={"partition_by": columns})
    assert problem.field == "files.partition_by.2.name"
    assert f"`{again}` occurs twice" in problem.message


def test_the_number_of_columns_is_bounded() -> None:
    columns = tuple(ByField(name=f"c{number}", field="f") for number in range(MAX_COLUMNS + 1))
    assert refusal(files={"partition_by": columns}).field == "files.partition_by"
    assert problems(a_file_pipeline(files={"partition_by": columns[1:]})) == []


def test_no_file_can_get_a_key_that_is_too_long_for_s3() -> None:
    fields = (ByField(name=f"{n}".rjust(40, "c"), field="f") for n in range(4))
    columns = (*fields, ByDate(name="date"), ByHour(name="hour"))
    # prefix / name / 4 fields / date=2013-01-31 / hour=00 / 32 digits.avro
    rest = sum((1, 80, 4 * (1 + 40 + 1 + 100), 1 + 4 + 1 + 10, 1 + 4 + 1 + 2, 1 + 32 + 5))

    def found(root: str) -> list[Problem]:
        definition = a_file_pipeline(files={"root": root, "partition_by": columns})
        return check(definition, name="p" * 80, facts=None, others=[], allowed=AllowedOptions())

    assert found("s3://bucket/" + "a" * (1_024 - rest)) == []
    assert found("file:///" + "a" * (1_025 - rest)) == []
    [problem] = found("s3://bucket/" + "a" * (1_025 - rest))
    assert problem.field == "files.partition_by"
    assert "could have 1025 characters" in problem.message


@pytest.mark.parametrize(
    ("field", "files"),
    [
        ("files.partition_by.0.field", {"partition_by": (ByField(name="a", field="a..b"),)}),
        ("files.partition_by.0.field", {"partition_by": (ByField(name="a", field=""),)}),
        ("files.event_time", {"event_time": "a\\b", "partition_by": (ByDate(name="date"),)}),
        ("files.id_field", {"id_field": ".id"}),
    ],
)
def test_a_path_that_is_none_is_refused_at_its_field(field: str, files: dict[str, Any]) -> None:
    problem = refusal(files=files)
    assert problem.field == field
    assert problem.message.startswith("This is not the path of a field: ")


def test_an_event_time_that_no_column_takes_is_a_warning() -> None:
    problem = warning(files={"event_time": "at", "partition_by": (ByField(name="user", field="user"),)})
    assert problem.field == "files.event_time"


A_SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}


def test_a_given_schema_must_be_one_that_json_fits() -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "float"}]}
    found = refusal(files={"schema": schema})
    assert found.field == "files.schema"
    assert "use `double`" in found.message
    assert problems(a_file_pipeline(files={"schema": A_SCHEMA})) == []


def test_a_policy_for_conflicts_beside_a_given_schema_is_a_warning() -> None:
    problem = warning(files={"schema": A_SCHEMA, "conflict": SchemaConflict.BAD_RECORD})
    assert problem.field == "files.conflict"
    assert problems(a_file_pipeline(files={"conflict": SchemaConflict.BAD_RECORD})) == []


def test_verification_needs_the_id_field() -> None:
    assert refusal(files={"verifies": True}).field == "files.id_field"


USER = ByField(name="user", field="user.id")


@pytest.mark.parametrize(
    ("steps", "is_left"),
    [
        ((), True),
        ((Project(fields=("user.id", "a")),), True),
        ((Project(fields=("user",)),), True),
        ((Project(fields=("user.id.inner",)),), True),
        ((Project(fields=("a",)), SetField(field="user.id", value=1)), True),
        ((Project(fields=("a",)), Rename(field="a", to="user.id")), True),
        ((Project(fields=("user.id",)), Project(fields=("a",))), False),
        ((Project(fields=("a", "user.name")),), False),
        ((SetField(field="user.id", value=1), Project(fields=("a",))), False),
    ],
)
def test_a_column_of_a_field_that_the_steps_do_not_leave_is_a_warning(steps: tuple[Step, ...], is_left: bool) -> None:
    keep = Condition(expression="true")
    found = problems(a_file_pipeline(files={"partition_by": (USER,)}, transform=Steps(steps=(keep, *steps))))
    assert [problem.field for problem in found] == ([] if is_left else ["files.partition_by.0.field"])
    assert all(problem.is_warning for problem in found)


def test_step_that_does_not_parse_is_reported_once_and_alone() -> None:
    steps = Steps(steps=(Project(fields=("a..b",)),))
    assert refusal(files={"partition_by": (USER,)}, transform=steps).field == "transform.steps.0.fields.0"


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("rotate_ms", MIN_MS, MAX_MS), ("max_file_mb", 1, MAX_FILE_MB)],
)
def test_times_and_sizes_have_bounds(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert problems(a_file_pipeline(files={name: value})) == []
    for value in (least - 1, most + 1, -1, 0):
        problem = refusal(files={name: value})
        assert problem.field == f"files.{name}"
        assert f"between {least} and {most}" in problem.message
        assert f"not {value}" in problem.message


def test_an_upload_has_bounds_too() -> None:
    assert refusal(files={"upload_timeout_ms": MIN_MS - 1}).field == "files.upload_timeout_ms"
    patient = {"consumer_overrides": {"max.poll.interval.ms": "86400000"}}
    assert problems(a_file_pipeline(files={"upload_timeout_ms": MAX_MS}, **patient)) == []
    assert refusal(files={"upload_timeout_ms": MAX_MS + 1}, **patient).field == "files.upload_timeout_ms"


def test_uploads_and_commit_fit_into_a_third_of_the_poll_interval() -> None:
    assert problems(a_file_pipeline(files={"upload_timeout_ms": 90_000})) == []
    problem = refusal(files={"upload_timeout_ms": 90_001})
    assert problem.field == "files.upload_timeout_ms"
    assert "100000 of 300000 ms" in problem.message
    assert "upload_timeout_ms, 90001, and transaction_timeout_ms, 10000, are 100001 ms" in problem.message
    assert "Lower upload_timeout_ms to 90000 at most" in problem.message
    assert "max.poll.interval.ms to 300003 at least" in problem.message


@pytest.mark.parametrize("max_poll_ms", [9_000, 33_000, 300_003, 1_000_000])
def test_value_that_the_refusal_suggests_is_accepted(max_poll_ms: int) -> None:
    def with_upload(upload_ms: int, poll_ms: int) -> PipelineDefinition:
        files = {"upload_timeout_ms": upload_ms}
        overrides = {"max.poll.interval.ms": str(poll_ms)}
        return a_file_pipeline(files=files, consumer_overrides=overrides, session_timeout_ms=6_000)

    too_long = max(MIN_MS, max_poll_ms // REVOKE_SHARE - 10_000 + 1)
    [problem] = problems(with_upload(too_long, max_poll_ms))
    assert problem.field == "files.upload_timeout_ms"
    assert problems(with_upload(too_long, REVOKE_SHARE * (too_long + 10_000))) == []
    room_ms = max_poll_ms // REVOKE_SHARE - 10_000
    if room_ms >= MIN_MS:
        assert f"to {room_ms} at most" in problem.message
        assert problems(with_upload(room_ms, max_poll_ms)) == []
    else:
        assert "Lower transaction_timeout_ms" in problem.message


def test_rotation_may_be_longer_than_the_poll_interval_and_any_transaction() -> None:
    assert problems(a_file_pipeline(files={"rotate_ms": 3_600_000})) == []


@pytest.mark.parametrize("interval_ms", [5_001, 10_000, 400_000])
def test_a_commit_interval_beside_files_has_no_effect_and_no_other_fault(interval_ms: int) -> None:
    problem = warning(commit_interval_ms=interval_ms)
    assert problem.field == "commit_interval_ms"
    assert "every files.rotate_ms, 30000" in problem.message


def facts(**settings: Any) -> ClusterFacts:
    sound = TopicFacts(partitions=4, replication_factor=3, min_insync_replicas=2, retention_ms=604_800_000)
    references = TopicFacts(partitions=4, replication_factor=3, min_insync_replicas=2, **settings)
    return ClusterFacts(cluster_id="id", topics={"flights": sound, "delayed": references})


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"retention_ms": 604_800_000, "retention_bytes": -1, "deletes": True}, "(retention.ms=604800000)"),
        ({"retention_ms": -1, "retention_bytes": 5, "deletes": True}, "(retention.bytes=5)"),
        ({"retention_ms": 1, "retention_bytes": 5, "deletes": True}, "(retention.ms=1, retention.bytes=5)"),
    ],
)
def test_a_topic_that_loses_its_references_is_a_warning(settings: dict[str, Any], part: str) -> None:
    [problem] = problems(a_file_pipeline(), facts(**settings))
    assert (problem.field, problem.is_warning) == ("files", True)
    assert part in problem.message
    assert problems(a_definition(), facts(**settings)) == []


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"retention_ms": -1, "retention_bytes": -1, "deletes": True},
        {"retention_ms": 604_800_000, "retention_bytes": -1, "deletes": False},
    ],
)
def test_a_topic_that_keeps_its_references_or_does_not_say_is_none(settings: dict[str, Any]) -> None:
    assert problems(a_file_pipeline(), facts(**settings)) == []
