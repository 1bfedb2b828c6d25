"""The identity of revisions, and the differences of two definitions as sentences."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import msgspec

from app.core.pipelines.file_text import Column, describe_columns
from app.core.pipelines.pipeline import FileSink, PipelineDefinition, Step, Steps, Stream, Transform
from app.core.transforms.step_text import describe_step


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two definitions.

    field: the path as in the form and the API.
    before, after: JSON values; None for a value that did not exist or does not exist any more.
    sentence: the change in words.
    consequence: the effect on records that are in the topics already, if it is not obvious.
    """

    field: str
    before: Any
    after: Any
    sentence: str
    consequence: str | None = None


def canonical_json(definition: PipelineDefinition) -> bytes:
    """Return one text for equal definitions: names sorted, no blanks, defaults written out."""
    return msgspec.json.encode(definition, order="sorted")


def definition_sha256(definition: PipelineDefinition) -> str:
    """Return the hash of the canonical JSON, in lower-case hex.

    A release that adds a field to definitions gives another hash for the same one. The hash proves the content of a
    revision at its creation; `diff` finds the differences of two revisions.
    """
    return hashlib.sha256(canonical_json(definition)).hexdigest()


def diff(before: PipelineDefinition, after: PipelineDefinition) -> list[Change]:
    """Return every difference, in the order of the definition's fields; an empty list if there is none."""
    changes: list[Change] = []
    for name in PipelineDefinition.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if canonical(old) != canonical(new):
            changes += _DIFFS.get(name, _diff_scalar)(name, old, new)
    return changes


def canonical(value: object) -> bytes:
    """Return one text for equal JSON values; unlike `==` it distinguishes `1`, `1.0` and `true`."""
    return msgspec.json.encode(value, order="sorted")


_LABELS = {
    "cluster": "cluster",
    "group_id": "consumer group",
    "sink_topic": "sink topic",
    "start_position": "start position",
    "group_protocol": "group protocol",
    "transactional_id_prefix": "transactional id prefix",
    "processing_guarantee": "processing guarantee",
    "offset_fencing": "offset fencing",
    "commit_interval_ms": "commit interval",
    "transaction_timeout_ms": "transaction timeout",
    "session_timeout_ms": "session timeout",
    "instances": "number of instances",
    "tasks_per_instance": "number of tasks per instance",
    "errors.policy": "failure policy",
    "errors.dead_letter_topic": "dead letter topic",
    "errors.max_bad": "limit of bad records",
    "errors.window_records": "window for bad records",
    "files.root": "root of the files",
    "files.event_time": "field of the event time",
    "files.codec": "codec of the files",
    "files.rotate_ms": "time until files are rotated",
    "files.max_file_mb": "largest file",
    "files.upload_timeout_ms": "bound of uploads",
    "files.conflict": "policy for conflicts of types",
    "files.id_field": "field of the id",
    "spark.master": "Spark master",
    "spark.executor_memory_mb": "executor memory",
    "transform.function": "function",
    "transform.scope": "scope of the function",
    "transform.file_name": "name of the file",
    "transform.sha256": "content of the file",
    "transform.checkpoint": "checkpoint",
    "transform.output_mode": "output mode",
    "transform.trigger_ms": "trigger interval",
    "transform.max_offsets_per_trigger": "largest batch",
    "transform.state_store": "state store",
    "transform.shuffle_partitions": "number of state partitions",
    "transform.executor_cores": "number of executor cores",
}
_UNITS = {"_ms": " ms", "_mb": " MB", "window_records": " records"}
_CONSEQUENCES = {
    "cluster": "The other cluster has other topics: its offsets of the group apply there, or the start position.",
    "group_id": "The new group has its own offsets. Without any it begins at the start position, so that records may "
    "be processed again, or skipped.",
    "files.root": "Existing files stay where they are, and existing references name them there.",
    "transactional_id_prefix": "The next start does not end a transaction that the old ids left open; it ends by its "
    "timeout, and read_committed consumers are blocked until then.",
    "processing_guarantee": "With at_least_once a failure can duplicate records; with exactly_once_v2 existing "
    "duplicates stay.",
}
_OTHER_SINK_CONSEQUENCE = (
    "The sink topic then has records before and references to files after the change: its readers must distinguish "
    "them, or give it another sink topic."
)
_TRANSFORM_CONSEQUENCE = "Records that are processed already stay as they are."


