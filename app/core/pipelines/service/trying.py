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
from app.core.pipelines.pipeline import FailurePolicy, PipelineDefinition, PythonFunction, Steps
from app.core.pipelines.pipeline_checks import check
from app.core.pipelines.ports import SampleQuery, SampleRead, TopicReader
from app.core.pipelines.store import PipelineStore
from app.core.transforms.sampled_fields import fields_of, unknown_fields
from app.core.transforms.tried_transform import try_transform
from app.core.transforms.trying import MOST_RECORDS, SampleRecord, TriedOutput, TriedResult
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError, Problem, UnavailableError

SAMPLES = 5
TRIED = 20


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

    error: of a bad record; contents: its text, which may quote the record.
    """

    before: ShownRecord
    outcome: TriedOutcome
    outputs: tuple[TriedOutput, ...] = ()
    output_count: int = 0
    error: str | None = None
    contents: str = ""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """written, dropped, bad: numbers of records. outputs: of all. routed: records with an output to another topic.

    policy: what a task would do with a bad record. warnings: fields of steps that no record has.
    notes: sentences about records that were not read, and about what was not tried.
    """

    topic: str
    records: tuple[TriedRecord, ...]
    written: int
    dropped: int
    bad: int
    outputs: int
    routed: int
    policy: FailurePolicy
    fields: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


class TrialQuery(msgspec.Struct, frozen=True, kw_only=True):
    """topic: a source of the definition; None: the first one. start: END stands for the newest records."""

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
    """Run the transform on records of a source topic, in a child process, and return each result.

    It makes no producer and no consumer group, and stores nothing but the row of the command log about the read. The
    unit's transaction is rolled back before brokers are asked.

    Raises ForbiddenError without the permission to read records, and the errors of `TopicReader.read`. Raises
    InvalidError for a query of DataFrames, a transform that cannot run, and a topic that is no source.
    """
    require(by, Verb.VALIDATE_PIPELINE)
    require(by, Verb.READ_RECORDS)
    if not 1 <= query.records <= MOST_RECORDS:
        raise InvalidError(f"1 to {MOST_RECORDS} records are tried, not {query.records}", field="records")
    topic = query.topic or next(iter(definition.source_topics), "")
    if topic not in definition.source_topics:
        raise InvalidError(f"`{topic[:249]}` is no source topic of this definition", field="topic")
    _refuse_transform(definition, allowed)
    source = await _source(uow, definition)
    asked = SampleQuery(topic=topic, limit=query.records, partition=query.partition, start=query.start)
    found = await _read(reader, by, await _cluster(uow, definition.cluster), asked)
    results: Sequence[TriedResult] = ()
    if found.records:
        results = await try_transform(
            definition,
            found.records,
            source=source,
            secret_paths=allowed.secret_paths,
            accepts_no_isolation=allowed.unisolated_validation,
        )
    tried = tuple(map(_tried, found.records, results))
    of_outcome = [one.outcome for one in tried]
    fields = fields_of(record.value for record in found.records)
    steps = definition.transform.steps if isinstance(definition.transform, Steps) else ()
    return Trial(
        topic=topic,
        records=tried,
        written=of_outcome.count(TriedOutcome.WRITTEN),
        dropped=of_outcome.count(TriedOutcome.DROPPED),
        bad=of_outcome.count(TriedOutcome.BAD),
        outputs=sum(one.output_count for one in tried),
        routed=sum(any(output.topic != definition.sink_topic for output in one.outputs) for one in tried),
        policy=definition.errors.policy,
        fields=fields,
        warnings=tuple(unknown_fields(steps, fields)),
        notes=(*found.notes, *_not_tried(definition)),
    )


def _refuse_transform(definition: PipelineDefinition, allowed: AllowedOptions) -> None:
    if definition.dataframe is not None:
        message = "Try is for records one by one, not for a query. Check without saving asks Spark for its plan"
        raise InvalidError(message, field="transform.kind")
    found = check(definition, name="try", facts=None, others=(), allowed=allowed)
    errors = [one for one in found if one.field.startswith("transform.") and not one.is_warning]
    if errors:
        raise InvalidError(errors[0].message, problems=errors)


async def _source(uow: UnitOfWork, definition: PipelineDefinition) -> str | None:
    transform = definition.transform
    if not isinstance(transform, PythonFunction):
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


def _tried(record: SampleRecord, result: TriedResult) -> TriedRecord:
    outcome = (
        TriedOutcome.BAD
        if result.error is not None
        else TriedOutcome.WRITTEN
        if result.output_count
        else TriedOutcome.DROPPED
    )
    return TriedRecord(
        before=_shown(record),
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
