"""Pipelines, their revisions, and the source files that revisions name."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline, Revision, TransformSource
from app.core.pipelines.tables import clusters, pipelines, revisions, transform_sources
from app.core.runs.store.runs import run_summary
from app.core.runs.tables.runs import runs
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError
from app.kit.page import Page, decode_cursor, encode_cursor

# The live run, else the last one that was started.
_latest_run = (
    sa.select(runs.c.id)
    .where(runs.c.pipeline_id == pipelines.c.id)
    .order_by(runs.c.ended_at.is_(None).desc(), runs.c.started_at.desc())
    .limit(1)
    .correlate(pipelines)
    .scalar_subquery()
)
_SELECT = (
    sa.select(pipelines, revisions.c.definition, _latest_run.label("run_id"))
    .join(revisions, (revisions.c.pipeline_id == pipelines.c.id) & (revisions.c.number == pipelines.c.current_revision))
    .order_by(pipelines.c.name)
)
_REVISION = sa.select(revisions, pipelines.c.name).join(pipelines, pipelines.c.id == revisions.c.pipeline_id)


class PipelineStore(DatabaseStore):
    async def add(self, *, name: str, revision: Revision, cluster: str) -> Pipeline:
        """Store a new pipeline with its first revision. Raises ConflictError if name or consumer group is taken."""
        inserted = (
            sa.insert(pipelines)
            .from_select(
                [
                    "name",
                    "cluster",
                    "kafka_cluster_id",
                    "group_id",
                    "current_revision",
                    "created_at",
                    "created_by",
                    "changed_at",
                ],
                sa.select(
                    sa.literal(name),
                    clusters.c.name,
                    clusters.c.kafka_cluster_id,
                    sa.literal(revision.definition.group_id),
                    sa.literal(revision.number),
                    sa.literal(revision.created_at, sa.DateTime(timezone=True)),
                    sa.literal(revision.created_by),
                    sa.literal(revision.created_at, sa.DateTime(timezone=True)),
                ).where(clusters.c.name == cluster),
            )
            .returning(pipelines.c.id)
        )
        row = await self._db.row(inserted)
        if row is None:
            raise NotFoundError(f"there is no cluster {cluster}", field="cluster")
        await self._insert_revision(row.id, revision)
        return await self.get(name)

    async def get(self, name: str, *, for_update: bool = False) -> Pipeline:
        if for_update:
            # A statement of its own: it waits for the lock first, and the next one reads the state after that.
            await self._db.execute(
                sa.select(pipelines.c.id).where(pipelines.c.name == name).with_for_update(key_share=True)
            )
        pipeline = await self.find(name)
        if pipeline is None:
            raise NotFoundError(f"there is no pipeline {name}; `fenceline pipelines list` shows all pipelines")
        return pipeline

    async def find(self, name: str) -> Pipeline | None:
        found = await self._with_runs(await self._db.rows(_SELECT.where(pipelines.c.name == name)))
        return found[0] if found else None

    async def list(self, *, after: str | None, limit: int) -> Page[Pipeline]:
        """List them by name."""
        statement = _SELECT.limit(limit + 1)
        if after is not None:
            statement = statement.where(pipelines.c.name > decode_cursor(after, keys=1)[0])
        rows = await self._db.rows(statement)
        items = await self._with_runs(rows[:limit])
        return Page(items=tuple(items), next_cursor=encode_cursor(items[-1].name) if len(rows) > limit else None)

    async def list_all(self) -> list[Pipeline]:
        """Return every pipeline, by name."""
        return await self._with_runs(await self._db.rows(_SELECT))

    async def add_revision(self, revision: Revision) -> None:
        """Store the next revision and make it the current one. Raises ConflictError if another change was first."""
        row = await self._db.row(sa.select(pipelines.c.id).where(pipelines.c.name == revision.pipeline))
        if row is None:
            raise NotFoundError(f"there is no pipeline {revision.pipeline}")
        await self._insert_revision(row.id, revision)
        cluster = revision.definition.cluster
        await self._db.execute(
            sa.update(pipelines)
            .where(pipelines.c.id == row.id)
            .values(
                current_revision=revision.number,
                cluster=cluster,
                kafka_cluster_id=sa.select(clusters.c.kafka_cluster_id)
                .where(clusters.c.name == cluster)
                .scalar_subquery(),
                group_id=revision.definition.group_id,
                changed_at=revision.created_at,
            )
        )

    async def get_revision(self, name: str, number: int) -> Revision:
        row = await self._db.row(_REVISION.where(pipelines.c.name == name, revisions.c.number == number))
        if row is None:
            await self.get(name)
            raise NotFoundError(f"pipeline {name} has no revision {number}")
        return _revision(row)

    async def list_revisions(self, name: str) -> list[Revision]:
        """List them newest first."""
        rows = await self._db.rows(_REVISION.where(pipelines.c.name == name).order_by(revisions.c.number.desc()))
        if not rows:
            await self.get(name)
        return [_revision(row) for row in rows]

    async def remove(self, name: str) -> None:
        """Remove the pipeline with all rows that refer to it; the command log stays."""
        await self._db.execute(sa.delete(pipelines).where(pipelines.c.name == name))

    async def store_source(self, source: TransformSource) -> None:
        """Store a source text by its SHA-256; the same text again changes nothing."""
        await self._db.execute(
            postgresql.insert(transform_sources)
            .values(
                sha256=source.sha256,
                source=source.source,
                size_bytes=source.size_bytes,
                created_at=source.created_at,
                created_by=source.created_by,
            )
            .on_conflict_do_nothing(index_elements=["sha256"])
        )

    async def get_source(self, sha256: str) -> TransformSource:
        source = await self.find_source(sha256)
        if source is None:
            raise NotFoundError(f"no transform source with the SHA-256 {sha256} was uploaded")
        return source

    async def find_source(self, sha256: str) -> TransformSource | None:
        row = await self._db.row(sa.select(transform_sources).where(transform_sources.c.sha256 == sha256))
        if row is None:
            return None
        return TransformSource(
            sha256=row.sha256,
            source=row.source,
            size_bytes=row.size_bytes,
            created_at=row.created_at,
            created_by=row.created_by,
        )

    async def _insert_revision(self, pipeline_id: str, revision: Revision) -> None:
        await self._db.execute(
            sa.insert(revisions).values(
                pipeline_id=pipeline_id,
                number=revision.number,
                definition=msgspec.to_builtins(revision.definition),
                definition_sha256=revision.definition_sha256,
                transform_source_sha256=revision.transform_source_sha256,
                created_at=revision.created_at,
                created_by=revision.created_by,
                note=revision.note,
            )
        )

    async def _with_runs(self, rows: Any) -> list[Pipeline]:
        ids = [row.run_id for row in rows if row.run_id is not None]
        summaries = {summary.id: summary for summary in await run_summary(self._db, ids)}
        return [
            Pipeline(
                id=row.id,
                name=row.name,
                cluster=row.cluster,
                current_revision=row.current_revision,
                definition=definition_from(row.definition),
                created_at=row.created_at,
                created_by=row.created_by,
                changed_at=row.changed_at,
                current_run=summaries.get(row.run_id),
            )
            for row in rows
        ]


def definition_from(stored: Any) -> PipelineDefinition:
    """Return a definition as it was stored; fields of later releases take their default."""
    return msgspec.convert(stored, PipelineDefinition)


def _revision(row: sa.Row[Any]) -> Revision:
    return Revision(
        pipeline=row.name,
        number=row.number,
        definition=definition_from(row.definition),
        definition_sha256=row.definition_sha256,
        transform_source_sha256=row.transform_source_sha256,
        created_at=row.created_at,
        created_by=row.created_by,
        note=row.note,
    )
