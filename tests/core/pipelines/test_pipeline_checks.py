"""Refusals of a definition, alone and beside other pipelines; each names the value and the fix."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.cluster import ClusterFacts, TopicFacts
from app.core.pipelines.pipeline import (
    Condition,
    ErrorHandling,
    FailurePolicy,
    GroupProtocol,
    Identity,
    OffsetFencing,
    PipelineDefinition,
    ProcessingGuarantee,
    PythonFunction,
    Route,
    SparkSettings,
    StepOperator,
    Steps,
    Transform,
)
from app.core.pipelines.pipeline_checks import MAX_TASKS, OtherPipeline, check
from app.kit.errors import Problem
from tests.support.definitions import a_definition, definitions

NOTHING_MORE = AllowedOptions()
SHA = "ab" * 32


def problems(
    definition: PipelineDefinition,
    *,
    name: str = "delayed-flights",
    facts: ClusterFacts | None = None,
    others: list[OtherPipeline] | None = None,
    allowed: AllowedOptions = NOTHING_MORE,
) -> list[Problem]:
    return check(definition, name=name, facts=facts, others=others or [], allowed=allowed)


def only(found: list[Problem]) -> Problem:
    assert len(found) == 1, found
    return found[0]


def refusal(**changes: Any) -> Problem:
    """The one problem that these changes make; it is no warning."""
    problem = only(problems(a_definition(**changes)))
    assert not problem.is_warning
    return problem


def test_nothing_is_wrong_with_a_sound_definition() -> None:
    assert problems(a_definition()) == []


@given(definitions)
def test_no_definition_makes_the_checks_crash(definition: PipelineDefinition) -> None:
    facts = ClusterFacts(cluster_id="id", broker_version=(4, 3), transaction_max_timeout_ms=900_000)
    other = OtherPipeline(name="other", cluster=definition.cluster, kafka_cluster_id="id", group_id=definition.group_id)
    found = problems(definition, facts=facts, others=[other])
    assert all(problem.message and problem.field for problem in found)
    assert any(problem.field == "group_id" for problem in found)


@pytest.mark.parametrize("name", ["a", "Flights_2", "0-0", "x" * 80])
def test_names_of_letters_digits_dash_and_underscore_are_fine(name: str) -> None:
    assert problems(a_definition(), name=name) == []


@pytest.mark.parametrize("name", ["", "-a", "a.b", "a b", "a/b", "ü", "x" * 81, "a\n", "_a"])
def test_another_name_is_refused(name: str) -> None:
    problem = only(problems(a_definition(), name=name))
    assert problem.field == "name"
    assert "1 to 80 letters, digits" in problem.message


@pytest.mark.parametrize("name", ["new", "stream", "validate"])
def test_reserved_words_of_addresses_are_refused_as_names(name: str) -> None:
    assert f"`{name}` is used by Fenceline's own addresses" in only(problems(a_definition(), name=name)).message


def test_a_pipeline_needs_a_cluster() -> None:
    assert refusal(cluster="").field == "cluster"


@pytest.mark.parametrize("group", ["", "g" * 250, "a\nb", " a", "a\t", "\x7f"])
def test_a_group_id_that_is_none_is_refused(group: str) -> None:
    problem = refusal(group_id=group)
    assert problem.field == "group_id"
    assert "1 to 249 characters" in problem.message


@pytest.mark.parametrize("prefix", ["", ".fl", "f l", "x" * 61, "fl%"])
def test_a_prefix_that_is_none_is_refused(prefix: str) -> None:
    assert refusal(transactional_id_prefix=prefix).field == "transactional_id_prefix"


BAD_TOPICS = ["a b", "ü", "x" * 250, ".", "..", "^flights.*", "a\n"]


@pytest.mark.parametrize("topic", BAD_TOPICS)
def test_a_topic_that_kafka_would_not_accept_is_refused_wherever_it_stands(topic: str) -> None:
    assert "is not a topic's name" in refusal(sink_topic=topic).message
    assert refusal(source_topics=("flights", topic)).field == "source_topics.1"
    dead_letter = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=topic)
    assert refusal(errors=dead_letter).field == "errors.dead_letter_topic"
    assert refusal(transform=route(topic)).field == "transform.steps.0.topic"


def route(topic: str) -> Steps:
    return Steps(steps=(Route(field="a", operator=StepOperator.EXISTS, topic=topic),))


def test_no_source_and_no_sink_are_refused() -> None:
    assert refusal(source_topics=()).message == "A pipeline reads at least one topic"
    assert refusal(sink_topic="").message == "A topic needs a name"


def test_a_source_that_is_named_twice_is_refused() -> None:
    problem = refusal(source_topics=("flights", "weather", "flights"))
    assert (problem.field, problem.message) == ("source_topics.2", "`flights` is named twice")


def test_kafkas_own_topics_are_neither_read_nor_written() -> None:
    assert "an internal topic; a pipeline cannot read it" in refusal(source_topics=("__consumer_offsets",)).message
    assert "an internal topic; a pipeline cannot write to it" in refusal(sink_topic="__transaction_state").message


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("sink_topic", {"sink_topic": "flights"}),
        ("transform.steps.0.topic", {"transform": route("flights")}),
        (
            "errors.dead_letter_topic",
            {"errors": ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="flights")},
        ),
    ],
)
def test_writing_to_a_source_is_refused_at_the_field_that_does_it(field: str, changes: dict[str, Any]) -> None:
    problem = refusal(**changes)
    assert problem.field == field
    assert "`flights` is a source of this pipeline" in problem.message
    assert "Write to another" in problem.message


def test_dead_letters_do_not_go_to_the_sink() -> None:
    problem = refusal(errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="delayed"))
    assert problem.field == "errors.dead_letter_topic"
    assert "its readers would take dead letters for results" in problem.message


def test_the_policy_dead_letter_needs_its_topic() -> None:
    problem = refusal(errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER))
    assert problem.field == "errors.dead_letter_topic"
    assert "needs a dead-letter topic" in problem.message


@pytest.mark.parametrize("policy", [FailurePolicy.FAIL, FailurePolicy.SKIP])
def test_a_dead_letter_topic_without_its_policy_is_a_warning(policy: FailurePolicy) -> None:
    problem = only(problems(a_definition(errors=ErrorHandling(policy=policy, dead_letter_topic="dead"))))
    assert problem.is_warning
    assert f"the policy is {policy}" in problem.message


@pytest.mark.parametrize(
    ("max_bad", "window", "fields"),
    [
        (-1, 100, ["errors.max_bad"]),
        (101, 100, ["errors.max_bad"]),
        (1, 0, ["errors.window_records"]),
        (5, 0, ["errors.window_records", "errors.max_bad"]),
    ],
)
def test_the_limit_of_bad_records_fits_its_window(max_bad: int, window: int, fields: list[str]) -> None:
    found = problems(a_definition(errors=ErrorHandling(max_bad=max_bad, window_records=window)))
    assert [problem.field for problem in found] == fields


@pytest.mark.parametrize("fencing", list(OffsetFencing))
def test_exactly_once_has_both_kinds_of_fencing(fencing: OffsetFencing) -> None:
    assert problems(a_definition(processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE, offset_fencing=fencing)) == []


def test_group_only_is_refused_in_a_group_of_kip_848() -> None:
    problem = refusal(
        processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE,
        offset_fencing=OffsetFencing.GROUP_ONLY,
        group_protocol=GroupProtocol.CONSUMER,
    )
    assert problem.field == "offset_fencing"
    assert "use generation, or group_protocol classic" in problem.message


def test_ids_of_partitions_that_another_pipeline_has_are_reported() -> None:
    definition = a_definition(processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE)
    taken = "fl.p.delayed-flights.flights.1"
    owner = OtherPipeline(
        name="other", cluster="demo", kafka_cluster_id="k1", group_id="g", transactional_ids=frozenset({taken})
    )
    facts = ClusterFacts(
        cluster_id="k1",
        topics={name: TopicFacts(partitions=2, replication_factor=1) for name in ("flights", "delayed")},
    )
    problem = only([one for one in problems(definition, facts=facts, others=[owner]) if not one.is_warning])
    assert problem.field == "transactional_id_prefix"
    assert taken in problem.message


@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE])
def test_group_only_is_refused_where_it_does_not_protect(guarantee: ProcessingGuarantee) -> None:
    problem = refusal(processing_guarantee=guarantee, offset_fencing=OffsetFencing.GROUP_ONLY)
    assert problem.field == "offset_fencing"
    assert "use generation" in problem.message


def test_mistakes_in_steps_are_among_the_problems() -> None:
    assert refusal(transform=Steps(steps=(Condition(expression="recrd.a"),))).field == "transform.steps.0.expression"
    assert "There are no steps" in refusal(transform=Steps(steps=())).message


def python(**changes: str) -> PythonFunction:
    fields: dict[str, Any] = {"function": "transform", "file_name": "flights.py", "sha256": SHA, **changes}
    return PythonFunction(**fields)


def test_python_transforms_are_refused_until_an_administrator_allows_them() -> None:
    problem = refusal(transform=python())
    assert problem.field == "transform.kind"
    assert "FENCELINE_PYTHON_TRANSFORMS=true" in problem.message
    allowed = AllowedOptions(python_transforms=True)
    assert problems(a_definition(transform=python()), allowed=allowed) == []


@pytest.mark.parametrize(
    ("changes", "field", "part"),
    [
        ({"function": "not a name"}, "transform.function", "is not a function's name"),
        ({"function": ""}, "transform.function", "is not a function's name"),
        ({"file_name": "../flights.py"}, "transform.file_name", "without a folder"),
        ({"file_name": "flights.txt"}, "transform.file_name", "is not a Python file's name"),
        ({"file_name": "-c.py"}, "transform.file_name", "is not a Python file's name"),
        ({"sha256": "AB" * 32}, "transform.sha256", "is not a SHA-256"),
        ({"sha256": "ab"}, "transform.sha256", "is not a SHA-256"),
    ],
)
def test_a_python_transform_names_a_function_a_file_and_its_hash(
    changes: dict[str, str], field: str, part: str
) -> None:
    definition = a_definition(transform=python(**changes))
    problem = only(problems(definition, allowed=AllowedOptions(python_transforms=True)))
    assert problem.field == field
    assert part in problem.message


@pytest.mark.parametrize(
    ("changes", "field", "part"),
    [
        ({"instances": 0}, "instances", "1 to 100 instances, not 0"),
        ({"instances": 101}, "instances", "1 to 100 instances, not 101"),
        ({"tasks_per_instance": 0}, "tasks_per_instance", "1 to 100 tasks, not 0"),
        ({"tasks_per_instance": -5}, "tasks_per_instance", "1 to 100 tasks, not -5"),
        ({"instances": 50, "tasks_per_instance": 50}, "instances", f"are 2500 tasks; at most {MAX_TASKS}"),
        ({"spark": SparkSettings(executor_memory_mb=449)}, "spark.executor_memory_mb", "450 to 1048576 MB"),
    ],
)
def test_the_shape_has_bounds(changes: dict[str, Any], field: str, part: str) -> None:
    problem = refusal(**changes)
    assert problem.field == field
    assert part in problem.message


def test_a_local_master_with_too_few_slots_is_a_warning_that_counts_them() -> None:
    definition = a_definition(tasks_per_instance=4, spark=SparkSettings(master="local[3]"))
    problem = only(problems(definition))
    assert problem.is_warning
    assert problem.field == "spark.master"
    assert "cores for 3 of the 4 tasks" in problem.message
    assert problems(a_definition(tasks_per_instance=4, spark=SparkSettings(master="local[4]"))) == []
    assert problems(a_definition(tasks_per_instance=4)) == []


def test_options_that_are_not_listed_are_among_the_problems_unless_the_settings_allow_them() -> None:
    definition = a_definition(
        consumer_overrides={"debug": "all"},
        producer_overrides={"debug": "all"},
        spark=SparkSettings(master="spark://far.example.org:7077", conf={"spark.plugins": "x"}),
    )
    assert {problem.field for problem in problems(definition)} == {
        "consumer_overrides.debug",
        "producer_overrides.debug",
        "spark.master",
        "spark.conf.spark.plugins",
    }
    allowed = AllowedOptions(
        consumer=frozenset({"debug"}),
        producer=frozenset({"debug"}),
        spark_conf=frozenset({"spark.plugins"}),
        spark_masters=frozenset({"spark://*.example.org:7077"}),
    )
    assert problems(definition, allowed=allowed) == []


def other(**changes: Any) -> OtherPipeline:
    fields: dict[str, Any] = {
        "name": "older",
        "cluster": "demo",
        "kafka_cluster_id": "id-1",
        "group_id": "its-own",
        **changes,
    }
    return OtherPipeline(**fields)


def test_a_group_of_another_pipeline_on_the_cluster_is_refused_by_its_name() -> None:
    problem = only(problems(a_definition(), others=[other(group_id="delayed-flights")]))
    assert problem.field == "group_id"
    assert "The group `delayed-flights` belongs to the pipeline `older`" in problem.message
    assert "Choose another group" in problem.message


def test_two_entries_of_the_same_kafka_cluster_are_one_cluster() -> None:
    same = other(cluster="alias", group_id="delayed-flights")
    assert problems(a_definition(), others=[same]) == []
    assert only(problems(a_definition(), others=[same], facts=facts())).field == "group_id"


def facts() -> ClusterFacts:
    sound = TopicFacts(partitions=4, replication_factor=3, min_insync_replicas=2)
    return ClusterFacts(cluster_id="id-1", topics={"flights": sound, "delayed": sound})


def test_the_same_group_on_another_cluster_is_another_group() -> None:
    elsewhere = other(cluster="elsewhere", kafka_cluster_id="id-2", group_id="delayed-flights")
    assert problems(a_definition(), others=[elsewhere], facts=facts()) == []


def test_a_pipeline_is_not_in_its_own_way() -> None:
    itself = other(
        name="delayed-flights",
        group_id="delayed-flights",
        transactional_ids=frozenset({"fl.t.delayed-flights.0.0"}),
    )
    assert problems(a_definition(), others=[itself]) == []


def test_an_id_that_another_pipeline_owns_is_refused_with_both_names() -> None:
    owner = other(transactional_ids=frozenset({"fl.t.delayed-flights.0.0", "fl.t.delayed-flights.1.0", "fl.t.x.0.0"}))
    problem = only(problems(a_definition(instances=2), others=[owner]))
    assert problem.field == "transactional_id_prefix"
    assert "`fl.t.delayed-flights.0.0` (and 1 more) belongs to the pipeline `older`" in problem.message
    assert problems(a_definition(transactional_id_prefix="fl2"), others=[owner]) == []
    at_least_once = a_definition(processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    assert problems(at_least_once, others=[owner]) == []


def test_all_problems_come_at_once() -> None:
    transform: Transform = python()
    found = problems(
        a_definition(
            sink_topic="flights",
            group_id="",
            offset_fencing=OffsetFencing.GROUP_ONLY,
            commit_interval_ms=20_000,
            instances=0,
            transform=transform,
            consumer_overrides={"isolation.level": "read_uncommitted"},
        ),
        name="",
    )
    assert {problem.field for problem in found} >= {
        "name",
        "group_id",
        "sink_topic",
        "offset_fencing",
        "commit_interval_ms",
        "instances",
        "transform.kind",
        "consumer_overrides.isolation.level",
    }


def test_identity_needs_nothing() -> None:
    assert problems(a_definition(transform=Identity())) == []
