"""Runs. Their state is never stored: it is derived from the desired state and from the instances."""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.core.pipelines.tables import pipelines
from app.core.runs.instance import Instance
from app.core.runs.run import DesiredRunState, RestingGroup, Run, RunEnd, RunSummary, derive_state
from app.core.runs.store.instances import current_instances
from app.core.runs.tables.runs import runs
from app.kit.db.connection import Connection
from app.kit.db.store import DatabaseStore
from app.kit.errors import InvalidError, NotFoundError
from app.kit.page import Page, decode_cursor, encode_cursor

_SELECT = sa.select(runs, pipelines.c.name, pipelines.c.cluster, pipelines.c.kafka_cluster_id).join(
    pipelines, pipelines.c.id == runs.c.pipeline_id
)
_NEWEST = (
    sa.select(runs.c.desired, runs.c.ended_as, runs.c.starts_again)
    .where(runs.c.pipeline_id == pipelines.c.id)
    .order_by(runs.c.started_at.desc())
    .limit(1)
    .lateral("newest")
)
_RESTING = (
    sa.select(pipelines.c.kafka_cluster_id, pipelines.c.group_id, pipelines.c.name, _NEWEST.c.ended_as)
    .join(_NEWEST, sa.true())
    .where(
        sa.or_(
            _NEWEST.c.ended_as == RunEnd.STOPPED,
            sa.and_(
                _NEWEST.c.ended_as.is_(None),
                _NEWEST.c.desired != DesiredRunState.RUN,
                sa.not_(_NEWEST.c.starts_again),
            ),
        )
    )
)


class RunStore(DatabaseStore):
    async def add(self, *, pipeline: str, revision: int, by: str, now: datetime) -> Run:
        """Raises ConflictError while another run of the pipeline lives."""
        row = (
            await self._db.execute(
                sa.insert(runs)
                .values(
                    pipeline_id=sa.select(pipelines.c.id).where(pipelines.c.name == pipeline).scalar_subquery(),
                    revision=revision,
                    desired=DesiredRunState.RUN,
                    started_at=now,
                    started_by=by,
                )
                .returning(runs.c.id)
            )
        ).one()
        return await self.get(row.id)

    async def get(self, run_id: str, *, for_update: bool = False) -> Run:
        checked = checked_uuid(run_id)
        if for_update:
            await self._db.execute(sa.select(runs.c.id).where(runs.c.id == checked).with_for_update(key_share=True))
        found = await self._runs(_SELECT.where(runs.c.id == checked))
        if not found:
            raise NotFoundError(f"there is no run {run_id}; `fenceline runs list` shows all runs")
        return found[0]

    async def get_many(self, run_ids: Sequence[str]) -> builtins.list[Run]:
        """Return the existing runs among these, in no order."""
        return await self._runs(_SELECT.where(runs.c.id.in_(run_ids)))

    async def find_live(self, pipeline: str) -> Run | None:
        found = await self._runs(_SELECT.where(pipelines.c.name == pipeline, runs.c.ended_at.is_(None)))
        return found[0] if found else None

    async def list_live(self) -> builtins.list[Run]:
        return await self._runs(_SELECT.where(runs.c.ended_at.is_(None)).order_by(runs.c.started_at, runs.c.id))

    async def resting_groups(self) -> builtins.list[RestingGroup]:
        """Return the groups of pipelines whose newest run a user has paused, is draining or killing, or has stopped."""
        rows = await self._db.rows(_RESTING)
        return [
            RestingGroup(
                kafka_cluster_id=row.kafka_cluster_id,
                group=row.group_id,
                pipeline=row.name,
                is_over=row.ended_as is not None,
            )
            for row in rows
        ]

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Run]:
        """List runs, newest first."""
        statement = _SELECT.order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit + 1)
        if pipeline is not None:
            statement = statement.where(pipelines.c.name == pipeline)
        if after is not None:
            started_at, run_id = decode_cursor(after, keys=2)
            statement = statement.where(
                sa.tuple_(runs.c.started_at, runs.c.id)
                < sa.tuple_(sa.literal(cursor_moment(started_at)), sa.literal(cursor_id(run_id), runs.c.id.type))
            )
        found = await self._runs(statement)
        items = found[:limit]
        return Page(
            items=tuple(items),
            next_cursor=encode_cursor(items[-1].started_at.isoformat(), items[-1].id) if len(found) > limit else None,
        )

    async def set_desired(self, run_id: str, desired: DesiredRunState, *, starts_again: bool | None = None) -> None:
        again = {} if starts_again is None else {"starts_again": starts_again}
        await self._update(run_id, desired=desired, **again)

    async def set_target(self, run_id: str, *, revision: int, bounce_requested_at: datetime | None) -> None:
        await self._update(run_id, revision=revision, bounce_requested_at=bounce_requested_at)

    async def set_targets(self, run_id: str, targets: Mapping[int, int]) -> None:
        """Set the revision of the next lease of each of these ordinals; that of all others is the run's."""
        await self._update(run_id, targets={str(ordinal): revision for ordinal, revision in targets.items()})

    async def end(self, run_id: str, *, end: RunEnd, reason: str | None, now: datetime) -> None:
        await self._update(run_id, ended_at=now, ended_as=end, end_reason=reason)

    async def _update(self, run_id: str, **values: Any) -> None:
        await self._db.execute(sa.update(runs).where(runs.c.id == run_id).values(**values))

    async def _runs(self, statement: sa.Select[Any]) -> builtins.list[Run]:
        rows = await self._db.rows(statement)
        instances = await current_instances(self._db, [row.id for row in rows])
        return [_run(row, instances.get(row.id, [])) for row in rows]