def _diff_scalar(field: str, before: Any, after: Any) -> Iterator[Change]:
    label = _LABELS.get(field, field)
    consequence = _CONSEQUENCES.get(field)
    if before is None:
        sentence = f"The {label} is now {_shown(field, after)}."
    elif after is None:
        sentence = f"The {label} {_shown(field, before)} is removed."
    else:
        sentence = f"The {label} changes from {_shown(field, before)} to {_shown(field, after)}."
    yield Change(field=field, before=before, after=after, sentence=sentence, consequence=consequence)


def _diff_drills(field: str, before: bool, after: bool) -> Iterator[Change]:
    sentence = "Drills are allowed now." if after else "Drills are not allowed any more."
    consequence = "Operators may freeze and kill its instances on purpose." if after else None
    yield Change(field=field, before=before, after=after, sentence=sentence, consequence=consequence)


def _diff_files(field: str, before: FileSink | None, after: FileSink | None) -> Iterator[Change]:
    if before is not None and after is not None:
        yield from _diff_struct(field, before, after)
        return
    sentence = (
        f"Outputs go into files under {after.root}, partitioned by {describe_columns(after.partition_by)}, and "
        "references to them to the sink topic."
        if after is not None
        else "Outputs are records of the sink topic, and no files any more."
    )
    yield Change(
        field=field,
        before=msgspec.to_builtins(before),
        after=msgspec.to_builtins(after),
        sentence=sentence,
        consequence=_OTHER_SINK_CONSEQUENCE,
    )


def _diff_columns(field: str, before: tuple[Column, ...], after: tuple[Column, ...]) -> Iterator[Change]:
    yield Change(
        field=field,
        before=msgspec.to_builtins(before),
        after=msgspec.to_builtins(after),
        sentence=f"Files are partitioned by {describe_columns(after)}, not by {describe_columns(before)} any more.",
        consequence="Existing files stay as they are: readers find both layouts.",
    )


