"""Checks of a pipeline of kind `dataframe`: its streams, query, checkpoint and numbers. The plan is checked apart, by
Spark (app/core/transforms/dataframe_plan.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from app.core.allow_lists import spark_master
from app.core.allow_lists.options import AllowedOptions
from app.core.allow_lists.spark_master import SparkMasterError
from app.core.clusters.cluster import ClusterFacts
from app.core.pipelines import file_root
from app.core.pipelines.pipeline import (
    DataframeQuery,
    FailurePolicy,
    GroupProtocol,
    OffsetFencing,
    OutputMode,
    PipelineDefinition,
    ProcessingGuarantee,
    Stream,
)
from app.core.pipelines.uploaded_file_checks import check_uploaded_file
from app.kit.errors import Problem

MIN_TRANSACTION_MS = 60_000
"""A batch is one transaction of each writer."""
LARGEST_OFFSETS = 1 << 53

_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_HDFS = re.compile(r"hdfs://[A-Za-z0-9.-]*(?::[0-9]{1,5})?(?:/[A-Za-z0-9._=+-]+)+", re.ASCII)
_DEFAULTS = PipelineDefinition(cluster="", source_topics=(), group_id="", sink_topic="")


def check(definition: PipelineDefinition, *, facts: ClusterFacts | None, allowed: AllowedOptions) -> Iterator[Problem]:
    """Yield the problems of a query of DataFrames, each at its form field; none for a pipeline of another kind.

    facts: the cluster's own report; None leaves out the checks that need it.
    """
    query = definition.dataframe
    if query is None:
        return
    yield from _check_without_effect(definition)
    yield from _check_streams(query.streams, definition.source_topics)
    yield from _check_code(query, allowed)
    yield from _check_checkpoint(definition, query.checkpoint, allowed)
    yield from _check_bounds(definition, query)
    yield from _check_writers(definition, facts)
    yield from _check_cores(definition, query)
    if query.output_mode is OutputMode.COMPLETE:
        message = "complete writes all rows again in every batch. Use update for changed rows only"
        yield Problem(field="transform.output_mode", message=message, is_warning=True)


def _check_without_effect(definition: PipelineDefinition) -> Iterator[Problem]:
    """Refuse settings that a query does not have; the form does not show them."""
    errors = definition.errors
    for field, is_left, message in (
        ("instances", definition.instances == 1, "A query has one driver: instances is 1"),
        (
            "processing_guarantee",
            definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2,
            "A query has exactly_once_v2 only",
        ),
        ("offset_fencing", definition.offset_fencing is OffsetFencing.GENERATION, "A query has generation only"),
        (
            "group_protocol",
            definition.group_protocol is GroupProtocol.CLASSIC,
            "A query has classic only: its driver is a static member of the group",
        ),
        ("errors.policy", errors.policy is FailurePolicy.FAIL, "A query has fail only: Spark stops at a bad record"),
        ("files", definition.files is None, "A query writes records, not files. Use another kind of transform"),
        *(
            (field, getattr(of, name) == getattr(default, name), "It has no effect on a query. Leave it out")
            for field, name, of, default in (
                ("errors.max_bad", "max_bad", errors, _DEFAULTS.errors),
                ("errors.window_records", "window_records", errors, _DEFAULTS.errors),
                ("commit_interval_ms", "commit_interval_ms", definition, _DEFAULTS),
                ("consumer_overrides", "consumer_overrides", definition, _DEFAULTS),
                ("producer_overrides", "producer_overrides", definition, _DEFAULTS),
            )
        ),
    ):
        if not is_left:
            yield Problem(field=field, message=message)


def _check_streams(streams: Sequence[Stream], source_topics: Sequence[str]) -> Iterator[Problem]:
    if not streams:
        yield Problem(field="transform.streams", message="A query reads at least one stream")
    names: set[str] = set()
    topics: dict[str, str] = {}
    for index, stream in enumerate(streams):
        field = f"transform.streams.{index}"
        if not _VIEW.fullmatch(stream.name):
            message = (
                f"`{stream.name[:80]}` is not a name of a view: at most 64 ASCII letters, digits and `_`, "
                "first a letter or `_`"
            )
            yield Problem(field=f"{field}.name", message=message)
        elif stream.name.lower() in names:
            message = f"`{stream.name}` occurs twice; SQL does not distinguish upper and lower case"
            yield Problem(field=f"{field}.name", message=message)
        names.add(stream.name.lower())
        if stream.topic in topics:
            message = (
                f"`{stream.topic}` is read by the stream `{topics[stream.topic]}`. Use that one twice in the query"
            )
            yield Problem(field=f"{field}.topic", message=message)
        elif stream.topic not in source_topics:
            message = f"`{stream.topic}` is not a source topic. Add it to source_topics"
            yield Problem(field=f"{field}.topic", message=message)
        topics.setdefault(stream.topic, stream.name)
        if not stream.schema.strip():
            message = "A stream needs the schema of its values, such as `carrier STRING, delay INT`"
            yield Problem(field=f"{field}.schema", message=message)
        yield from _check_watermark(stream, field)
    for index, topic in enumerate(source_topics):
        if topic not in topics:
            yield Problem(field=f"source_topics.{index}", message=f"No stream reads `{topic}`")


def _check_watermark(stream: Stream, field: str) -> Iterator[Problem]:
    if stream.event_time is not None and not stream.event_time.strip():
        yield Problem(field=f"{field}.event_time", message="Name a timestamp column, or leave it out")
    if stream.event_time is None and stream.watermark_ms is not None:
        yield Problem(field=f"{field}.event_time", message="A watermark needs the timestamp column of the event time")
    if stream.event_time is not None and stream.watermark_ms is None:
        message = "An event time needs the longest delay of a row, 0 for rows in order"
        yield Problem(field=f"{field}.watermark_ms", message=message)
    if stream.watermark_ms is not None and stream.watermark_ms < 0:
        message = f"The delay is 0 ms or more, not {stream.watermark_ms}"
        yield Problem(field=f"{field}.watermark_ms", message=message)


def _check_code(query: DataframeQuery, allowed: AllowedOptions) -> Iterator[Problem]:
    is_file = query.function is not None or query.file_name is not None or query.sha256 is not None
    if query.sql is not None and is_file:
        message = "A query is SQL or a function of an uploaded file. Leave one of them out"
        yield Problem(field="transform.sql", message=message)
    elif is_file:
        yield from check_uploaded_file(
            function=query.function or "",
            file_name=query.file_name or "",
            sha256=query.sha256 or "",
            allowed=allowed,
            permission_at="transform.function",
        )
    elif query.sql is None or not query.sql.strip():
        yield Problem(field="transform.sql", message="Write a query over the streams, such as SELECT … FROM flights")


def _check_checkpoint(definition: PipelineDefinition, location: str, allowed: AllowedOptions) -> Iterator[Problem]:
    patterns = allowed.file_roots
    if (message := checkpoint_problem(location)) is not None:
        yield Problem(field="transform.checkpoint", message=message)
    elif patterns and not any(fnmatchcase(root, pattern) for pattern in patterns for root in _spellings(location)):
        message = (
            f"`{location}` is not below an allowed root ({', '.join(sorted(patterns))}); an "
            "administrator allows it by adding it to FENCELINE_ALLOWED_FILE_ROOTS"
        )
        yield Problem(field="transform.checkpoint", message=message)
    elif file_root.is_local(location) and _is_remote(definition.spark.master):
        message = (
            f"Executors of `{definition.spark.master}` keep the state in this folder of their hosts. "
            "Use `s3a://` or `hdfs://`, or a folder that all hosts share"
        )
        yield Problem(field="transform.checkpoint", message=message, is_warning=True)


def checkpoint_problem(location: str) -> str | None:
    """Return why Spark cannot keep a checkpoint there; None if it can. Its existence is not checked."""
    if not location:
        return "A query needs a folder for its checkpoint, such as `file:///data/checkpoints/delays`"
    if location.startswith("s3://"):
        return "Spark's name for this is `s3a://`"
    if location.startswith("hdfs://"):
        return None if _HDFS.fullmatch(location) else "Write a folder such as `hdfs://host:9000/checkpoints/delays`"
    if location.startswith(("file://", "s3a://")):
        return file_root.problem(_spellings(location)[-1])
    return "The checkpoint is a folder below `file:///`, `s3a://` or `hdfs://`"


def _spellings(location: str) -> tuple[str, ...]:
    """Return the names of a place: Spark's, and that of file sinks, as in FENCELINE_ALLOWED_FILE_ROOTS."""
    bucket = location.removeprefix("s3a://")
    return (location,) if bucket == location else (location, f"s3://{bucket}")


