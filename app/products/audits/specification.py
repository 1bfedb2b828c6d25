"""The specification of an audit: input and output, window, and the id of records."""

from __future__ import annotations

import msgspec

from app.core.pipelines.pipeline import (
    ErrorHandling,
    FailurePolicy,
    FileSink,
    Identity,
    PipelineDefinition,
    Route,
    SparkSettings,
    Steps,
    Transform,
)
from app.products.audits.comparison import Comparison, TopicBaseline
from app.products.audits.result import Gap


class JsonField(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="json"):
    """The id is a field of the value; `path` is written as in a transform's steps (`order.id`)."""

    path: str


class HeaderId(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The id is the last header of this name."""

    name: str


class RecordKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="key"):
    """The id is the record's key."""


IdPlace = JsonField | HeaderId | RecordKey


class TimeWindow(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="time"):
    """From `start_ms` up to and excluding `end_ms`, by the records' timestamps (milliseconds since 1970).

    In each partition, each bound is the offset of the first record that is not older. So the window is exact if
    timestamps rise, and inexact by the time that they are out of order. A padding of that length makes it exact again.
    """

    start_ms: int
    end_ms: int


class OffsetRange(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets from `start` up to and excluding `end`."""

    topic: str
    partition: int
    start: int
    end: int


class OffsetWindow(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="offsets"):
    """These offsets of the source, without partitions that are not named. Outputs are found by time."""

    ranges: tuple[OffsetRange, ...]


class Everything(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="everything"):
    """All records of the topics. It is the choice if timestamps are unrelated to the time of writing."""


Window = TimeWindow | OffsetWindow | Everything


class AuditBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an audit.

    settle_ms: longest wait for transactions that are open at its start, since they may have expected outputs.
    stall_ms: longest time without a record from a partition before the audit fails.
    examples: ids kept for each kind. places: records kept for each side of an example.
    offsets_per_task: offsets or records of files that one task reads. files_per_task: most files of one task.
    references_per_task: references that one task examines before.
    ids_per_task: approximate number of ids that one task compares in memory.
    """

    settle_ms: int = 30_000
    stall_ms: int = 60_000
    examples: int = 20
    places: int = 5
    offsets_per_task: int = 1_000_000
    files_per_task: int = 1_000
    references_per_task: int = 50_000
    ids_per_task: int = 400_000


class DroppedRows(msgspec.Struct, frozen=True, kw_only=True):
    """The number of rows that one batch of a query dropped behind the watermark. ended_at_ms: its end."""

    ended_at_ms: int
    rows: int


class AuditSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input of an audit, except the connection to the cluster (app/products/audits/wire.py).

    group_id: the pipeline's group, whose uncommitted input has no expected outputs yet. None: all input has.
    sink_topics: all topics of outputs, see `sink_topics_of`. An output for another topic is counted and not searched.
    id: place of the id in outputs. source_id: its place in inputs and dead letters, if that differs.
    transform, errors, files: as in the pipeline. Applied to the input, they give the expected outputs. With files, the
        records of the sink topic are references, and outputs are the records of their files.
    file_roots: the roots from which files may be read: all roots that the pipeline has had.
    padding_ms: longest time between an input and its output. An output outside the window and within the padding is
        late, not lost. The source is read for twice the padding on both sides.
    cores: number of concurrent tasks.
    `doubts`: gaps that are known before the audit begins.
    comparison: then source_topics are those of the baseline, and sink_topic is the compared one. The transform is not
        applied, and no group is asked. A recomputation has the pipeline's source topics and its transform.
    late_batches: of a recomputation, the recorded batches with late rows.
    """

    audit_id: str
    pipeline: str
    revision: int
    source_topics: tuple[str, ...]
    group_id: str | None
    sink_topic: str
    sink_topics: tuple[str, ...]
    id: IdPlace
    source_id: IdPlace | None = None
    window: Window
    padding_ms: int = 300_000
    transform: Transform = msgspec.field(default_factory=Identity)
    transform_source: str | None = None
    errors: ErrorHandling = msgspec.field(default_factory=ErrorHandling)
    files: FileSink | None = None
    file_roots: tuple[str, ...] = ()
    spark: SparkSettings = msgspec.field(default_factory=SparkSettings)
    cores: int = 2
    bounds: AuditBounds = msgspec.field(default_factory=AuditBounds)
    doubts: tuple[Gap, ...] = ()
    comparison: Comparison | None = None
    late_batches: tuple[DroppedRows, ...] = ()


def sink_topics_of(definition: PipelineDefinition) -> tuple[str, ...]:
    """Return every topic of outputs in the definition, the sink topic first, each once.

    An uploaded function may name others at run time. With a file sink, an output for another topic is a bad record.
    """
    topics = [definition.sink_topic]
    if definition.files is None and isinstance(definition.transform, Steps):
        topics += [step.topic for step in definition.transform.steps if isinstance(step, Route)]
    if definition.errors.policy is FailurePolicy.DEAD_LETTER and definition.errors.dead_letter_topic is not None:
        topics.append(definition.errors.dead_letter_topic)
    return tuple(dict.fromkeys(topics))


def specification_of(
    definition: PipelineDefinition,
    *,
    audit_id: str,
    pipeline: str,
    revision: int,
    window: Window,
    id: IdPlace,  # noqa: A002 - the field's name
    source_id: IdPlace | None = None,
    transform_source: str | None = None,
    file_roots: tuple[str, ...] = (),
    padding_ms: int = 300_000,
    cores: int = 2,
    doubts: tuple[Gap, ...] = (),
    comparison: Comparison | None = None,
) -> AuditSpecification:
    """Return the specification for a definition. file_roots: the roots of other revisions."""
    audit = AuditSpecification(
        audit_id=audit_id,
        pipeline=pipeline,
        revision=revision,
        source_topics=definition.source_topics,
        group_id=definition.group_id,
        sink_topic=definition.sink_topic,
        sink_topics=sink_topics_of(definition),
        id=id,
        source_id=source_id,
        window=window,
        padding_ms=padding_ms,
        transform=definition.transform,
        transform_source=transform_source,
        errors=definition.errors,
        files=definition.files,
        file_roots=() if definition.files is None else tuple(dict.fromkeys((definition.files.root, *file_roots))),
        spark=definition.spark,
        cores=cores,
        doubts=doubts,
    )
    return audit if comparison is None else _compared(audit, comparison)


def _compared(audit: AuditSpecification, comparison: Comparison) -> AuditSpecification:
    baseline = comparison.baseline
    topic = comparison.output_topic or audit.sink_topic
    if comparison.is_recomputation:
        same = msgspec.structs.replace(comparison, baseline_time_field=comparison.time_field)
        return msgspec.structs.replace(audit, group_id=None, sink_topics=(topic,), comparison=same)
    return msgspec.structs.replace(
        audit,
        source_topics=(baseline.topic,) if isinstance(baseline, TopicBaseline) else (),
        group_id=None,
        sink_topic=topic,
        sink_topics=(topic,),
        transform=Identity(),
        transform_source=None,
        errors=ErrorHandling(),
        comparison=comparison,
    )
