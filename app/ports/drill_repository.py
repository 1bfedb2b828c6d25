"""What services ask of the database about drills."""

from __future__ import annotations

from typing import Protocol

from app.domain.drills.drill import Drill
from app.domain.page import Page


class DrillRepository(Protocol):
    async def add(self, drill: Drill) -> None:
        """Raises ConflictError while another one disturbs its pipeline."""
        ...

    async def get(self, drill_id: str, *, for_update: bool = False) -> Drill:
        """Raises NotFoundError."""
        ...

    async def list_open(self) -> tuple[Drill, ...]:
        """Oldest first: any number of which an audit is awaited, and at most one that disturbs its pipeline."""
        ...

    async def save(self, drill: Drill) -> None: ...

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Drill]:
        """Newest first, of one pipeline or of all."""
        ...