def _diff_schema(field: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Iterator[Change]:
    if after is None:
        sentence = "The schema is inferred from the records, and no longer given."
    elif before is None:
        sentence = "The schema is given, and no longer inferred from the records."
    else:
        sentence = "Another schema is given."
    consequence = None if after is None else "A record that does not fit it is a bad record from then on."
    yield Change(field=field, before=before, after=after, sentence=sentence, consequence=consequence)


def _diff_verifies(field: str, before: bool, after: bool) -> Iterator[Change]:
    sentence = (
        "The files of each commit are read again and compared." if after else "Files are not read again any more."
    )
    yield Change(field=field, before=before, after=after, sentence=sentence)


def _diff_sources(field: str, before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[Change]:
    added = [topic for topic in after if topic not in before]
    removed = [topic for topic in before if topic not in after]
    parts = [
        *([f"adds {_listed(added)}"] if added else []),
        *([f"removes {_listed(removed)}"] if removed else []),
    ]
    sentence = f"The source {' and '.join(parts)}." if parts else "The order of the source topics changes."
    consequence = (
        "A topic that is new to the group begins at the start position; one that returns begins at its old offsets."
        if added
        else None
    )
    yield Change(field=field, before=list(before), after=list(after), sentence=sentence, consequence=consequence)


def _diff_struct(field: str, before: msgspec.Struct, after: msgspec.Struct) -> Iterator[Change]:
    for name in before.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if canonical(old) != canonical(new):
            path = f"{field}.{name}"
            yield from _DIFFS.get(path, _diff_scalar)(path, old, new)


def _diff_sql(field: str, before: str | None, after: str | None) -> Iterator[Change]:
    if after is None:
        sentence = "The query is a function of a file, and no longer SQL."
    elif before is None:
        sentence = "The query is SQL, and no longer a function of a file."
    else:
        sentence = "The SQL of the query changes."
    yield Change(field=field, before=before, after=after, sentence=sentence)


def _diff_streams(field: str, before: tuple[Stream, ...], after: tuple[Stream, ...]) -> Iterator[Change]:
    old, new = ({stream.name: stream for stream in streams} for streams in (before, after))
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        verb = "is new" if was is None else "is removed" if now is None else "changes"
        index = next(index for index, one in enumerate(after if now else before) if one.name == name)
        yield Change(
            field=f"{field}.{index}",
            before=None if was is None else msgspec.to_builtins(was),
            after=None if now is None else msgspec.to_builtins(now),
            sentence=f"The stream {name} {verb}: {_stream_change(was, now)}.",
        )
    if old == new:
        sentence = "The order of the streams changes."
        yield Change(field=field, before=list(old), after=list(new), sentence=sentence)


def _stream_change(was: Stream | None, now: Stream | None) -> str:
    if was is None or now is None:
        only = cast(Stream, now or was)
        return f"topic {only.topic}, schema {only.schema}"
    parts = {"topic": "topic", "schema": "schema", "event_time": "event time", "watermark_ms": "watermark"}
    return ", ".join(
        f"{label} from {_shown(part, getattr(was, part))} to {_shown(part, getattr(now, part))}"
        for part, label in parts.items()
        if getattr(was, part) != getattr(now, part)
    )


def _diff_options(field: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    noun = {
        "consumer_overrides": "consumer option",
        "producer_overrides": "producer option",
        "spark.conf": "Spark conf key",
    }[field]
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if old is None:
            sentence = f"The {noun} {name} is set to {new}."
        elif new is None:
            sentence = f"The {noun} {name}, which was {old}, is not set any more."
        else:
            sentence = f"The {noun} {name} changes from {old} to {new}."
        yield Change(field=f"{field}.{name}", before=old, after=new, sentence=sentence)


def _diff_transform(field: str, before: Transform, after: Transform) -> Iterator[Change]:
    if type(before) is not type(after):
        old, new = (cast(str, kind.__struct_config__.tag) for kind in (before, after))
        yield Change(
            field=field,
            before=msgspec.to_builtins(before),
            after=msgspec.to_builtins(after),
            sentence=f"The transform changes from {old} to {new}.",
            consequence=_TRANSFORM_CONSEQUENCE,
        )
        return
    changes = (
        _diff_steps(f"{field}.steps", before.steps, after.steps)
        if isinstance(before, Steps) and isinstance(after, Steps)
        else _diff_struct(field, before, after)
    )
    for index, change in enumerate(changes):
        yield msgspec.structs.replace(change, consequence=None if index else _TRANSFORM_CONSEQUENCE)


def _diff_steps(field: str, before: tuple[Step, ...], after: tuple[Step, ...]) -> Iterator[Change]:
    """Compare the steps by content, so that one new step in front does not change all the others."""
    matcher = difflib.SequenceMatcher(
        None, [canonical(s) for s in before], [canonical(s) for s in after], autojunk=False
    )
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind == "equal":
            continue
        replaced = min(old_to - old_from, new_to - new_from)
        for offset in range(replaced):
            yield _step_change(field, before, old_from + offset, after, new_from + offset)
        for index in range(old_from + replaced, old_to):
            yield _step_change(field, before, index, after, None)
        for index in range(new_from + replaced, new_to):
            yield _step_change(field, before, None, after, index)


def _step_change(
    field: str, before: tuple[Step, ...], old: int | None, after: tuple[Step, ...], new: int | None
) -> Change:
    was = None if old is None else before[old]
    now = None if new is None else after[new]
    index = cast(int, old if new is None else new)
    if was is None:
        sentence = f"Step {index + 1} is new: {describe_step(cast(Step, now))}."
    elif now is None:
        sentence = f"The former step {index + 1} is removed: {describe_step(was)}."
    else:
        sentence = f"Step {index + 1} was: {describe_step(was)}. It is now: {describe_step(now)}."
    return Change(
        field=f"{field}.{index}",
        before=None if was is None else msgspec.to_builtins(was),
        after=None if now is None else msgspec.to_builtins(now),
        sentence=sentence,
    )


_DIFFS: dict[str, Callable[[str, Any, Any], Iterator[Change]]] = {
    "source_topics": _diff_sources,
    "transform": _diff_transform,
    "transform.sql": _diff_sql,
    "transform.streams": _diff_streams,
    "errors": _diff_struct,
    "files": _diff_files,
    "files.partition_by": _diff_columns,
    "files.schema": _diff_schema,
    "files.verifies": _diff_verifies,
    "spark": _diff_struct,
    "spark.conf": _diff_options,
    "consumer_overrides": _diff_options,
    "producer_overrides": _diff_options,
    "allows_drills": _diff_drills,
}


def _shown(field: str, value: object) -> str:
    if value is None:
        return "none"
    unit = next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), "")
    return f"{value}{unit}"


def _listed(topics: list[str]) -> str:
    return topics[0] if len(topics) == 1 else f"{', '.join(topics[:-1])} and {topics[-1]}"
