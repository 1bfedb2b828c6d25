"""Try a definition's transform on real records: before and after, without writing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import cast

import msgspec

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.cluster import Cluster
from app.core.clusters.service import get_cluster
from app.core.journals.log_content import Content, RecordHeader, content
from app.core.journals.log_look import Landmark, LogStart
from app.core.pipelines.pipeline import DataframeQuery, FailurePolicy, PipelineDefinition, PythonFunction, Steps
from app.core.pipelines.pipeline_checks import check
from app.core.pipelines.ports import ALL_BYTES, SampleQuery, SampleRead, TopicReader
from app.core.pipelines.store import PipelineStore
from app.core.transforms.sampled_fields import fields_of, unknown_fields
from app.core.transforms.tried_query import try_query
from app.core.transforms.tried_transform import try_transform
from app.core.transforms.trying import MOST_RECORDS, SampleRecord, TriedOutput, TriedResult
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError, Problem, UnavailableError

SAMPLES = 5
TRIED = 20
_CHECKPOINT = "transform.checkpoint"
"""A trial has no checkpoint, so an author need not have chosen one."""
_OF_QUERIES = (
    "Windows and joins have only these records. All windows are shown, also those that the query writes only when the "
    "watermark has passed them."
)


class TriedOutcome(StrEnum):
    """WRITTEN: it has outputs. DROPPED: it has none. BAD: the failure policy applies."""

    WRITTEN = "written"
    DROPPED = "dropped"
    BAD = "bad"


class ShownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the source with its place; long contents are cut. timestamp_ms: -1 without one."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Content | None = None
    value: Content | None = None
    headers: tuple[RecordHeader, ...] = ()


class TriedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record before and after the transform. outputs: the first ones of `output_count`.

    outcome: None: of a query, whose rows are not of one record each.
    error: of a bad record; contents: its text, which may quote the record.
    """

    before: ShownRecord
    outcome: TriedOutcome | None = None
    outputs: tuple[TriedOutput, ...] = ()
    output_count: int = 0
    error: str | None = None
    contents: str = ""


class OutcomeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of records. routed: those with an output to another topic than the sink."""

    written: int
    routed: int
    dropped: int
    bad: int


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a transform over records of `topics`. outputs: the number of all.

    counts: None: of a query, whose outputs are in `rows`: the first ones, in order.
    error: the reason why Spark ended the query, which may quote a record.
    policy: what a task would do with a bad record. warnings: fields of steps that no record has.
    notes: sentences about records that were not read, and about what was not tried.
    """

    topics: tuple[str, ...]
    records: tuple[TriedRecord, ...]
    counts: OutcomeCounts | None
    outputs: int
    rows: tuple[TriedOutput, ...] = ()
    error: str | None = None
    policy: FailurePolicy
    fields: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


class TrialQuery(msgspec.Struct, frozen=True, kw_only=True):
    """records, partition, start: of each topic that is read. start: END stands for the newest records.

    topic: a source of the definition; None: the first one. A query is tried on all of them.
    """

    records: int = TRIED
    topic: str | None = None
    partition: int | None = None
    start: LogStart = Landmark.END


def reader_of(parts: Mapping[type, object]) -> TopicReader:
    """Return the reader among the parts of a server. Raises UnavailableError if no product gives one."""
    reader = cast("TopicReader | None", parts.get(TopicReader))
    if reader is None:
        raise UnavailableError("This server has no product that reads records, so it shows none and tries none")
    return reader


async def read_samples(
    uow: UnitOfWork, reader: TopicReader, *, cluster: str, topic: str, by: Principal, limit: int = SAMPLES
) -> tuple[tuple[ShownRecord, ...], SampleRead]:
    """Return the newest committed records of a topic. The unit's transaction is rolled back before brokers are asked.

    Raises the errors of `TopicReader.read`.
    """
    require(by, Verb.READ_RECORDS)
    found = await _read(reader, by, await _cluster(uow, cluster), SampleQuery(topic=topic, limit=limit))
    return tuple(map(_shown, found.records)), found


async def try_pipeline(
    uow: UnitOfWork,
    reader: TopicReader,
    *,
    definition: PipelineDefinition,
    query: TrialQuery,
    allowed: AllowedOptions,
    by: Principal,
) -> Trial:
    """Run the transform on records of a source topic, or a query on records of all, in a child process.

    It makes no producer and no consumer group, and stores nothing but a row of the command log for each read. The
    unit's transaction is rolled back before brokers are asked.

    Raises ForbiddenError without the permission to read records, and the errors of `TopicReader.read`. Raises
    InvalidError for a transform that cannot run, and a topic that is no source. Raises UnavailableError without a place
    for the child, or for a query without Java.
    """
    require(by, Verb.VALIDATE_PIPELINE)
    require(by, Verb.READ_RECORDS)
    if not 1 <= query.records <= MOST_RECORDS:
        raise InvalidError(f"1 to {MOST_RECORDS} records are tried, not {query.records}", field="records")
    topics = _topics(definition, query.topic)
    _refuse_transform(definition, allowed)
    source = await _source(uow, definition)
    cluster = await _cluster(uow, definition.cluster)
    read = [
        await _read(
            reader,
            by,
            cluster,
            SampleQuery(
                topic=topic,
                limit=query.records,
                partition=query.partition,
                start=query.start,
                most_bytes=ALL_BYTES // len(topics),
            ),
        )
        for topic in topics
    ]
    records = tuple(record for one in read for record in one.records)
    trial = Trial(
        topics=topics,
        records=tuple(TriedRecord(before=_shown(record)) for record in records),
        counts=None,
        outputs=0,
        policy=definition.errors.policy,
        fields=fields_of(record.value for record in records),
        notes=tuple(note for one in read for note in one.notes),
    )
    if definition.dataframe is not None:
        return await _with_rows(trial, definition, records, source=source, allowed=allowed)
    return await _with_results(trial, definition, records, source=source, allowed=allowed)


