"""The owning pipelines of transactional ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.mappings.mapping import Archived, IdKind, TransactionalIdOwner
from app.core.pipelines.tables import pipelines, transactional_ids
from app.kit.db.store import DatabaseStore
from app.kit.errors import ConflictError

_SELECT = sa.select(transactional_ids, pipelines.c.name).join(pipelines)


class TransactionalIdStore(DatabaseStore):
    async def claim(self, *, pipeline: str, kafka_cluster_id: str, ids: Sequence[tuple[str, int, int]]) -> None:
        """Make the pipeline the owner of its tasks' (id, ordinal, task)s.

        Raises ConflictError naming an id that another pipeline owns, or that this one has for something else.
        """
        rows = {name: {"ordinal": ordinal, "task": task} for name, ordinal, task in ids}
        await self._claim(rows, pipeline=pipeline, kafka_cluster_id=kafka_cluster_id, kind=IdKind.TASK)

    async def claim_for_partitions(
        self, *, pipeline: str, kafka_cluster_id: str, ids: Collection[str], kind: IdKind
    ) -> None:
        """Make the pipeline the owner of ids that belong to no task. Raises ConflictError as `claim` does."""
        rows: dict[str, dict[str, int | None]] = {name: {"ordinal": None, "task": None} for name in ids}
        await self._claim(rows, pipeline=pipeline, kafka_cluster_id=kafka_cluster_id, kind=kind)

    async def _claim(
        self, rows: Mapping[str, Mapping[str, int | None]], *, pipeline: str, kafka_cluster_id: str, kind: IdKind
    ) -> None:
        if not rows:
            return
        owner = sa.select(pipelines.c.id).where(pipelines.c.name == pipeline).scalar_subquery()
        await self._db.execute(
            postgresql.insert(transactional_ids)
            .values(
                [
                    {
                        "kafka_cluster_id": kafka_cluster_id,
                        "transactional_id": transactional_id,
                        "pipeline_id": owner,
                        "kind": str(kind),
                        **rows[transactional_id],
                    }
                    # In one order everywhere, so that two claims never wait for each other.
                    for transactional_id in sorted(rows)
                ]
            )
            .on_conflict_do_nothing(index_elements=["kafka_cluster_id", "transactional_id"])
        )
        for known in await self.owners(kafka_cluster_id=kafka_cluster_id, ids=list(rows)):
            if known.pipeline != pipeline:
                raise ConflictError(
                    f"the transactional id {known.transactional_id} belongs to pipeline {known.pipeline} on this Kafka "
                    f"cluster: give {pipeline} another prefix",
                    field="transactional_id_prefix",
                )
            if known.kind is not kind:
                raise ConflictError(
                    f"pipeline {pipeline} has the transactional id {known.transactional_id} already, for a "
                    f"{known.kind}. Give the pipeline another prefix"
                    if known.kind is not IdKind.IMPORTED
                    else f"the transactional id {known.transactional_id} was imported for pipeline {pipeline}, so no "
                    f"{kind} can use it. Give the pipeline another prefix",
                    field="transactional_id_prefix",
                )

    async def archive(
        self, *, pipeline: str, kafka_cluster_id: str, ids: Collection[str], migration: str, now: datetime
    ) -> None:
        """Mark ids of the pipeline as retired by its migration; earlier marks stay."""
        await self._db.execute(
            sa.update(transactional_ids)
            .where(
                _of(pipeline, kafka_cluster_id),
                transactional_ids.c.transactional_id.in_(ids),
                transactional_ids.c.archived_at.is_(None),
            )
            .values(archived_at=now, archived_by=migration)
        )

    async def use_again(self, *, pipeline: str, kafka_cluster_id: str, ids: Collection[str], partitions: bool) -> None:
        """Remove the mark from these ids of the pipeline, and with `partitions` from all that belong to no task."""
        wanted = transactional_ids.c.transactional_id.in_(ids)
        if partitions:
            wanted |= transactional_ids.c.kind != IdKind.TASK
        await self._db.execute(
            sa.update(transactional_ids)
            .where(_of(pipeline, kafka_cluster_id), wanted, transactional_ids.c.archived_at.is_not(None))
            .values(archived_at=None, archived_by=None)
        )

    async def release(self, *, pipeline: str, kind: IdKind) -> list[str]:
        """Release the pipeline's ids of this kind, and return them."""
        owner = sa.select(pipelines.c.id).where(pipelines.c.name == pipeline).scalar_subquery()
        gone = await self._db.rows(
            sa.delete(transactional_ids)
            .where(transactional_ids.c.pipeline_id == owner, transactional_ids.c.kind == kind)
            .returning(transactional_ids.c.transactional_id)
        )
        return sorted(row.transactional_id for row in gone)

    async def of_cluster(self, *, kafka_cluster_id: str) -> list[TransactionalIdOwner]:
        """Return every owned id on this cluster, in no order."""
        rows = await self._db.rows(_SELECT.where(transactional_ids.c.kafka_cluster_id == kafka_cluster_id))
        return [_owner(row) for row in rows]

    async def owners(self, *, kafka_cluster_id: str, ids: Collection[str]) -> list[TransactionalIdOwner]:
        rows = await self._db.rows(
            _SELECT.where(
                transactional_ids.c.kafka_cluster_id == kafka_cluster_id,
                transactional_ids.c.transactional_id.in_(ids),
            )
        )
        return [_owner(row) for row in rows]

    async def names(self, *, kafka_cluster_id: str) -> list[str]:
        """Return every owned id on this cluster, in no order."""
        # As one value: tens of thousands of rows would cost more than the rest of the page.
        rows = await self._db.rows(
            sa.select(sa.func.array_agg(transactional_ids.c.transactional_id).label("ids")).where(
                transactional_ids.c.kafka_cluster_id == kafka_cluster_id
            )
        )
        return rows[0].ids or []

    async def of_pipeline(self, pipeline: str) -> list[TransactionalIdOwner]:
        rows = await self._db.rows(
            _SELECT.where(pipelines.c.name == pipeline).order_by(
                transactional_ids.c.ordinal, transactional_ids.c.task, transactional_ids.c.transactional_id
            )
        )
        return [_owner(row) for row in rows]

    async def by_pipeline(self) -> dict[str, frozenset[str]]:
        """Return every owned id, by the name of its pipeline."""
        rows = await self._db.rows(
            sa.select(pipelines.c.name, sa.func.array_agg(transactional_ids.c.transactional_id).label("ids"))
            .join(transactional_ids)
            .group_by(pipelines.c.name)
        )
        return {row.name: frozenset(row.ids) for row in rows}


def _of(pipeline: str, kafka_cluster_id: str) -> sa.ColumnElement[bool]:
    owner = sa.select(pipelines.c.id).where(pipelines.c.name == pipeline).scalar_subquery()
    return (transactional_ids.c.pipeline_id == owner) & (transactional_ids.c.kafka_cluster_id == kafka_cluster_id)


def archived_of(row: sa.Row[Any]) -> Archived | None:
    """Read the columns `archived_at` and `archived_by`."""
    return None if row.archived_at is None else Archived(since=row.archived_at, migration=row.archived_by)


def _owner(row: sa.Row[Any]) -> TransactionalIdOwner:
    return TransactionalIdOwner(
        kafka_cluster_id=row.kafka_cluster_id,
        transactional_id=row.transactional_id,
        pipeline=row.name,
        kind=IdKind(row.kind),
        ordinal=row.ordinal,
        task=row.task,
        archived=archived_of(row),
    )
