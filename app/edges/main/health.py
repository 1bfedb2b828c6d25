"""The health of the server's parts for each /readyz: Postgres, its schema, the change feed, every loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.edges.db.changes import ChangeFeed
from app.edges.db.database import Database
from app.kit.errors import FencelineError
from app.kit.loops.supervisor import LoopState, Supervisor
from app.kit.web.dependencies import PartHealth

_PROBE_WITHIN_S = 2.0


class Health:
    """`schema_problem`: why the schema is not usable yet; None once it is."""

    def __init__(self, database: Database, changes: ChangeFeed, supervisor: Supervisor) -> None:
        self._database = database
        self._changes = changes
        self._supervisor = supervisor
        self.schema_problem: str | None = "its schema has not been checked yet"

    async def of_parts(self) -> Sequence[PartHealth]:
        return [await self._postgres(), self._schema(), self._feed(), *self._loops()]

    async def _postgres(self) -> PartHealth:
        try:
            async with asyncio.timeout(_PROBE_WITHIN_S):
                await self._database.ping()
        except TimeoutError:
            why = f"Postgres at {self._database.address} did not answer within {_PROBE_WITHIN_S:g} s"
            return PartHealth(name="postgres", is_ready=False, why_not=why)
        except FencelineError as error:
            return PartHealth(name="postgres", is_ready=False, why_not=error.message)
        return PartHealth(name="postgres", is_ready=True)

    def _schema(self) -> PartHealth:
        return PartHealth(name="schema", is_ready=self.schema_problem is None, why_not=self.schema_problem or "")

    def _feed(self) -> PartHealth:
        why_not = "the change feed is not connected; pages are refreshed every few seconds only"
        return PartHealth(name="change feed", is_ready=self._changes.is_listening, why_not=why_not)

    def _loops(self) -> list[PartHealth]:
        return [
            PartHealth(
                name=f"loop {loop.name}",
                is_ready=loop.state is not LoopState.BACKING_OFF,
                why_not=f"{loop.failures_in_a_row} failures in a row: {loop.last_error}",
            )
            for loop in self._supervisor.health()
        ]
