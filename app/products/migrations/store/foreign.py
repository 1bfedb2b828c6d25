"""Store of foreign migrations: at most one open one for each group."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from app.core.runs.store.runs import as_uuid
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError
from app.kit.storable import storable
from app.products.migrations.foreign import ForeignMigration
from app.products.migrations.tables import foreign_migrations

_C = foreign_migrations.c


class ForeignMigrationStore(DatabaseStore):
    async def add(self, migration: ForeignMigration) -> None:
        """Raises ConflictError while another one of its group is open."""
        await self._db.execute(
            sa.insert(foreign_migrations).values(
                id=migration.id,
                cluster=migration.cluster,
                consumer_group=migration.group,
                started_at=migration.started_at,
                ended_at=migration.ended_at,
                migration=msgspec.to_builtins(storable(migration)),
            )
        )

    async def get(self, migration_id: str, *, for_update: bool = False) -> ForeignMigration:
        """Raises NotFoundError."""
        known = as_uuid(migration_id)
        statement = sa.select(_C.migration).where(_C.id == known)
        row = None
        if known is not None:
            row = await self._db.row(statement.with_for_update() if for_update else statement)
        if row is None:
            raise NotFoundError(f"there is no foreign migration {migration_id}")
        return msgspec.convert(row.migration, ForeignMigration)

    async def list(self, cluster: str | None, *, limit: int) -> Sequence[ForeignMigration]:
        """Newest first, of one cluster or of all."""
        statement = sa.select(_C.migration).order_by(_C.started_at.desc(), _C.id.desc()).limit(limit)
        if cluster is not None:
            statement = statement.where(_C.cluster == cluster)
        found: builtins.list[ForeignMigration] = [
            msgspec.convert(row.migration, ForeignMigration) for row in await self._db.rows(statement)
        ]
        return found

    async def save(self, migration: ForeignMigration) -> None:
        await self._db.execute(
            sa.update(foreign_migrations)
            .where(_C.id == migration.id)
            .values(ended_at=migration.ended_at, migration=msgspec.to_builtins(storable(migration)))
        )
