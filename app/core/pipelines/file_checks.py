"""Checks of a file sink: guarantee, root, columns, fields and times.

The group bounds all durations. On a revoke the loop uploads and commits inside the callback, within a third of
`max.poll.interval.ms`; so upload_timeout_ms and transaction_timeout_ms together may take no longer. Rotation does not
count: the task polls while it fills files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from app.core.allow_lists import spark_master
from app.core.allow_lists.options import AllowedOptions
from app.core.allow_lists.spark_master import SparkMasterError
from app.core.avro_schemas import given
from app.core.clusters.cluster import ClusterFacts, TopicFacts
from app.core.pipelines import file_partitions, file_root
from app.core.pipelines.pipeline import (
    ByDate,
    ByField,
    ByHour,
    FileSink,
    OffsetFencing,
    PipelineDefinition,
    ProcessingGuarantee,
    Project,
    Rename,
    Route,
    SchemaConflict,
    SetField,
    Step,
    Steps,
)
from app.core.pipelines.timing_checks import max_poll_interval_ms
from app.core.transforms import field_path
from app.core.transforms.field_path import FieldPathError
from app.kit.errors import Problem

MAX_COLUMNS = 6
MAX_FILE_MB = 4_096
MAX_MS = 3_600_000
MIN_MS = 1_000
REVOKE_SHARE = 3
"""A revoke callback may use one part in this many of max.poll.interval.ms."""

_FILE_NAME_LENGTH = len("0123456789abcdef0123456789abcdef.avro")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)


def check(
    definition: PipelineDefinition, *, name: str, facts: ClusterFacts | None, allowed: AllowedOptions
) -> Iterator[Problem]:
    """Yield the problems of a pipeline that writes files, each at its form field; none for one that writes records.

    facts: the cluster's own report; None leaves out the checks that need it.
    """
    files = definition.files
    if files is None or definition.dataframe is not None:
        return  # a query is refused files altogether
    yield from _check_guarantee(definition)
    yield from _check_routes(definition)
    yield from _check_root(definition, files, allowed)
    yield from _check_columns(files.partition_by)
    yield from _check_key_length(files, name)
    yield from _check_fields(definition, files)
    yield from _check_schema(files)
    yield from _check_bounds(files)
    yield from _check_revoke(definition, files)
    if facts is not None and (topic := facts.topics.get(definition.sink_topic)) is not None:
        yield from _check_retention(definition.sink_topic, topic)


def _check_guarantee(definition: PipelineDefinition) -> Iterator[Problem]:
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        message = (
            "Files need transactions: a reference and the offsets of its file's records are committed together, or "
            "readers would find records in two files. Use exactly_once_v2"
        )
        yield Problem(field="processing_guarantee", message=message)
    elif (
        definition.offset_fencing is OffsetFencing.GROUP_ONLY
        and definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    ):
        message = (
            "With group_only a task that was frozen may still commit after it lost its partitions: it could publish "
            "references to files that were collected as orphans meanwhile. Files need generation"
        )
        yield Problem(field="offset_fencing", message=message)


def _check_routes(definition: PipelineDefinition) -> Iterator[Problem]:
    """Only steps are checked: the topics of a Python function are known when it runs."""
    if not isinstance(definition.transform, Steps):
        return
    for index, step in enumerate(definition.transform.steps):
        if isinstance(step, Route):
            message = (
                "With files a step cannot send records to another topic: they would wait in memory until the files of "
                "their checkpoint are uploaded. Leave it out, or define another pipeline for it"
            )
            yield Problem(field=f"transform.steps.{index}.op", message=message)


def _check_root(definition: PipelineDefinition, files: FileSink, allowed: AllowedOptions) -> Iterator[Problem]:
    patterns = allowed.file_roots
    if (message := file_root.problem(files.root)) is not None:
        yield Problem(field="files.root", message=message)
    elif patterns and not any(fnmatchcase(files.root, pattern) for pattern in patterns):
        message = (
            f"`{files.root}` is not below an allowed root ({', '.join(sorted(patterns))}); an "
            "administrator allows it by adding it to FENCELINE_ALLOWED_FILE_ROOTS"
        )
        yield Problem(field="files.root", message=message)
    elif file_root.is_local(files.root) and (where := _spread(definition)) is not None:
        message = (
            f"{where}: each host writes to its own folder of this name, unless all of them share it. "
            "Use `s3://`, or mount it on every host and where files are read"
        )
        yield Problem(field="files.root", message=message, is_warning=True)


def _spread(definition: PipelineDefinition) -> str | None:
    """Return why tasks are on several hosts; None if they are not."""
    try:
        master = spark_master.parse(definition.spark.master)
    except SparkMasterError:
        return None  # a problem of the options' check
    if not all(host.is_loopback for host in master.hosts):
        return f"Tasks run wherever `{definition.spark.master}` has executors"
    if definition.instances > 1:
        return f"{definition.instances} instances may run on the hosts of several servers"
    return None


def _check_columns(columns: Sequence[ByField | ByDate | ByHour]) -> Iterator[Problem]:
    if len(columns) > MAX_COLUMNS:
        message = f"{len(columns)} columns are too many; at most {MAX_COLUMNS} fit into the path of a file"
        yield Problem(field="files.partition_by", message=message)
    seen: set[str] = set()
    for index, column in enumerate(columns):
        field = f"files.partition_by.{index}.name"
        if not column.name:
            yield Problem(field=field, message="A column needs a name")
        elif not _COLUMN.fullmatch(column.name):
            message = (
                f"`{column.name[:80]}` cannot be a column: its name is in paths and tables, so it has 1 to 40 ASCII "
                "letters, digits and `_`, and does not begin with a digit"
            )
            yield Problem(field=field, message=message)
        elif column.name.lower() in seen:
            message = f"`{column.name}` occurs twice; readers such as Spark do not distinguish upper and lower case"
            yield Problem(field=field, message=message)
        seen.add(column.name.lower())


def _check_key_length(files: FileSink, name: str) -> Iterator[Problem]:
    prefix = file_root.key_prefix(files.root)
    if prefix is None or file_root.problem(files.root) is not None:
        return
    values = {ByField: file_partitions.MAX_PART_LENGTH, ByDate: len("2013-01-31"), ByHour: len("00")}
    parts = [
        *([len(prefix)] if prefix else []),
        len(name),
        *(len(column.name) + 1 + values[type(column)] for column in files.partition_by),
        _FILE_NAME_LENGTH,
    ]
    longest = sum(parts) + len(parts) - 1
    if longest > file_root.MAX_KEY_LENGTH:
        message = (
            f"A file's key in the bucket could have {longest} characters with these columns, and S3 accepts "
            f"{file_root.MAX_KEY_LENGTH}: use a shorter prefix, shorter names or fewer columns"
        )
        yield Problem(field="files.partition_by", message=message)


def _check_fields(definition: PipelineDefinition, files: FileSink) -> Iterator[Problem]:
    named = {
        f"files.partition_by.{index}.field": column.field
        for index, column in enumerate(files.partition_by)
        if isinstance(column, ByField)
    }
    if files.event_time is not None:
        named["files.event_time"] = files.event_time
    if files.id_field is not None:
        named["files.id_field"] = files.id_field
    elif files.verifies:
        message = "The verification of files needs the field with the id of a record"
        yield Problem(field="files.id_field", message=message)
    left = _left_by(definition.transform.steps) if isinstance(definition.transform, Steps) else None
    for field, path in named.items():
        try:
            names = field_path.parse(path)
        except FieldPathError as error:
            yield Problem(field=field, message=f"This is not the path of a field: {error}")
            continue
        if left is not None and not any(_overlap(names, kept) for kept in left):
            message = f"The steps leave no field `{path}`; a `project` step must keep it"
            yield Problem(field=field, message=message, is_warning=True)
    has_time = any(isinstance(column, ByDate | ByHour) for column in files.partition_by)
    if files.event_time is not None and not has_time:
        message = "The event time has no effect: no column is a date or an hour"
        yield Problem(field="files.event_time", message=message, is_warning=True)


def _left_by(steps: Sequence[Step]) -> list[tuple[str, ...]] | None:
    """Return the fields that may exist after the steps; None: any."""
    left: list[tuple[str, ...]] | None = None
    for step in steps:
        try:
            match step:
                case Project(fields=fields):
                    left = [field_path.parse(field) for field in fields]
                case Rename(to=added) | SetField(field=added) if left is not None:
                    left.append(field_path.parse(added))
                case _:
                    pass
        except FieldPathError:
            return None  # a problem of the steps' check
    return left


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return field_path.is_inside(one, other) or field_path.is_inside(other, one)


def _check_schema(files: FileSink) -> Iterator[Problem]:
    for message in [] if files.schema is None else given.problems(files.schema):
        yield Problem(field="files.schema", message=message)
    if files.schema is not None and files.conflict is not SchemaConflict.UNION:
        message = f"{files.conflict} has no effect: with a given schema every record must fit it"
        yield Problem(field="files.conflict", message=message, is_warning=True)


def _check_bounds(files: FileSink) -> Iterator[Problem]:
    for name, value, least, most, unit in (
        ("rotate_ms", files.rotate_ms, MIN_MS, MAX_MS, "milliseconds"),
        ("upload_timeout_ms", files.upload_timeout_ms, MIN_MS, MAX_MS, "milliseconds"),
        ("max_file_mb", files.max_file_mb, 1, MAX_FILE_MB, "MB"),
    ):
        if not least <= value <= most:
            message = f"{name} must be between {least} and {most} {unit}, not {value}"
            yield Problem(field=f"files.{name}", message=message)


def _check_revoke(definition: PipelineDefinition, files: FileSink) -> Iterator[Problem]:
    upload_ms, transaction_ms = files.upload_timeout_ms, definition.transaction_timeout_ms
    max_poll_ms = max_poll_interval_ms(definition)
    share_ms = int(max_poll_ms // REVOKE_SHARE)
    if upload_ms + transaction_ms <= share_ms:
        return
    room_ms = share_ms - transaction_ms
    lower = (
        f"Lower upload_timeout_ms to {room_ms} at most"
        if room_ms >= MIN_MS
        else f"Lower transaction_timeout_ms so that {MIN_MS} ms and more are left for uploads"
    )
    message = (
        f"When partitions are revoked their files are uploaded and committed within a third of max.poll.interval.ms: "
        f"{share_ms} of {max_poll_ms:.0f} ms. upload_timeout_ms, {upload_ms}, and "
        f"transaction_timeout_ms, {transaction_ms}, are {upload_ms + transaction_ms} ms. {lower}, or set the consumer "
        f"option max.poll.interval.ms to {REVOKE_SHARE * (upload_ms + transaction_ms)} at least"
    )
    yield Problem(field="files.upload_timeout_ms", message=message)


def _check_retention(name: str, topic: TopicFacts) -> Iterator[Problem]:
    """A file can only be found by its reference. Compaction removes none: each has its own key."""
    limits = [
        *([f"retention.ms={topic.retention_ms}"] if topic.retention_ms not in (None, -1) else []),
        *([f"retention.bytes={topic.retention_bytes}"] if topic.retention_bytes not in (None, -1) else []),
    ]
    if limits and topic.deletes is not False:
        message = (
            f"The sink topic `{name}` loses references after a while ({', '.join(limits)}): later readers do not "
            "find their files, which stay in the store. Set retention.ms and retention.bytes to -1, or "
            "cleanup.policy=compact, or keep references as long as files are to be read"
        )
        yield Problem(field="files", message=message, is_warning=True)
