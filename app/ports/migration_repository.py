"""What services ask of the database about migrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.domain.migrations.alarms import Alarm
from app.domain.migrations.foreign import ForeignMigration
from app.domain.migrations.migration import Migration
from app.domain.migrations.record import Evidence
from app.domain.page import Page


class MigrationRepository(Protocol):
    async def add(self, migration: Migration) -> None:
        """Raises ConflictError while another one of its pipeline is open."""
        ...

    async def get(self, migration_id: str, *, for_update: bool = False) -> Migration:
        """Raises NotFoundError."""
        ...

    async def find_open(self, pipeline: str) -> Migration | None: ...

    async def list_open(self) -> tuple[Migration, ...]:
        """Oldest first."""
        ...

    async def list_done(self) -> tuple[Migration, ...]:
        """Of each pipeline its newest migration, if that is done."""
        ...

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Migration]:
        """Newest first, of one pipeline or of all."""
        ...

    async def save(self, migration: Migration) -> None:
        """With its steps."""
        ...

    async def add_evidence(self, migration_id: str, evidence: Evidence) -> None: ...

    async def evidence(self, migration_id: str) -> Sequence[Evidence]:
        """In the order in which it came."""
        ...

    async def add_alarm(self, migration_id: str, alarm: Alarm) -> bool:
        """Whether it is new: the same key of the same kind is kept once."""
        ...

    async def alarms(self, migration_id: str) -> Sequence[Alarm]:
        """Oldest first."""
        ...


class ForeignMigrationRepository(Protocol):
    async def add(self, migration: ForeignMigration) -> None:
        """Raises ConflictError while another one of its group is open."""
        ...

    async def get(self, migration_id: str, *, for_update: bool = False) -> ForeignMigration:
        """Raises NotFoundError."""
        ...

    async def list(self, cluster: str | None, *, limit: int) -> Sequence[ForeignMigration]:
        """Newest first, of one cluster or of all."""
        ...

    async def save(self, migration: ForeignMigration) -> None: ...
