"""What is audited: whose input and output, which window of it, and what tells one record from another."""

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
from app.products.audits.result import Gap


class JsonField(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="json"):
    """The id is a field of the value; `path` is written as in a transform's steps (`order.id`)."""

    path: str


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The id is the last header of this name."""

    name: str


class RecordKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="key"):
    """The id is the record's key."""


IdPlace = JsonField | Header | RecordKey


class TimeWindow(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="time"):
    """From `start_ms` up to, without, `end_ms`, by the records' timestamps (milliseconds since 1970).

    In each partition it is the offsets from the first record that is not older than the one to the first that is not
    older than the other: so it is exact where timestamps rise, and in doubt by as much as they are out of order. That
    much padding makes it exact again.
    """

    start_ms: int
    end_ms: int


class OffsetRange(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets from `start` up to, without, `end`."""

    topic: str
    partition: int
    start: int
    end: int


class OffsetWindow(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="offsets"):
    """These offsets of the source; partitions that are not named are no part of it. Its output is found by time."""

    ranges: tuple[OffsetRange, ...]


class Everything(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="everything"):
    """All that the topics hold. The one to choose where timestamps say nothing of when a record was written."""


Window = TimeWindow | OffsetWindow | Everything


class AuditBounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much an audit takes and keeps.

    settle_ms: how long it waits for transactions that were open when it began; their outputs may be what it looks for.
    stall_ms: how long a partition may give nothing before the audit fails.
    examples: how many ids of each kind are kept. places: how many records of each side of an example.
    offsets_per_task: how much one task reads, of topics and files alike. files_per_task: how many it opens for it at
        most; references_per_task: how many references one task looks at before that.
    ids_per_task: about how many are compared in a task's memory.
    """

    settle_ms: int = 30_000
    stall_ms: int = 60_000
    examples: int = 20
    places: int = 5
    offsets_per_task: int = 1_000_000
    files_per_task: int = 1_000
    references_per_task: int = 50_000
    ids_per_task: int = 400_000


class AuditSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """One audit, whole: what it needs besides the cluster's connection, which travels beside it
    (app/products/audits/wire.py).

    group_id: the pipeline's group: input that it has not committed is not expected anywhere yet. None: all is expected.
    sink_topics: all topics that outputs may be in; `sink_topics_of` says which. An output that the transform sends
        anywhere else is counted and not looked for.
    id: where an output has its id. source_id: where inputs have it, and with them dead letters; None: there, too.
    transform, errors, files: as the pipeline has them. They are applied to the input, and so say which outputs there
        must be. With files, what is read of the sink topic are references, and outputs are the records of their files.
    file_roots: the only ones that files are read from: all that the pipeline ever wrote to.
    padding_ms: how far from its input, in time, an output may lie; what lies outside of the window and within it is
        late, not lost. The source is read for twice as long on both sides.
    cores: how many tasks at once.
    doubts: what is known before anything is read to keep the audit from proving something.
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


def sink_topics_of(definition: PipelineDefinition) -> tuple[str, ...]:
    """Every topic that the definition names as a place for outputs, the sink topic first, each once.

    An uploaded function may name others when it runs. What is for another topic has no place in a file, and is bad.
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
) -> AuditSpecification:
    """The audit of a pipeline as it is defined. file_roots: of its other revisions."""
    return AuditSpecification(
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
