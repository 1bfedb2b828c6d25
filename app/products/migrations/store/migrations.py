"""Store of migrations: at most one open one for each pipeline, each with at most one step underway."""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.dialects import postgresql

from app.core.pipelines.tables import pipelines
from app.core.runs.store.runs import as_uuid, cursor_id, cursor_moment
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError
from app.kit.page import Page, decode_cursor, encode_cursor
from app.kit.storable import storable
from app.products.migrations.alarms import Alarm
from app.products.migrations.migration import Migration, MigrationState, MigrationStep
from app.products.migrations.record import Evidence
from app.products.migrations.tables import migration_alarms, migration_evidence, migration_steps, migrations

_C = migrations.c
_SELECT = sa.select(_C.id, _C.started_at, _C.migration)


class MigrationStore(DatabaseStore):
    async def add(self, migration: Migration) -> None:
        """Raises ConflictError while another one of its pipeline is open."""
        await self._db.execute(
            sa.insert(migrations).values(
                id=migration.id,
                pipeline_id=sa.select(pipelines.c.id).where(pipelines.c.name == migration.pipeline).scalar_subquery(),
                run_id=migration.run_id,
                started_at=migration.started_at,
                **_changeable(migration),
            )
        )
        await self._save_steps(migration)

    async def get(self, migration_id: str, *, for_update: bool = False) -> Migration:
        """Raises NotFoundError."""
        known = as_uuid(migration_id)
        statement = _SELECT.where(_C.id == known)
        found = [] if known is None else await self._found(statement.with_for_update() if for_update else statement)
        if not found:
            raise NotFoundError(f"there is no migration {migration_id}")
        return found[0]

    async def find_open(self, pipeline: str) -> Migration | None:
        found = await self._found(
            _SELECT.join(pipelines, pipelines.c.id == _C.pipeline_id).where(
                pipelines.c.name == pipeline, _C.ended_at.is_(None)
            )
        )
        return found[0] if found else None

    async def list_open(self) -> tuple[Migration, ...]:
        """Oldest first."""
        return tuple(await self._found(_SELECT.where(_C.ended_at.is_(None)).order_by(_C.started_at, _C.id)))

    async def list_done(self) -> tuple[Migration, ...]:
        """Return the newest migration of each pipeline, if that is done."""
        newest = (
            sa.select(_C.id, _C.state)
            .ext(postgresql.distinct_on(_C.pipeline_id))
            .order_by(_C.pipeline_id, _C.started_at.desc(), _C.id.desc())
            .subquery()
        )
        done = sa.select(newest.c.id).where(newest.c.state == MigrationState.DONE)
        return tuple(await self._found(_SELECT.where(_C.id.in_(done)).order_by(_C.started_at, _C.id)))

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Migration]:
        """Newest first, of one pipeline or of all."""
        statement = _SELECT.order_by(_C.started_at.desc(), _C.id.desc()).limit(limit + 1)
        if pipeline is not None:
            statement = statement.join(pipelines, pipelines.c.id == _C.pipeline_id).where(pipelines.c.name == pipeline)
        if after is not None:
            at, migration_id = decode_cursor(after, keys=2)
            last = sa.tuple_(sa.literal(cursor_moment(at)), sa.literal(cursor_id(migration_id), _C.id.type))
            statement = statement.where(sa.tuple_(_C.started_at, _C.id) < last)
        found = await self._found(statement)
        items = tuple(found[:limit])
        cursor = encode_cursor(items[-1].started_at.isoformat(), items[-1].id) if len(found) > limit else None
        return Page(items=items, next_cursor=cursor)

    async def save(self, migration: Migration) -> None:
        """Save it with its steps."""
        await self._db.execute(sa.update(migrations).where(_C.id == migration.id).values(**_changeable(migration)))
        await self._save_steps(migration)

    async def add_evidence(self, migration_id: str, evidence: Evidence) -> None:
        await self._db.execute(
            sa.insert(migration_evidence).values(
                migration_id=migration_id,
                at=evidence.at,
                who=evidence.who,
                evidence=msgspec.to_builtins(storable(evidence)),
            )
        )

    async def evidence(self, migration_id: str) -> Sequence[Evidence]:
        """Return the evidence, oldest first."""
        statement = (
            sa.select(migration_evidence.c.evidence)
            .where(migration_evidence.c.migration_id == migration_id)
            .order_by(migration_evidence.c.id)
        )
        return [msgspec.convert(row.evidence, Evidence) for row in await self._db.rows(statement)]

    async def add_alarm(self, migration_id: str, alarm: Alarm) -> bool:
        """Return whether it is new: the same key of the same kind is kept once."""
        alarm = storable(alarm)
        statement = (
            postgresql.insert(migration_alarms)
            .values(
                migration_id=migration_id,
                kind=alarm.kind,
                key=alarm.key,
                at=alarm.at,
                alarm=msgspec.to_builtins(alarm),
            )
            .on_conflict_do_nothing(constraint="uq_migration_alarms_one")
            .returning(migration_alarms.c.id)
        )
        return await self._db.row(statement) is not None

    async def alarms(self, migration_id: str) -> Sequence[Alarm]:
        """Oldest first."""
        statement = (
            sa.select(migration_alarms.c.alarm)
            .where(migration_alarms.c.migration_id == migration_id)
            .order_by(migration_alarms.c.at, migration_alarms.c.id)
        )
        return [msgspec.convert(row.alarm, Alarm) for row in await self._db.rows(statement)]

    async def _save_steps(self, migration: Migration) -> None:
        # Ended steps before new ones: two may not be underway at once.
        for step in sorted(migration.steps, key=lambda one: (one.ended_at is None, one.number)):
            values = {"kind": step.kind, "state": step.state, "step": msgspec.to_builtins(storable(step))}
            statement = postgresql.insert(migration_steps).values(
                migration_id=migration.id, number=step.number, **values
            )
            await self._db.execute(
                statement.on_conflict_do_update(index_elements=["migration_id", "number"], set_=values)
            )

    async def _found(self, statement: sa.Select[*tuple[Any, ...]]) -> builtins.list[Migration]:
        rows = await self._db.rows(statement)
        steps: defaultdict[str, builtins.list[MigrationStep]] = defaultdict(builtins.list)
        of_these = migration_steps.c.migration_id.in_([row.id for row in rows])
        for row in await self._db.rows(sa.select(migration_steps).where(of_these).order_by(migration_steps.c.number)):
            steps[row.migration_id].append(msgspec.convert(row.step, MigrationStep))
        return [replace(msgspec.convert(row.migration, Migration), steps=tuple(steps[row.id])) for row in rows]


def _changeable(migration: Migration) -> dict[str, Any]:
    return {
        "stage": migration.stage,
        "state": migration.state,
        "ended_at": migration.ended_at,
        "migration": msgspec.to_builtins(storable(replace(migration, steps=()))),
    }
