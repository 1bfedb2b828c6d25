"""Read the stored data of a pipeline's files: the newest, totals, checkpoints, schemas, with their freshness."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from app.core.clusters.store import ClusterStore
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.kit.page import Page, checked_limit
from app.products.files.checkpoint import FileCheckpoint
from app.products.files.reading import (
    FileWatchState,
    TopicReading,
    behind_of,
    is_whole,
    notes_of,
    read_now,
    standing_sentence,
)
from app.products.files.schema_history import SchemaInHistory, history_of
from app.products.files.service.orphans import NOBODY_LOOKED, Orphans, orphans_of
from app.products.files.store.files import WrittenFileStore
from app.products.files.store.readings import FileReadingStore
from app.products.files.totals import NOTHING, HourTotal, PartitionTotal, Total
from app.products.files.written_file import FileFilter, FileRecord

HOURS_SHOWN = timedelta(days=7)


class FileStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The freshness and completeness of a pipeline's files.

    watch: None: no server has begun. readings: the progress of each partition, including former sink topics with recent
    messages. behind: remaining offsets; None: not known. is_whole: every committed reference was read a moment ago.
    sentence: these as a text. notes: the reasons why the list is not complete.
    """

    watch: FileWatchState | None
    readings: tuple[TopicReading, ...]
    behind: int | None
    is_whole: bool
    sentence: str
    notes: tuple[str, ...]

    @property
    def total(self) -> Total:
        return NOTHING if self.watch is None else self.watch.total


class FileTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of files.

    total: of every reference ever read. partitions: those with the most bytes, of `partitions_kept` ones.
    hours: since `hours_since`, oldest first, without hours that have no file.
    """

    standing: FileStanding
    total: Total
    partitions: tuple[PartitionTotal, ...]
    partitions_kept: int
    hours: tuple[HourTotal, ...]
    hours_since: datetime


class FilesPage(msgspec.Struct, frozen=True, kw_only=True):
    pipeline: Pipeline
    files: Page[FileRecord]
    totals: FileTotals
    checkpoints: tuple[FileCheckpoint, ...]
    schemas: tuple[SchemaInHistory, ...]
    orphans: Orphans = NOBODY_LOOKED


async def list_files(
    uow: UnitOfWork, name: str, wanted: FileFilter, *, after: str | None, limit: int
) -> Page[FileRecord]:
    """Return files, newest reference first.

    Raises NotFoundError for a pipeline that does not exist, or that never wrote files.
    """
    await _file_pipeline(uow, name)
    return await uow.of(WrittenFileStore).list(name, wanted, after=after, limit=checked_limit(limit))


async def totals_of(
    uow: UnitOfWork, name: str, *, limit: int, hours_since: datetime | None, now: datetime
) -> FileTotals:
    """Return the totals. Raises NotFoundError as `list_files` does."""
    return await _totals(uow, await _file_pipeline(uow, name), limit=limit, hours_since=hours_since, now=now)


async def checkpoints_of(uow: UnitOfWork, name: str, *, limit: int) -> list[FileCheckpoint]:
    """Return checkpoints, newest first. Raises NotFoundError as `list_files` does."""
    await _file_pipeline(uow, name)
    return await uow.of(WrittenFileStore).checkpoints(name, limit=checked_limit(limit))


async def schemas_of(uow: UnitOfWork, name: str, *, limit: int) -> list[SchemaInHistory]:
    """Return schemas with their changes, newest first. Raises NotFoundError as `list_files` does."""
    await _file_pipeline(uow, name)
    return await _schemas(uow, name, limit=checked_limit(limit))


async def files_page(
    uow: UnitOfWork,
    name: str,
    wanted: FileFilter,
    *,
    after: str | None,
    files: int,
    partitions: int,
    checkpoints: int,
    schemas: int,
    now: datetime,
) -> FilesPage:
    """Return the data of the page at one moment, with limits. Raises NotFoundError as `list_files` does."""
    pipeline = await _file_pipeline(uow, name)
    return FilesPage(
        pipeline=pipeline,
        files=await uow.of(WrittenFileStore).list(name, wanted, after=after, limit=files),
        totals=await _totals(uow, pipeline, limit=partitions, hours_since=None, now=now),
        checkpoints=tuple(await uow.of(WrittenFileStore).checkpoints(name, limit=checkpoints)),
        schemas=tuple(await _schemas(uow, name, limit=schemas)),
        orphans=await orphans_of(uow, name),
    )


async def standing_of(uow: UnitOfWork, pipeline: Pipeline, *, now: datetime) -> FileStanding:
    """Return the freshness of this pipeline's files."""
    return (await _standings(uow, [pipeline], now=now))[pipeline.name]


async def standings_of_all(uow: UnitOfWork, pipelines: Sequence[Pipeline], *, now: datetime) -> dict[str, FileStanding]:
    """Return the freshness of each pipeline that writes files, by name; without any, send no statement."""
    return await _standings(uow, [one for one in pipelines if one.definition.files is not None], now=now)


async def _standings(uow: UnitOfWork, pipelines: Sequence[Pipeline], *, now: datetime) -> dict[str, FileStanding]:
    if not pipelines:
        return {}
    names = [pipeline.name for pipeline in pipelines]
    watches = await uow.of(FileReadingStore).watches(names)
    known = await uow.of(FileReadingStore).readings(names)
    clusters = {cluster.name: cluster.kafka_cluster_id for cluster in await uow.of(ClusterStore).list_all()}
    found: dict[str, FileStanding] = {}
    for pipeline in pipelines:
        watch = watches.get(pipeline.name)
        # Old sink topics are not read any more, so they do not count.
        readings = read_now(
            known.get(pipeline.name, ()), pipeline.definition.sink_topic, clusters.get(pipeline.cluster, ""), now=now
        )
        found[pipeline.name] = FileStanding(
            watch=watch,
            readings=tuple(readings),
            behind=behind_of(readings),
            is_whole=is_whole(watch, readings, now=now),
            sentence=standing_sentence(watch, readings, now=now),
            notes=tuple(notes_of(readings, watch)),
        )
    return found


async def _totals(
    uow: UnitOfWork, pipeline: Pipeline, *, limit: int, hours_since: datetime | None, now: datetime
) -> FileTotals:
    since = now - HOURS_SHOWN if hours_since is None else hours_since
    standing = await standing_of(uow, pipeline, now=now)
    partitions, kept = await uow.of(WrittenFileStore).partitions(pipeline.name, limit=limit)
    return FileTotals(
        standing=standing,
        total=standing.total,
        partitions=tuple(partitions),
        partitions_kept=kept,
        hours=tuple(await uow.of(WrittenFileStore).hours(pipeline.name, since=since)),
        hours_since=since,
    )


async def _schemas(uow: UnitOfWork, name: str, *, limit: int) -> list[SchemaInHistory]:
    # One more, for the comparison with the last one.
    return history_of(await uow.of(WrittenFileStore).schemas(name, limit=limit + 1))[:limit]


async def _file_pipeline(uow: UnitOfWork, name: str) -> Pipeline:
    pipeline = await uow.of(PipelineStore).get(name)
    if pipeline.definition.files is None and not await uow.of(FileReadingStore).watches([name]):
        raise NotFoundError(f"pipeline {name} has no file sink: it writes records, not files")
    return pipeline