async def run_summary(db: Connection, run_ids: Sequence[str]) -> list[RunSummary]:
    """Return short forms of the runs, for stores that show a pipeline's run beside it."""
    if not run_ids:
        return []
    rows = await db.rows(_SELECT.where(runs.c.id.in_(run_ids)))
    instances = await current_instances(db, run_ids)
    return [_run(row, instances.get(row.id, [])).summary() for row in rows]


def _run(row: sa.Row[Any], instances: Sequence[Instance]) -> Run:
    targets = {int(ordinal): revision for ordinal, revision in row.targets.items()}
    desired, end = DesiredRunState(row.desired), None if row.ended_as is None else RunEnd(row.ended_as)
    return Run(
        id=row.id,
        pipeline=row.name,
        cluster=row.cluster,
        kafka_cluster_id=row.kafka_cluster_id,
        revision=row.revision,
        desired=desired,
        state=derive_state(
            desired=desired,
            end=end,
            revision=row.revision,
            bounce_requested_at=row.bounce_requested_at,
            instances=instances,
            targets=targets,
        ),
        started_at=row.started_at,
        started_by=row.started_by,
        bounce_requested_at=row.bounce_requested_at,
        targets=targets,
        starts_again=row.starts_again,
        ended_at=row.ended_at,
        end=end,
        end_reason=row.end_reason,
        instances=tuple(instances),
    )


def checked_uuid(value: str) -> str:
    """Return `value` if it is a run's id. Raises NotFoundError otherwise."""
    found = as_uuid(value)
    if found is None:
        raise NotFoundError(f"there is no run {value}; `fenceline runs list` shows all runs")
    return found


def as_uuid(value: str) -> str | None:
    """Return it as Postgres writes it; None if it is not a UUID."""
    try:
        return str(uuid.UUID(value))
    except ValueError:
        return None


def cursor_id(value: str) -> str:
    """Return the row's id inside a cursor. Raises InvalidError at field `after`."""
    found = as_uuid(value)
    if found is None:
        raise _not_our_cursor()
    return found


def cursor_moment(value: str) -> datetime:
    """Return the time inside a cursor. Raises InvalidError at field `after`."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise _not_our_cursor() from None
    if found.tzinfo is None:
        raise _not_our_cursor()
    return found


def _not_our_cursor() -> InvalidError:
    return InvalidError("this cursor is not from Fenceline: take it from next_cursor unchanged", field="after")