def _is_remote(master: str) -> bool:
    try:
        return not all(host.is_loopback for host in spark_master.parse(master).hosts)
    except SparkMasterError:
        return False  # a problem of the options' check


def _check_bounds(definition: PipelineDefinition, query: DataframeQuery) -> Iterator[Problem]:
    for name, value, least, most, unit in (
        ("trigger_ms", query.trigger_ms, 100, 3_600_000, " milliseconds"),
        ("max_offsets_per_trigger", query.max_offsets_per_trigger, 1, LARGEST_OFFSETS, ""),
        ("shuffle_partitions", query.shuffle_partitions, 1, 10_000, ""),
        ("executor_cores", query.executor_cores, 1, 100, ""),
    ):
        if value is not None and not least <= value <= most:
            message = f"{name} must be between {least} and {most}{unit}, not {value}"
            yield Problem(field=f"transform.{name}", message=message)
    if query.max_offsets_per_trigger is None:
        message = (
            "The first batch reads all records of the source topics, and its transaction may exceed its timeout. "
            "Bound it"
        )
        yield Problem(field="transform.max_offsets_per_trigger", message=message, is_warning=True)
    if definition.transaction_timeout_ms < MIN_TRANSACTION_MS:
        message = (
            f"A batch is one transaction: transaction_timeout_ms is {MIN_TRANSACTION_MS} or more, "
            f"not {definition.transaction_timeout_ms}"
        )
        yield Problem(field="transaction_timeout_ms", message=message)


def _check_writers(definition: PipelineDefinition, facts: ClusterFacts | None) -> Iterator[Problem]:
    writers = definition.tasks_per_instance
    topic = None if facts is None else facts.topics.get(definition.sink_topic)
    if topic is not None and writers > topic.partitions:
        message = (
            f"Each writer has a partition of the sink topic for its marker; `{definition.sink_topic}` has "
            f"{topic.partitions}. Use at most as many writers"
        )
        yield Problem(field="tasks_per_instance", message=message)
    if writers > 1:
        message = (
            f"Each of the {writers} writers commits its share of a batch alone. Rows are divided by `key`, without it "
            "by the whole row; a repeated batch must have the same keys"
        )
        yield Problem(field="tasks_per_instance", message=message, is_warning=True)


def _check_cores(definition: PipelineDefinition, query: DataframeQuery) -> Iterator[Problem]:
    try:
        slots = spark_master.parse(definition.spark.master).slots
    except SparkMasterError:
        return  # a problem of the options' check
    if slots is not None and slots != query.executor_cores:
        message = (
            f"`{definition.spark.master}` has {slots} cores; executor_cores, {query.executor_cores}, has no effect"
        )
        yield Problem(field="transform.executor_cores", message=message, is_warning=True)
