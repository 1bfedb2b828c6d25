"""The outside operations of the migration driver, beside the rows and the observed journals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from app.core.clusters.brokers import GroupDescription
from app.core.clusters.survey import Survey
from app.kit.db.unit_of_work import UnitOfWork
from app.products.migrations.look import AuditNow, Incarnation, PreflightFacts
from app.products.migrations.migration import Migration


class MigrationActs(Protocol):
    """Commands to brokers. A bounce needs none: its row is the instance's target, which the reconciler follows."""

    async def fence(self, migration: Migration, transactional_id: str, *, step: int) -> Incarnation:
        """Initialise the id, which leaves it fenced, and return the coordinator's answer. Safe to repeat.

        Raises a FencelineError if the fence failed or was not confirmed.
        """
        ...


class MigrationQuestions(Protocol):
    """Questions of single stages. Each answer names what is unknown; no broker failure raises."""

    async def preflight(self, migration: Migration, ids: tuple[str, ...]) -> PreflightFacts: ...

    async def group(self, migration: Migration) -> GroupDescription | None:
        """Describe the group as its coordinator has it now; None: no answer."""
        ...

    async def of_cluster(self, cluster: str, group: str) -> tuple[GroupDescription | None, Survey | None]:
        """Describe any group, and the cluster's brokers. Raises NotFoundError for an unknown cluster."""
        ...

    async def held_back(self, migration: Migration) -> Mapping[str, tuple[int, int]] | None:
        """Return LSO and end of each partition of the sink with an LSO below its high watermark.

        None: the brokers do not answer.
        """
        ...

    async def lost_offsets(self, migration: Migration) -> str:
        """Return why new tasks would refuse to start, as the group lost committed offsets; empty also if not known."""
        ...

    async def audit(self, uow: UnitOfWork, migration: Migration) -> AuditNow:
        """Return the audit of the migration's time, and start it if needed. The caller holds its row and commits."""
        ...