async def _with_results(
    trial: Trial,
    definition: PipelineDefinition,
    records: Sequence[SampleRecord],
    *,
    source: str | None,
    allowed: AllowedOptions,
) -> Trial:
    """Add the result of each record."""
    results: Sequence[TriedResult] = ()
    if records:
        results = await try_transform(
            definition,
            records,
            source=source,
            secret_paths=allowed.secret_paths,
            accepts_no_isolation=allowed.unisolated_validation,
        )
    tried = tuple(map(_tried, trial.records, results))
    of_outcome = [one.outcome for one in tried]
    steps = definition.transform.steps if isinstance(definition.transform, Steps) else ()
    return msgspec.structs.replace(
        trial,
        records=tried,
        counts=OutcomeCounts(
            written=of_outcome.count(TriedOutcome.WRITTEN),
            routed=sum(any(output.topic != definition.sink_topic for output in one.outputs) for one in tried),
            dropped=of_outcome.count(TriedOutcome.DROPPED),
            bad=of_outcome.count(TriedOutcome.BAD),
        ),
        outputs=sum(one.output_count for one in tried),
        warnings=tuple(unknown_fields(steps, trial.fields)),
        notes=(*trial.notes, *_not_tried(definition)),
    )


async def _with_rows(
    trial: Trial,
    definition: PipelineDefinition,
    records: Sequence[SampleRecord],
    *,
    source: str | None,
    allowed: AllowedOptions,
) -> Trial:
    """Add the rows that a query makes of all records together."""
    if not records:
        return trial
    answer = await try_query(
        definition,
        records,
        source=source,
        secret_paths=allowed.secret_paths,
        accepts_no_isolation=allowed.unisolated_validation,
        java_home=allowed.java_home,
    )
    return msgspec.structs.replace(
        trial, outputs=answer.count, rows=answer.rows, error=answer.error, notes=(*trial.notes, _OF_QUERIES)
    )


def _topics(definition: PipelineDefinition, chosen: str | None) -> tuple[str, ...]:
    """Return the topics to read. Raises InvalidError."""
    sources = definition.source_topics
    if not sources:
        raise InvalidError("Name a source topic first", field="source_topics")
    if chosen is not None and chosen not in sources:
        raise InvalidError(f"`{chosen[:249]}` is no source topic of this definition", field="topic")
    if definition.dataframe is None:
        return (chosen,) if chosen is not None else sources[:1]
    if chosen is not None:
        raise InvalidError("A query is tried on all of its source topics. Leave out the topic", field="topic")
    return tuple(dict.fromkeys(sources))


def _refuse_transform(definition: PipelineDefinition, allowed: AllowedOptions) -> None:
    found = check(definition, name="try", facts=None, others=(), allowed=allowed)
    errors = [
        one for one in found if one.field.startswith("transform.") and one.field != _CHECKPOINT and not one.is_warning
    ]
    if errors:
        raise InvalidError(errors[0].message, problems=errors)


async def _source(uow: UnitOfWork, definition: PipelineDefinition) -> str | None:
    """Return the text of the uploaded file that the transform names; None without one. Raises InvalidError."""
    transform = definition.transform
    if not isinstance(transform, PythonFunction | DataframeQuery) or transform.sha256 is None:
        return None
    source = await uow.of(PipelineStore).find_source(transform.sha256)
    if source is None:
        message = f"no file with the SHA-256 {transform.sha256} was uploaded: upload {transform.file_name} first"
        raise InvalidError(message, field="transform.sha256")
    return source.source


async def _cluster(uow: UnitOfWork, name: str) -> Cluster:
    found = await get_cluster(uow, name)
    # Postgres keeps no transaction while brokers are asked.
    await uow.rollback()
    return found


async def _read(reader: TopicReader, by: Principal, cluster: Cluster, query: SampleQuery) -> SampleRead:
    found = await reader.read(by, cluster, query)
    if found.records or found.notes:
        return found
    return msgspec.structs.replace(found, notes=(f"{query.topic} has no committed record there.",))


def _shown(record: SampleRecord) -> ShownRecord:
    return ShownRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=content(record.key),
        value=content(record.value),
        headers=tuple(RecordHeader(name=name, value=content(value)) for name, value in record.headers),
    )


def _tried(record: TriedRecord, result: TriedResult) -> TriedRecord:
    outcome = (
        TriedOutcome.BAD
        if result.error is not None
        else TriedOutcome.WRITTEN
        if result.output_count
        else TriedOutcome.DROPPED
    )
    return TriedRecord(
        before=record.before,
        outcome=outcome,
        outputs=result.outputs,
        output_count=result.output_count,
        error=result.error,
        contents=result.contents,
    )


def _not_tried(definition: PipelineDefinition) -> list[str]:
    if definition.files is None:
        return []
    return ["Not tried: whether the outputs fit the files' schema and partition columns."]
