"""Checks of a definition: alone, on its cluster, and beside the other pipelines. All problems at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from app.core.allow_lists import options, spark_master
from app.core.allow_lists.options import AllowedOptions
from app.core.allow_lists.spark_master import SparkMasterError
from app.core.clusters import cluster_checks
from app.core.clusters.cluster import ClusterFacts
from app.core.ids.transactional_id import for_partition, for_task
from app.core.pipelines import dataframe_checks, file_checks, timing_checks
from app.core.pipelines.pipeline import (
    FailurePolicy,
    GroupProtocol,
    OffsetFencing,
    PipelineDefinition,
    ProcessingGuarantee,
    PythonFunction,
    Route,
    Steps,
)
from app.core.pipelines.uploaded_file_checks import check_uploaded_file
from app.core.transforms.steps import compile_steps
from app.kit.errors import Problem

MAX_INSTANCES = 100
MAX_TASKS_PER_INSTANCE = 100
MAX_TASKS = 1_000
MAX_NAME_LENGTH = 80
MIN_EXECUTOR_MEMORY_MB = 450
"""Spark refuses to start an executor with less."""
RESERVED_NAMES = frozenset({"new", "stream", "validate"})
"""Names that the addresses of pages and API use in place of a pipeline's name."""

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


class OtherPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of another pipeline that a check needs.

    kafka_cluster_id: the id that the brokers of its cluster report, None if it is not known.
    transactional_ids: the ids that it owns.
    checkpoint: location of the checkpoint of its query, if it has one.
    """

    name: str
    cluster: str
    kafka_cluster_id: str | None
    group_id: str
    transactional_ids: frozenset[str] = frozenset()
    checkpoint: str | None = None


def check(
    definition: PipelineDefinition,
    *,
    name: str,
    facts: ClusterFacts | None,
    others: Sequence[OtherPipeline],
    allowed: AllowedOptions,
) -> list[Problem]:
    """Return all problems and (marked as warnings) advice, each at its form field; the pipeline's name is `name`.

    facts: the cluster's own report; None leaves out the checks that need it.
    others: the pipelines besides this one, on any cluster.
    """
    problems: list[Problem] = []
    problems += _check_names(definition, name)
    problems += _check_topics(definition)
    problems += _check_guarantee(definition)
    problems += timing_checks.check(definition)
    problems += file_checks.check(definition, name=name, facts=facts, allowed=allowed)
    problems += dataframe_checks.check(definition, facts=facts, allowed=allowed)
    problems += _check_errors(definition)
    problems += _check_transform(definition, allowed)
    problems += _check_shape(definition)
    problems += _check_options(definition, allowed)
    problems += _check_others(definition, name, facts, others)
    if facts is not None:
        problems += cluster_checks.check(definition, facts, outputs=outputs_of(definition))
    return problems


def name_problem(name: str) -> str | None:
    """Return why a pipeline cannot have this name; None if it can."""
    if name in RESERVED_NAMES:
        return f"`{name}` is used by Fenceline's own addresses; choose another name"
    if not _NAME.fullmatch(name):
        return (
            f"A pipeline's name has 1 to {MAX_NAME_LENGTH} letters, digits, `-` and `_`, "
            f"and begins with a letter or digit; `{name[:MAX_NAME_LENGTH]}` does not"
        )
    return None


def topic_problem(topic: str) -> str | None:
    """Return why Kafka does not accept this topic name; None if it does."""
    if not topic:
        return "A topic needs a name"
    if topic in (".", "..") or not _TOPIC.fullmatch(topic):
        return f"`{topic[:80]}` is not a topic's name: at most 249 letters, digits, `.`, `_` and `-`"
    return None


def _check_names(definition: PipelineDefinition, name: str) -> Iterator[Problem]:
    if (message := name_problem(name)) is not None:
        yield Problem(field="name", message=message)
    if not definition.cluster:
        yield Problem(field="cluster", message="A pipeline needs a cluster")
    group = definition.group_id
    if not group or len(group) > 249 or group != group.strip() or _UNPRINTABLE.search(group):
        message = "A group id has 1 to 249 characters, none of them a line break, and no blanks around it"
        yield Problem(field="group_id", message=message)
    if not _PREFIX.fullmatch(definition.transactional_id_prefix):
        message = "The prefix has 1 to 60 letters, digits, `.`, `_` and `-`, and begins with a letter or digit"
        yield Problem(field="transactional_id_prefix", message=message)


def outputs_of(definition: PipelineDefinition) -> dict[str, str]:
    """Return every topic that the definition writes to, by its field; user code may name more."""
    fields = {"sink_topic": definition.sink_topic}
    if isinstance(definition.transform, Steps):
        fields |= {
            f"transform.steps.{index}.topic": step.topic
            for index, step in enumerate(definition.transform.steps)
            if isinstance(step, Route)
        }
    if definition.errors.policy is FailurePolicy.DEAD_LETTER and definition.errors.dead_letter_topic is not None:
        fields["errors.dead_letter_topic"] = definition.errors.dead_letter_topic
    return fields


def _check_topics(definition: PipelineDefinition) -> Iterator[Problem]:
    sources = definition.source_topics
    if not sources:
        yield Problem(field="source_topics", message="A pipeline reads at least one topic")
    for index, topic in enumerate(sources):
        field = f"source_topics.{index}"
        if (message := topic_problem(topic)) is not None:
            yield Problem(field=field, message=message)
        elif topic in _INTERNAL_TOPICS:
            yield Problem(field=field, message=f"`{topic}` is an internal topic; a pipeline cannot read it")
        elif topic in sources[:index]:
            yield Problem(field=field, message=f"`{topic}` is named twice")
    for field, topic in outputs_of(definition).items():
        if (message := topic_problem(topic)) is not None:
            yield Problem(field=field, message=message)
        elif topic in _INTERNAL_TOPICS:
            yield Problem(field=field, message=f"`{topic}` is an internal topic; a pipeline cannot write to it")
        elif topic in sources:
            message = f"`{topic}` is a source of this pipeline; it would read its own output for ever. Write to another"
            yield Problem(field=field, message=message)
    if definition.errors.dead_letter_topic == definition.sink_topic:
        message = f"`{definition.sink_topic}` is the sink: its readers would take dead letters for results"
        yield Problem(field="errors.dead_letter_topic", message=message)


def _check_guarantee(definition: PipelineDefinition) -> Iterator[Problem]:
    if definition.offset_fencing is not OffsetFencing.GROUP_ONLY:
        return
    if definition.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE:
        message = (
            f"group_only lets a task that has lost its partitions commit offsets for them, so it cannot be used "
            f"with {definition.processing_guarantee}; use generation"
        )
        yield Problem(field="offset_fencing", message=message)
    elif definition.group_protocol is GroupProtocol.CONSUMER:
        message = (
            "Only clients before KIP-447 send group_only, and those have classic groups only; "
            "use generation, or group_protocol classic"
        )
        yield Problem(field="offset_fencing", message=message)


def _check_errors(definition: PipelineDefinition) -> Iterator[Problem]:
    errors = definition.errors
    is_dead_letter = errors.policy is FailurePolicy.DEAD_LETTER
    if is_dead_letter and not errors.dead_letter_topic:
        message = "The policy dead_letter needs a dead-letter topic"
        yield Problem(field="errors.dead_letter_topic", message=message)
    if not is_dead_letter and errors.dead_letter_topic:
        message = f"Nothing is written to `{errors.dead_letter_topic}`: the policy is {errors.policy}"
        yield Problem(field="errors.dead_letter_topic", message=message, is_warning=True)
    if errors.window_records < 1:
        yield Problem(field="errors.window_records", message="The window has at least 1 record")
    if not 0 <= errors.max_bad <= max(errors.window_records, 1):
        message = f"max_bad must be between 0 and the window of {errors.window_records} records, not {errors.max_bad}"
        yield Problem(field="errors.max_bad", message=message)


def _check_transform(definition: PipelineDefinition, allowed: AllowedOptions) -> Iterator[Problem]:
    match definition.transform:
        case Steps(steps=steps):
            if not steps:
                message = "There are no steps; add one, or choose identity to pass records unchanged"
                yield Problem(field="transform.steps", message=message)
            compiled = compile_steps(steps)
            if isinstance(compiled, list):
                yield from compiled
        case PythonFunction() as python:
            yield from check_uploaded_file(
                function=python.function,
                file_name=python.file_name,
                sha256=python.sha256,
                allowed=allowed,
                permission_at="transform.kind",
            )
        case _:
            pass


def _check_shape(definition: PipelineDefinition) -> Iterator[Problem]:
    instances, tasks = definition.instances, definition.tasks_per_instance
    is_query = definition.dataframe is not None
    if not is_query and not 1 <= instances <= MAX_INSTANCES:
        message = f"A pipeline has 1 to {MAX_INSTANCES} instances, not {instances}"
        yield Problem(field="instances", message=message)
    if not 1 <= tasks <= MAX_TASKS_PER_INSTANCE:
        noun = "A query has 1 to {} writers" if is_query else "An instance has 1 to {} tasks"
        message = f"{noun.format(MAX_TASKS_PER_INSTANCE)}, not {tasks}"
        yield Problem(field="tasks_per_instance", message=message)
    if _has_bounded_shape(definition) and instances * tasks > MAX_TASKS:
        message = f"{instances} instances of {tasks} tasks are {instances * tasks} tasks; at most {MAX_TASKS} are run"
        yield Problem(field="instances", message=message)
    memory = definition.spark.executor_memory_mb
    if not MIN_EXECUTOR_MEMORY_MB <= memory <= 1_048_576:
        message = f"An executor has {MIN_EXECUTOR_MEMORY_MB} to 1048576 MB of memory, not {memory}; Spark needs as much"
        yield Problem(field="spark.executor_memory_mb", message=message)
    if not is_query:
        yield from _check_slots(definition)


def _check_slots(definition: PipelineDefinition) -> Iterator[Problem]:
    try:
        slots = spark_master.parse(definition.spark.master).slots
    except SparkMasterError:
        return  # a problem of the options' check
    if slots is not None and slots < definition.tasks_per_instance:
        waiting = definition.tasks_per_instance - slots
        message = (
            f"`{definition.spark.master}` has cores for {slots} of the {definition.tasks_per_instance} tasks of an "
            f"instance; {waiting} would wait for ever. Write `local` for one core a task"
        )
        yield Problem(field="spark.master", message=message, is_warning=True)


def _has_bounded_shape(definition: PipelineDefinition) -> bool:
    return 1 <= definition.instances <= MAX_INSTANCES and 1 <= definition.tasks_per_instance <= MAX_TASKS_PER_INSTANCE


def _check_options(definition: PipelineDefinition, allowed: AllowedOptions) -> Iterable[Problem]:
    spark = definition.spark
    return [
        *options.check_spark_master(spark.master, also_allowed=allowed.spark_masters),
        *options.check_spark_conf(spark.conf, also_allowed=allowed.spark_conf),
        *options.check_consumer_overrides(definition.consumer_overrides, also_allowed=allowed.consumer),
        *options.check_producer_overrides(definition.producer_overrides, also_allowed=allowed.producer),
    ]


def _check_others(
    definition: PipelineDefinition, name: str, facts: ClusterFacts | None, others: Sequence[OtherPipeline]
) -> Iterator[Problem]:
    cluster_id = None if facts is None else facts.cluster_id
    on_same_cluster = [
        other
        for other in others
        if other.name != name
        and (other.cluster == definition.cluster or (cluster_id is not None and other.kafka_cluster_id == cluster_id))
    ]
    for other in on_same_cluster:
        if other.group_id == definition.group_id:
            message = (
                f"The group `{definition.group_id}` belongs to the pipeline `{other.name}`; "
                "two pipelines in one group would each get a part of the records. Choose another group"
            )
            yield Problem(field="group_id", message=message)
    query = definition.dataframe
    for other in others:
        if query is not None and other.name != name and _are_nested(query.checkpoint, other.checkpoint):
            message = (
                f"The checkpoint of the pipeline `{other.name}` is `{other.checkpoint}`. Choose a folder beside it"
            )
            yield Problem(field="transform.checkpoint", message=message)
    ids = _transactional_ids(definition, name, facts)
    for other in on_same_cluster:
        if taken := sorted(ids & other.transactional_ids):
            message = (
                f"The transactional id `{taken[0]}`{_and_more(taken)} belongs to the pipeline `{other.name}`; "
                "each would fence the other. Choose another prefix"
            )
            yield Problem(field="transactional_id_prefix", message=message)


def _transactional_ids(definition: PipelineDefinition, name: str, facts: ClusterFacts | None) -> frozenset[str]:
    """Return the ids that the definition's tasks or partitions would use.

    None if its shape is out of bounds, it needs none, or the number of partitions is unknown.
    """
    if definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE:
        topics = {} if facts is None else facts.topics
        return frozenset(
            for_partition(
                prefix=definition.transactional_id_prefix, group=definition.group_id, topic=topic, partition=number
            )
            for topic in definition.source_topics
            if topic in topics
            for number in range(topics[topic].partitions)
        )
    if definition.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE_V2 or not _has_bounded_shape(definition):
        return frozenset()
    return frozenset(
        for_task(prefix=definition.transactional_id_prefix, pipeline=name, instance=instance, task=task)
        for instance in range(definition.instances)
        for task in range(definition.tasks_per_instance)
    )


def _are_nested(one: str, other: str | None) -> bool:
    return other is not None and (f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/"))


def _and_more(items: Collection[str]) -> str:
    return f" (and {len(items) - 1} more)" if len(items) > 1 else ""
