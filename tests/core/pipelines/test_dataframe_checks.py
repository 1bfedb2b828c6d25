"""Refusals of a query of DataFrames, each at its form field with the fix; and warnings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.cluster import ClusterFacts, TopicFacts
from app.core.pipelines.dataframe_checks import checkpoint_problem
from app.core.pipelines.pipeline import (
    DataframeQuery,
    ErrorHandling,
    FailurePolicy,
    FileSink,
    GroupProtocol,
    OutputMode,
    PipelineDefinition,
    ProcessingGuarantee,
    SparkSettings,
    Stream,
)
from app.core.pipelines.pipeline_checks import OtherPipeline, check
from app.kit.errors import Problem
from tests.support.definitions import a_definition

FLIGHTS = Stream(name="flights", topic="in", schema="carrier STRING, delay INT")
A_FILE = {"sql": None, "function": "f", "file_name": "q.py", "sha256": "0" * 64}


def a_query(**changes: Any) -> DataframeQuery:
    given: dict[str, Any] = {
        "streams": (FLIGHTS,),
        "checkpoint": "file:///data/checkpoints/p",
        "sql": "SELECT * FROM flights",
        "max_offsets_per_trigger": 1000,
        **changes,
    }
    return DataframeQuery(**given)


def a_query_pipeline(query: DataframeQuery | None = None, **changes: Any) -> PipelineDefinition:
    """A definition of kind `dataframe` in which nothing is wrong, with changes."""
    given: dict[str, Any] = {
        "source_topics": ("in",),
        "sink_topic": "out",
        "transaction_timeout_ms": 60_000,
        "transform": query or a_query(),
        **changes,
    }
    return a_definition(**given)


def problems(definition: PipelineDefinition, **given: Any) -> list[Problem]:
    known: dict[str, Any] = {"name": "p", "facts": None, "others": [], "allowed": AllowedOptions(), **given}
    return check(definition, **known)


def only(definition: PipelineDefinition, **given: Any) -> Problem:
    (found,) = problems(definition, **given)
    return found


def test_a_sound_query_has_no_problems() -> None:
    assert problems(a_query_pipeline()) == []
    allowed = AllowedOptions(python_transforms=True)
    assert problems(a_query_pipeline(a_query(**A_FILE)), allowed=allowed) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"instances": 2}, "instances"),
        ({"processing_guarantee": ProcessingGuarantee.AT_LEAST_ONCE}, "processing_guarantee"),
        ({"group_protocol": GroupProtocol.CONSUMER}, "group_protocol"),
        ({"errors": ErrorHandling(policy=FailurePolicy.SKIP)}, "errors.policy"),
        ({"errors": ErrorHandling(max_bad=5)}, "errors.max_bad"),
        ({"files": FileSink(root="s3://flights/files")}, "files"),
        ({"commit_interval_ms": 200}, "commit_interval_ms"),
        ({"consumer_overrides": {"fetch.min.bytes": "10"}}, "consumer_overrides"),
        ({"producer_overrides": {"linger.ms": "10"}}, "producer_overrides"),
        ({"transaction_timeout_ms": 10_000}, "transaction_timeout_ms"),
        ({"tasks_per_instance": 101}, "tasks_per_instance"),
        ({"source_topics": ("in", "other")}, "source_topics.1"),
    ],
)
def test_a_setting_that_a_query_does_not_have_is_refused(changes: dict[str, Any], field: str) -> None:
    refused = [problem.field for problem in problems(a_query_pipeline(**changes)) if not problem.is_warning]
    assert refused == [field]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"streams": ()}, "transform.streams"),
        ({"streams": (msgspec.structs.replace(FLIGHTS, name="my flights"),)}, "transform.streams.0.name"),
        ({"streams": (msgspec.structs.replace(FLIGHTS, topic="other"),)}, "transform.streams.0.topic"),
        ({"streams": (FLIGHTS, msgspec.structs.replace(FLIGHTS, name="b"))}, "transform.streams.1.topic"),
        ({"streams": (msgspec.structs.replace(FLIGHTS, schema=" "),)}, "transform.streams.0.schema"),
        ({"streams": (msgspec.structs.replace(FLIGHTS, watermark_ms=1),)}, "transform.streams.0.event_time"),
        ({"streams": (msgspec.structs.replace(FLIGHTS, event_time="at"),)}, "transform.streams.0.watermark_ms"),
        (
            {"streams": (msgspec.structs.replace(FLIGHTS, event_time="at", watermark_ms=-1),)},
            "transform.streams.0.watermark_ms",
        ),
        ({"sql": " "}, "transform.sql"),
        ({"sql": None}, "transform.sql"),
        ({**A_FILE, "sql": "SELECT 1"}, "transform.sql"),
        (A_FILE, "transform.function"),
        ({"checkpoint": ""}, "transform.checkpoint"),
        ({"trigger_ms": 99}, "transform.trigger_ms"),
        ({"max_offsets_per_trigger": 0}, "transform.max_offsets_per_trigger"),
        ({"shuffle_partitions": 10_001}, "transform.shuffle_partitions"),
        ({"executor_cores": 0}, "transform.executor_cores"),
    ],
)
def test_a_query_is_refused_at_its_field(changes: dict[str, Any], field: str) -> None:
    found = problems(a_query_pipeline(a_query(**changes)))
    assert field in [problem.field for problem in found if not problem.is_warning]


def test_streams_have_names_of_their_own_without_regard_to_case() -> None:
    streams = (FLIGHTS, msgspec.structs.replace(FLIGHTS, name="Flights", topic="more"))
    found = only(a_query_pipeline(a_query(streams=streams), source_topics=("in", "more")))
    assert found.field == "transform.streams.1.name"


@pytest.mark.parametrize(
    "location", ["file:///data/c", "s3a://bucket/c", "hdfs://host:9000/c", "hdfs:///c", "s3a://bucket"]
)
def test_a_checkpoint_may_be_in(location: str) -> None:
    assert checkpoint_problem(location) is None


@pytest.mark.parametrize(
    "location", ["", "/data/c", "s3://bucket/c", "file:///", "hdfs://host", "gs://b/c", "s3a://a:b@c/d"]
)
def test_a_checkpoint_cannot_be_in(location: str) -> None:
    assert checkpoint_problem(location) is not None


def test_a_checkpoint_is_below_an_allowed_root() -> None:
    allowed = AllowedOptions(file_roots=frozenset({"s3://flights/*"}))
    assert only(a_query_pipeline(), allowed=allowed).field == "transform.checkpoint"
    assert problems(a_query_pipeline(a_query(checkpoint="s3a://flights/c")), allowed=allowed) == []


def test_a_folder_of_one_host_is_a_warning_on_a_remote_master() -> None:
    allowed = AllowedOptions(spark_masters=frozenset({"spark://*"}))
    spark = SparkSettings(master="spark://far:7077")
    found = only(a_query_pipeline(spark=spark), allowed=allowed)
    assert (found.field, found.is_warning) == ("transform.checkpoint", True)


@pytest.mark.parametrize(
    "other", ["file:///data/checkpoints/p", "file:///data/checkpoints", "file:///data/checkpoints/p/q"]
)
def test_a_checkpoint_belongs_to_one_pipeline(other: str) -> None:
    beside = OtherPipeline(name="q", cluster="elsewhere", kafka_cluster_id=None, group_id="q", checkpoint=other)
    assert only(a_query_pipeline(), others=[beside]).field == "transform.checkpoint"


def test_each_writer_needs_a_partition_of_the_sink() -> None:
    facts = ClusterFacts(
        topics={name: TopicFacts(partitions=2, replication_factor=3, min_insync_replicas=2) for name in ("in", "out")}
    )
    found = problems(a_query_pipeline(tasks_per_instance=3), facts=facts)
    assert [problem.field for problem in found if not problem.is_warning] == ["tasks_per_instance"]
    (advice,) = problems(a_query_pipeline(tasks_per_instance=2), facts=facts)
    assert advice.is_warning
    assert "`key`" in advice.message


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"output_mode": OutputMode.COMPLETE}, "transform.output_mode"),
        ({"max_offsets_per_trigger": None}, "transform.max_offsets_per_trigger"),
    ],
)
def test_advice(changes: dict[str, Any], field: str) -> None:
    found = only(a_query_pipeline(a_query(**changes)))
    assert (found.field, found.is_warning) == (field, True)


def test_cores_beside_those_of_the_master_have_no_effect() -> None:
    found = only(a_query_pipeline(spark=SparkSettings(master="local[4]")))
    assert (found.field, found.is_warning) == ("transform.executor_cores", True)
